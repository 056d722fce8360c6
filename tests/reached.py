"""Print the functions that no default test calls: `python -m tests.reached`, after a run under
coverage.

A rule, decomposition, lowering, recogniser, reader or command is a function. A default test has to
call each function in `converter/`, `weights/` and `zoo/cli/`; otherwise the command ends with 1.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from coverage import CoverageData

ROOT = Path(__file__).parents[1]
FOLDERS = ("converter", "weights", "zoo/cli")


def functions(path: Path) -> Iterator[tuple[str, set[int]]]:
    """Yield each function of a file that has statements, and the lines of those statements."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            body = [part for part in node.body if not _is_bare_constant(part)]
            lines = {line for part in body for line in range(part.lineno, part.end_lineno + 1)}
            if lines:
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", lines


def _is_bare_constant(node: ast.stmt) -> bool:
    """Return whether a statement is a docstring or the three dots of a protocol."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def uncalled(data: CoverageData) -> Iterator[str]:
    """Yield the functions that never ran."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            ran = set(data.lines(str(path.relative_to(ROOT))) or ())
            yield from (name for name, lines in functions(path) if not lines & ran)


def main() -> bool:
    """Print the functions that no default test calls. Return whether there are any."""
    data = CoverageData(str(ROOT / ".coverage"))
    data.read()
    names = list(uncalled(data))
    print(*names, f"{len(names)} functions are called by no default test", sep="\n")
    return bool(names)


if __name__ == "__main__":
    sys.exit(main())
