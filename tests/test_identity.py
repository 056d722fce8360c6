"""Values are compared by ``==``: ``is`` asks for one object, and ``np.True_ is True`` is false."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = sorted(
    p
    for room in ("converter", "weights", "zoo", "tests", "benchmarks")
    for p in (ROOT / room).rglob("*.py")
)
OBJECTS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)
"""What can give an object that is known: a name, a field, an item, a result."""
COMPUTED = (ast.Compare, ast.UnaryOp, ast.BinOp, ast.Constant, ast.JoinedStr)
"""What makes a number, a truth or a text, which is an object of its own each time."""
SCOPES = (ast.FunctionDef, ast.Lambda, ast.ClassDef)
PLAIN = {"bool", "int", "float", "str", "complex"}


def compared_by_identity(source: str) -> Iterator[str]:
    """The comparisons by ``is`` of something else than objects that are known.

    Both sides of ``is`` name an object, ``None`` aside, and no name that the function around it
    gives a number, a truth or a text: the right side is then a class, an operation, a member of an
    enum, a sentinel, or a value of a graph.
    """
    scopes: list[ast.AST] = [ast.parse(source)]
    for scope in scopes:
        own = list(_own(scope))
        scopes += [node for node in own if isinstance(node, SCOPES)]
        computed = set[str]().union(*map(_computed, own))
        for node in own:
            if isinstance(node, ast.Compare) and not _compares_objects(node, computed):
                yield f"{node.lineno}: {ast.unparse(node)}"


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """What is in a scope, and not in one that is inside of it."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, SCOPES):
            yield from _own(node)


def _compares_objects(node: ast.Compare, computed: set[str]) -> bool:
    sides = [node.left, *node.comparators]
    return all(
        _is_none(side) or (isinstance(side, OBJECTS) and ast.unparse(side) not in computed)
        for i, op in enumerate(node.ops)
        if isinstance(op, ast.Is | ast.IsNot) and not _is_none(sides[i + 1])
        for side in sides[i : i + 2]
    )


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _computed(node: ast.AST) -> set[str]:
    """Names that are given what is computed, or said to be of a plain type."""
    if isinstance(node, ast.Assign):
        return set[str]().union(*(_bound(target, node.value) for target in node.targets))
    if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
        types = {n.id for n in ast.walk(node.annotation) if isinstance(n, ast.Name)}
        name = node.arg if isinstance(node, ast.arg) else ast.unparse(node.target)
        return {name} if types and types <= PLAIN else set()
    return set()


def _bound(target: ast.expr, value: ast.expr) -> set[str]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = zip(target.elts, value.elts, strict=False)
        return set[str]().union(*(_bound(t, v) for t, v in pairs))
    plain = isinstance(value, COMPUTED) and not _is_none(value)
    return {target.id} if isinstance(target, ast.Name) and plain else set()


def test_values_are_not_compared_by_identity() -> None:
    found = [
        f"{p.relative_to(ROOT)}:{line}"
        for p in FILES
        for line in compared_by_identity(p.read_text())
    ]
    assert not found, "compared by `is`:\n" + "\n".join(dict.fromkeys(found))


VALUES = (
    *("x is True", "x is not False", "x is 1", "x is ''", "x is (a is b)", "(a < b) is c"),
    *("x is (not y)", "x is -1", "x is a + b", "a is b is True"),
    "def f(x, y):\n    apart, same = x < y, x == y\n    return apart is x",
    "def f(wanted: bool | None, x): return x is wanted",
)
KNOWN = (
    "x is None",
    "a is not b",
    "node.op is ops.ne",
    "type(x) is int",
    "x[0] is y.out",
    "f(x) is y",
)


def test_comparisons_of_values_are_found_and_of_objects_are_not() -> None:
    assert all(list(compared_by_identity(source)) for source in VALUES)
    assert not any(list(compared_by_identity(source)) for source in KNOWN)
