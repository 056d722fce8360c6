"""List all graph rules of the converter from the modules that register them."""

import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import converter
from converter.fuse.match import Recogniser
from converter.fuse.spelling import Spelling
from converter.ir import Graph, Node
from converter.ir.op import Op
from converter.ir.rewrite import Editor
from converter.targets.target import Deviation, Quirk

ANNOTATIONS = ("Rule", "Editor", "Deviation")
"""Parts of the type annotation of a mapping that mark it as a table of rules."""

PACKAGES = ("canonicalize", "legalize", "layout", "weight_folding", "fuse", "loops", "targets")


def modules() -> list[ModuleType]:
    """Import and return all modules of the packages that register rules."""
    names = [
        info.name
        for package in PACKAGES
        for info in pkgutil.walk_packages(
            import_module(f"converter.{package}").__path__, f"converter.{package}."
        )
    ]
    return [
        import_module(name) for name in (*(f"converter.{package}" for package in PACKAGES), *names)
    ]


def registered() -> dict[str, Any]:
    """Return all rules by name.

    They are rows of tables of rules, quirks, deviations and spellings; recognisers; and functions
    that take a node and an editor, return a table or a recogniser, or change a graph in place.
    Private functions are included only if a table has them.
    """
    rules: dict[str, Any] = {}
    for module in modules():
        module_name = module.__name__.removeprefix(f"{converter.__name__}.")
        for name, value in vars(module).items():
            is_own = not inspect.isfunction(value) or value.__module__ == module.__name__
            annotation = str(vars(module).get("__annotations__", {}).get(name, ""))
            is_other_mapping = isinstance(value, Mapping) and not any(
                t in annotation for t in ANNOTATIONS
            )
            for key, rule in _rules(name, value) if is_own and not is_other_mapping else ():
                rules[f"{module_name}.{key}"] = rule
    return _without_duplicates(rules)


def _rules(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if inspect.isfunction(value):
        if not name.startswith("_") and _is_registered(value):
            yield name, value
    elif isinstance(value, Mapping) and value and all(isinstance(key, Op) for key in value):
        rules = {
            op: entry.exact_rule if isinstance(entry, Deviation) else entry
            for op, entry in value.items()
        }
        yield from ((f"{name}[{op}]", rule) for op, rule in rules.items() if _is_rule(rule))
    elif isinstance(value, tuple) and value and all(isinstance(s, Spelling) for s in value):
        yield from ((f"{name}[{i}] {s.op}", (value, i)) for i, s in enumerate(value))
    elif isinstance(value, Recogniser):
        yield name, value
    elif isinstance(value, Quirk):
        yield from ((f"{name}[{op}]", rule) for op, rule in value.rules.items())
        yield from _rules(name, value.deviations)
    elif isinstance(value, tuple) and value and all(isinstance(q, Quirk) for q in value):
        for quirk in value:
            yield from _rules(quirk.name, quirk)


def _is_rule(value: Any) -> bool:
    return callable(value) and not isinstance(value, type) and len(_types(value)) == 2


def _types(fn: Callable[..., Any]) -> list[Any]:
    return [p.annotation for p in inspect.signature(fn).parameters.values()]


def _is_registered(fn: Callable[..., Any]) -> bool:
    signature = inspect.signature(fn)
    types, result = _types(fn), str(signature.return_annotation)
    if types[:2] == [Node, Editor]:
        return True
    if "dict[converter.ir.op.Op" in result and "Editor" in result:
        return True
    if signature.return_annotation is Recogniser:
        return True
    in_place = signature.return_annotation in (bool, None, Graph)
    return in_place and types in ([Graph], [Graph, bool])


def _without_duplicates(rules: dict[str, Any]) -> dict[str, Any]:
    """Remove duplicates: rows that a table takes from another one, and functions in a table."""
    ids: dict[tuple[int, str], str] = {}
    for name, value in rules.items():
        _, _, op = name.partition("[")
        ids[id(value), op] = name
    in_tables = {id(value) for name, value in rules.items() if "[" in name}
    return {
        name: value
        for name, value in rules.items()
        if name in ids.values() and ("[" in name or id(value) not in in_tables)
    }
