"""No module compares values by ``is``. ``is`` compares objects, and ``np.True_ is True`` is
false."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("converter", "weights", "zoo", "tests", "benchmarks")
PLAIN = {"bool", "int", "float", "str", "complex"}


def compared_by_identity(source: str) -> Iterator[str]:
    """Yield the comparisons by ``is`` of a number, a boolean or a text, and of a name to which the
    function assigns one."""
    tree = ast.parse(source)
    if not any(map(_compares_by_identity, ast.walk(tree))):
        return
    for scope in ast.walk(tree):
        if scope is tree or isinstance(scope, ast.FunctionDef | ast.Lambda):
            names = set[str]().union(*map(_named, ast.walk(scope) if scope is not tree else ()))
            for node in ast.walk(scope):
                if isinstance(node, ast.Compare) and _compares_values(node, names):
                    yield f"{node.lineno}: {ast.unparse(node)}"


def _compares_by_identity(node: ast.AST) -> bool:
    """Return whether a node compares by ``is`` with something else than None."""
    return isinstance(node, ast.Compare) and any(
        isinstance(op, ast.Is | ast.IsNot) and ast.unparse(side) != "None"
        for op, side in zip(node.ops, node.comparators, strict=True)
    )


def _compares_values(node: ast.Compare, names: set[str]) -> bool:
    """Return whether a comparison by ``is`` has a value, or one of these names, on either side."""
    sides = [node.left, *node.comparators]
    return any(
        _is_value(side) or ast.unparse(side) in names
        for i, op in enumerate(node.ops)
        if isinstance(op, ast.Is | ast.IsNot) and ast.unparse(sides[i + 1]) != "None"
        for side in sides[i : i + 2]
    )


def _is_value(node: ast.AST) -> bool:
    """Return whether an expression makes a number, a boolean or a text. Each evaluation may make
    another object."""
    computed = ast.Compare | ast.UnaryOp | ast.BinOp | ast.JoinedStr
    return isinstance(node, computed) or (isinstance(node, ast.Constant) and node.value is not None)


def _named(node: ast.AST) -> set[str]:
    """Return the names to which a node assigns such a value, or which it annotates with a plain
    type."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            return {ast.unparse(a) for a, b in zip(names, values, strict=False) if _is_value(b)}
        case ast.Assign(targets=names, value=value) if _is_value(value):
            return {*map(ast.unparse, names)}
        case ast.arg(arg=name, annotation=ast.expr() as kind):
            types = {
                name_node.id for name_node in ast.walk(kind) if isinstance(name_node, ast.Name)
            }
            return {name} if types and types <= PLAIN else set()
    return set()


def test_values_are_not_compared_by_identity() -> None:
    comparisons = [
        f"{path.relative_to(ROOT)}:{line}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in compared_by_identity(path.read_text())
    ]
    assert not comparisons


VALUES = (
    *("x is True", "x is not False", "x is 1", "x is ''", "x is (a is b)", "(a < b) is c"),
    *("x is (not y)", "x is -1", "x is a + b", "a is b is True"),
    "def f(x, y):\n    apart, same = x < y, x == y\n    return apart is x",
    "def f(wanted: bool | None, x): return x is wanted",
)
"""Comparisons of values by ``is``, which are faults."""
OBJECTS = ("x is None", "a is not b", "node.op is ops.ne", "type(x) is int", "x[0] is y.out")
"""Comparisons of objects by ``is``, which are allowed."""


def test_only_comparisons_of_values_are_faults() -> None:
    assert all(list(compared_by_identity(source)) for source in VALUES)
    assert not any(list(compared_by_identity(source)) for source in OBJECTS)
