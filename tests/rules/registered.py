"""All rules that the converter has, found where they are registered."""

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

TABLES = ("Rule", "Editor", "Deviation")
"""What is said of the type of a table of rules."""

ROOMS = ("canonicalize", "legalize", "layout", "weight_folding", "fuse", "loops", "targets")


def modules() -> list[ModuleType]:
    names = [
        info.name
        for room in ROOMS
        for info in pkgutil.walk_packages(
            import_module(f"converter.{room}").__path__, f"converter.{room}."
        )
    ]
    return [import_module(name) for name in (*(f"converter.{room}" for room in ROOMS), *names)]


def registered() -> dict[str, Any]:
    """By name: tables of rules, quirks, deviations, recognisers, spellings, and the functions that
    take a node and an editor, give a table or a recogniser, or change a graph in place.

    Private functions are there where a table has them.
    """
    found: dict[str, Any] = {}
    for module in modules():
        place = module.__name__.removeprefix(f"{converter.__name__}.")
        for name, value in vars(module).items():
            own = not inspect.isfunction(value) or value.__module__ == module.__name__
            told = str(vars(module).get("__annotations__", {}).get(name, ""))
            table = isinstance(value, Mapping) and not any(t in told for t in TABLES)
            for key, each in _rules(name, value) if own and not table else ():
                found[f"{place}.{key}"] = each
    return _once(found)


def _rules(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if inspect.isfunction(value):
        if not name.startswith("_") and _is_registered(value):
            yield name, value
    elif isinstance(value, Mapping) and value and all(isinstance(key, Op) for key in value):
        rules = {
            op: each.exact_rule if isinstance(each, Deviation) else each
            for op, each in value.items()
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


def _once(found: dict[str, Any]) -> dict[str, Any]:
    """What a table takes over from another one, and what is in a table, only there."""
    ids: dict[tuple[int, str], str] = {}
    for name, value in found.items():
        _, _, op = name.partition("[")
        ids[id(value), op] = name
    in_tables = {id(value) for name, value in found.items() if "[" in name}
    return {
        name: value
        for name, value in found.items()
        if name in ids.values() and ("[" in name or id(value) not in in_tables)
    }
