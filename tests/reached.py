"""Functions that no default test calls: `python -m tests.reached`, after a run under coverage.

A rule, decomposition, lowering, recogniser, reader or command is a function. Each function in
`converter/`, `weights/` and `zoo/cli/` has to be called by a default test; ends with 1 otherwise.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from coverage import CoverageData

ROOT = Path(__file__).parents[1]
PLACES = ("converter", "weights", "zoo/cli")


def functions(path: Path) -> Iterator[tuple[str, set[int]]]:
    """Every function of a file that does something, and the lines of what it does."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            body = [each for each in node.body if not _says_nothing(each)]
            lines = {line for each in body for line in range(each.lineno, each.end_lineno + 1)}
            if lines:
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", lines


def _says_nothing(node: ast.stmt) -> bool:
    """A docstring, or the three dots of a protocol."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def uncalled(data: CoverageData) -> Iterator[str]:
    """The functions that never ran."""
    for place in PLACES:
        for path in sorted((ROOT / place).rglob("*.py")):
            ran = set(data.lines(str(path.relative_to(ROOT))) or ())
            yield from (name for name, lines in functions(path) if not lines & ran)


def main() -> bool:
    data = CoverageData(str(ROOT / ".coverage"))
    data.read()
    names = list(uncalled(data))
    print(*names, f"{len(names)} functions are called by no default test", sep="\n")
    return bool(names)


if __name__ == "__main__":
    sys.exit(main())
