"""Make small mistakes in the sources, and find out which default test notices each.

python benchmarks/mutations.py --count 100 --seed 1 [--only PLACE] [--show] [--map FILE]

A mistake inverts a comparison, a connective, a sign, a number or a truth value at one position in
`converter/`, `weights/` or `zoo/`. It is made in a copy of the tracked files. Mistakes are drawn
with the seed.

A map lists the default tests that run each line. The tests that run the mistaken lines are tried
first, those that run the fewest lines before the others, and then the files that they are in, until
a test fails. For a line that runs when its module is imported, the tests that run any line of the
module are tried, or those in the nearest folder, and finally all tests of the package and of the
whole project. The map is a database of `coverage`. If FILE does not exist, the default tests run
once to create it. The program prints one line for each mistake. The exit code is 1 if no test
notices one of them.
"""

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from multiprocessing import get_context
from pathlib import Path
from queue import SimpleQueue

import pytest
from coverage import CoverageData

ROOT = Path(__file__).parents[1]
PACKAGES = ("converter", "weights", "zoo")
LIMIT = 1800
"""Largest time of a batch of tests, in seconds. A batch may contain all tests of a package. A
mistake may cause an endless loop."""

BATCHES = (8, 40, 250)
"""Numbers of tests that run together, in order. The tests that run the fewest lines come first."""

FULL_FILES = 2
"""Number of test files that run completely at the end. A test that reuses the setup of another test
is not in the map."""

OPPOSITES = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}


@dataclass(frozen=True)
class Mistake:
    """Expression of a file, and the text that replaces it."""

    path: Path
    node: ast.expr
    mistaken: str

    def __str__(self) -> str:
        return f"{self.path}:{self.node.lineno} {ast.unparse(self.node)} -> {self.mistaken}"

    def apply(self) -> str:
        """Return the text of the file with the mistake."""
        lines = (ROOT / self.path).read_bytes().splitlines(keepends=True)
        first, last = self.node.lineno - 1, self.node.end_lineno - 1
        before = lines[first][: self.node.col_offset]
        after = lines[last][self.node.end_col_offset :]
        lines[first : last + 1] = [before + f"({self.mistaken})".encode() + after]
        return b"".join(lines).decode()


def find_mistakes(path: Path) -> Iterator[Mistake]:
    """Yield all mistakes that can be made in a file. Type annotations, text and assertions are
    excluded."""
    tree = ast.parse((ROOT / path).read_text())
    excluded = {
        id(inner)
        for node in ast.walk(tree)
        for part in _excluded_parts(node)
        for inner in ast.walk(part)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.expr)
            and id(node) not in excluded
            and (mistaken := _mistaken_text(node))
        ):
            yield Mistake(path, node, mistaken)


