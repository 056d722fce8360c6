"""What holds the converter together, counted: lines, tests of operations, tables of their names.

    python benchmarks/structure.py [FOLDER]

`tests of an operation` are comparisons `… .op is`, `==`, `in`; `tables` are literals at the top of
a module, and calls to make one, that name two operations or more; `runtimes` are identifiers and
strings, docstrings apart, that name ONNX Runtime outside `targets/`.
"""

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

STATED = Path(__file__).parents[1] / "converter" / "ir" / "ops"
OPERATION = re.compile(r"^ops\.\w+$")
RUNTIME = re.compile(r"onnx_?runtime", re.IGNORECASE)


def trees(folder: Path) -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted(folder.rglob("*.py"))}


def tests(tree: ast.Module) -> int:
    compared = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    sides = [[node.left, *node.comparators] for node in compared]
    return sum(any(ast.unparse(s).endswith((".op", ".op()")) for s in each) for each in sides)


def tables(tree: ast.Module, known: frozenset[str]) -> int:
    """``known`` are names of operations where these are strings."""
    values = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
    ]
    return sum(len(set(_operations(value, known))) > 1 for value in values)


def _operations(value: ast.expr, known: frozenset[str]) -> Iterator[str]:
    for node in ast.walk(value):
        if isinstance(node, ast.Attribute) and OPERATION.match(ast.unparse(node)):
            yield node.attr
        elif isinstance(node, ast.Constant) and node.value in known:
            yield node.value


def runtimes(tree: ast.Module) -> int:
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return sum(bool(RUNTIME.search(_text(node))) for node in ast.walk(tree) if id(node) not in said)


def _text(node: ast.AST) -> str:
    match node:
        case ast.Name(id=text) | ast.Attribute(attr=text) | ast.Constant(value=str(text)):
            return text
        case ast.ImportFrom(module=str(text)) | ast.alias(name=text):
            return text
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("converter"))
    folder = parser.parse_args().folder
    found = trees(folder)
    known = frozenset(name for tree in trees(STATED).values() for name in _assigned(tree))
    lines = sum(len(path.read_text().splitlines()) for path in found)
    outside = [tree for path, tree in found.items() if "targets" not in path.parts]
    print(f"lines {lines} in {len(found)} modules")
    print(f"tests of an operation {sum(map(tests, found.values()))}")
    print(f"tables of operations {sum(tables(tree, known) for tree in found.values())}")
    print(f"mentions of ONNX Runtime outside targets {sum(map(runtimes, outside))}")


def _assigned(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Name):
                yield target.id


if __name__ == "__main__":
    main()