def _excluded_parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node that no mistake is made in: annotations, decorators, assertions,
    and keywords of `zip`."""
    if isinstance(node, ast.Assert):
        yield node.test
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "zip":
        yield from node.keywords
    for name in ("annotation", "returns", "decorator_list"):
        parts = getattr(node, name, None)
        yield from parts if isinstance(parts, list) else filter(None, [parts])


def _mistaken_text(node: ast.expr) -> str | None:
    match node:
        case ast.Compare(left, [sign], [right]):
            return ast.unparse(ast.Compare(left, [OPPOSITES[type(sign)]()], [right]))
        case ast.BoolOp(sign, values):
            return ast.unparse(ast.BoolOp(OPPOSITES[type(sign)](), values))
        case ast.BinOp(left, sign, right) if type(sign) in OPPOSITES and not _is_text(node):
            return ast.unparse(ast.BinOp(left, OPPOSITES[type(sign)](), right))
        case ast.UnaryOp(ast.Not(), inner):
            return ast.unparse(inner)
        case ast.Constant(bool(value)):
            return str(not value)
        case ast.Constant(int(value)):
            return str(value + 1)
    return None


def _is_text(node: ast.AST) -> bool:
    return any(isinstance(n, ast.JoinedStr | ast.List | ast.Tuple) for n in ast.walk(node)) or any(
        isinstance(n, ast.Constant) and isinstance(n.value, str) for n in ast.walk(node)
    )


def tracked_files() -> list[Path]:
    process = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    return [Path(line) for line in process.stdout.splitlines()]


def draw_mistakes(count: int, seed: str) -> list[Mistake]:
    """Return random mistakes. The share of a file is proportional to the number of its possible
    mistakes."""
    sources = [p for p in tracked_files() if p.suffix == ".py" and p.parts[0] in PACKAGES]
    everything = [mistake for path in sources for mistake in find_mistakes(path)]
    return random.Random(seed).sample(everything, count)


class CoverageMap:
    """Default tests by the lines that they run."""

    def __init__(self, path: Path) -> None:
        self.data = CoverageData(str(path))
        self.data.read()

    @cached_property
    def widths(self) -> Counter[str]:
        """Number of lines that each test runs."""
        return Counter(
            _test_of(context)
            for path in self.data.measured_files()
            for contexts in self.data.contexts_by_lineno(path).values()
            for context in contexts
        )

    def find_tests(self, mistake: Mistake) -> list[list[str]]:
        """Return batches of tests that run the mistaken lines, or else lines of the same module."""
        lines = self.data.contexts_by_lineno(str(mistake.path))
        mistaken = range(mistake.node.lineno, mistake.node.end_lineno + 1)
        project_tests = sorted(ROOT.glob("tests/test_*.py"))
        all_tests = [
            f"tests/{mistake.path.parts[0]}",
            *(path.relative_to(ROOT).as_posix() for path in project_tests),
        ]
        if tests := self._of(lines, mistaken):
            return make_batches(tests)
        if tests := self._of(lines, lines):
            return [*make_batches(tests), all_tests]
        return [[str(nearest_tests(mistake.path))], all_tests]

    def _of(self, lines: Mapping[int, list[str]], reached: Iterable[int]) -> list[str]:
        """Return the tests that run some of these lines, those that run the fewest lines first."""
        contexts = {context for line in reached for context in lines.get(line, ())}
        tests = {_test_of(context) for context in contexts} - {""}
        return sorted(tests, key=lambda test: self.widths[test])


def nearest_tests(path: Path) -> Path:
    """Return the folder of tests that corresponds to the folder of a module, or to an enclosing
    one."""
    folder = Path("tests", *path.parent.parts)
    while not any((ROOT / folder).glob("**/test_*.py")):
        folder = folder.parent
    return folder


def _test_of(context: str) -> str:
    """Return the name of the test from a context, which consists of the name and the phase of the
    test."""
    return context.rpartition("|")[0]


def make_map(path: Path) -> None:
    """Run the default tests and save the lines that each test runs."""
    with tempfile.TemporaryDirectory() as folder:
        copy_sources(Path(folder))
        sources = [f"--cov={package}" for package in PACKAGES]
        command = [sys.executable, "-m", "pytest", *QUIET, *sources]
        command += ["--cov-context=test", "--cov-report="]
        process = subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": folder})
        if process.returncode:
            raise SystemExit("the default tests fail without a mistake")
        shutil.move(Path(folder) / ".coverage", path)


PRELOADED = ["equinox", "jax.numpy", "onnx_ir", "onnxruntime", "pytest", "torch", "transformers"]
"""Modules that a server process imports once for the processes that it forks. None of them belongs
to this repository."""


def run_tests(folder: Path, arguments: list[str]) -> None:
    """Run pytest in this process and exit. The output goes to a file in the folder."""
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    with open(OUTPUT_FILE, "wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    # Some plugins of pytest are already imported.
    ignored = "ignore::pytest.PytestAssertRewriteWarning"
    status = pytest.main([*QUIET, "-W", ignored, "-n", "0", "-x", "-rfE", *arguments])
    sys.stdout.flush()
    os._exit(status)


QUIET = ["-p", "no:cacheprovider"]
OUTPUT_FILE = "said.txt"


def copy_sources(folder: Path) -> None:
    for path in tracked_files():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)


def make_batches(tests: list[str]) -> list[list[str]]:
    """Return arguments for pytest: growing batches of the tests, and finally the files that they
    are in."""
    ends = [0, *accumulate(BATCHES)]
    parts = [tests[start:end] for start, end in pairwise(ends)]
    files = Counter(test.partition("::")[0] for test in tests)
    return [*filter(None, parts), [file for file, _ in files.most_common(FULL_FILES)]]


def run_until_failure(folder: Path, tests: list[list[str]]) -> str | None:
    """Return the name of the first test that fails in a folder with a mistake, or None."""
    context = get_context("forkserver")
    for arguments in tests:
        process = context.Process(target=run_tests, args=(folder, arguments))
        process.start()
        process.join(LIMIT)
        if process.exitcode is None:
            process.kill()
            process.join()
            return f"{arguments[0]} does not end"
        output = (folder / OUTPUT_FILE).read_text(errors="replace")
        if "ERROR: not found" in output:
            raise SystemExit(f"the map does not match the tests, so delete it: {output}")
        if process.exitcode:
            failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
            return failed[1] if failed else output.strip().splitlines()[-1]
    return None


def try_mistake(mistake: Mistake, tests: list[list[str]], folders: SimpleQueue[Path]) -> str | None:
    """Return the test that notices a mistake, or None. The mistake is made in a copy of the sources
    from `folders`, which no other mistake uses at the same time."""
    folder = folders.get()
    try:
        (folder / mistake.path).write_text(mistake.apply())
        return run_until_failure(folder, tests)
    finally:
        shutil.copy(ROOT / mistake.path, folder / mistake.path)
        folders.put(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", help="use only mistakes whose position begins with this")
    parser.add_argument("--show", action="store_true", help="print the mistakes and run no tests")
    parser.add_argument(
        "--map",
        type=Path,
        default=ROOT / ".coverage-map",
        help="database of the lines that each test runs",
    )
    parser.add_argument(
        "--jobs", type=int, default=2, help="number of mistakes that are tried at once"
    )
    options = parser.parse_args()
    drawn = draw_mistakes(options.count, options.seed)
    if options.only:
        drawn = [mistake for mistake in drawn if str(mistake).startswith(options.only)]
    if options.show:
        print(*drawn, sep="\n")
        return 0
    if not options.map.exists():
        make_map(options.map)
    coverage_map = CoverageMap(options.map)
    tests = [coverage_map.find_tests(mistake) for mistake in drawn]
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    get_context("forkserver").set_forkserver_preload(PRELOADED)
    survived = 0
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(options.jobs) as pool:
        folders = SimpleQueue[Path]()
        for number in range(options.jobs):
            folders.put(Path(work) / str(number))
            copy_sources(Path(work) / str(number))
        verdicts = pool.map(lambda m, t: try_mistake(m, t, folders), drawn, tests)
        for mistake, names, caught in zip(drawn, tests, verdicts, strict=True):
            survived += caught is None
            tried = " ".join(names[-1])
            print(f"{mistake} | {caught or f'SURVIVES, {tried} at last'}", flush=True)
    print(f"{len(drawn) - survived} of {len(drawn)} are noticed")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
