"""Deliberate mistakes in the sources, drawn by a seed, and which default test notices each.

    python benchmarks/mutations.py --count 100 --seed 1 [--only PLACE] [--show] [--map FILE]

A mistake turns a comparison, a connective, a sign, a number or a truth value around in one place of
`converter/`, `weights/` or `zoo/`. It is made in a copy of the tracked files. A map says which
default tests reach the mistaken lines: those run, the narrowest first, and then the files that they
are in, until one fails. Of a line that runs when its module is imported these are the tests that
reach the module, or of the nearest folder, and at last all of the package. The map is a database of
`coverage`; where FILE is not there, the default tests run once and make it. One line a mistake is
printed; the exit code is 1 if one survives.
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
"""Seconds that a batch of tests may take, all of a package too; a mistake may hang."""

BATCHES = (8, 40, 250)
"""How many of the tests that reach a mistake run at once, the narrowest first."""

FILES = 2
"""Of so many of their files all tests run at last: one whose setup was shared is not in the map."""

TURNED = {
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
    """One expression of a file, and what it is made."""

    path: Path
    node: ast.expr
    wrong: str

    def __str__(self) -> str:
        return f"{self.path}:{self.node.lineno} {ast.unparse(self.node)} -> {self.wrong}"

    def applied(self) -> str:
        """The file's text with the mistake in it."""
        lines = (ROOT / self.path).read_bytes().splitlines(keepends=True)
        first, last = self.node.lineno - 1, self.node.end_lineno - 1
        before = lines[first][: self.node.col_offset]
        after = lines[last][self.node.end_col_offset :]
        lines[first : last + 1] = [before + f"({self.wrong})".encode() + after]
        return b"".join(lines).decode()


def mistakes(path: Path) -> Iterator[Mistake]:
    """Every mistake that can be made in a file; types, texts and checks are left alone."""
    tree = ast.parse((ROOT / path).read_text())
    alone = {
        id(inner)
        for node in ast.walk(tree)
        for part in _left_alone(node)
        for inner in ast.walk(part)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and id(node) not in alone and (wrong := _wrong(node)):
            yield Mistake(path, node, wrong)


def _left_alone(node: ast.AST) -> Iterator[ast.AST]:
    """Types, and what is only asserted, which changes nothing where it is right."""
    if isinstance(node, ast.Assert):
        yield node.test
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "zip":
        yield from node.keywords
    for name in ("annotation", "returns", "decorator_list"):
        found = getattr(node, name, None)
        yield from found if isinstance(found, list) else filter(None, [found])


def _wrong(node: ast.expr) -> str | None:
    match node:
        case ast.Compare(left, [sign], [right]):
            return ast.unparse(ast.Compare(left, [TURNED[type(sign)]()], [right]))
        case ast.BoolOp(sign, values):
            return ast.unparse(ast.BoolOp(TURNED[type(sign)](), values))
        case ast.BinOp(left, sign, right) if type(sign) in TURNED and not _is_text(node):
            return ast.unparse(ast.BinOp(left, TURNED[type(sign)](), right))
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


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    return [Path(line) for line in listed.stdout.splitlines()]


def drawn(count: int, seed: str) -> list[Mistake]:
    """So many mistakes; a file has its share by how many can be made in it."""
    sources = [p for p in tracked() if p.suffix == ".py" and p.parts[0] in PACKAGES]
    everything = [mistake for path in sources for mistake in mistakes(path)]
    return random.Random(seed).sample(everything, count)


class Map:
    """Which default tests reach which lines."""

    def __init__(self, path: Path) -> None:
        self.data = CoverageData(str(path))
        self.data.read()

    @cached_property
    def widths(self) -> Counter[str]:
        """How many lines each test reaches."""
        return Counter(
            _test_of(context)
            for path in self.data.measured_files()
            for contexts in self.data.contexts_by_lineno(path).values()
            for context in contexts
        )

    def reaching(self, mistake: Mistake) -> list[list[str]]:
        """Tests that run the mistaken lines, or else their module, in batches."""
        lines = self.data.contexts_by_lineno(str(mistake.path))
        mistaken = range(mistake.node.lineno, mistake.node.end_lineno + 1)
        whole = [f"tests/{mistake.path.parts[0]}"]
        if tests := self._of(lines, mistaken):
            return batches(tests)
        if tests := self._of(lines, lines):
            return [*batches(tests), whole]
        return [[str(nearest(mistake.path))], whole]

    def _of(self, lines: Mapping[int, list[str]], reached: Iterable[int]) -> list[str]:
        """Tests that run some of the lines; those that run little first."""
        contexts = {context for line in reached for context in lines.get(line, ())}
        tests = {_test_of(context) for context in contexts} - {""}
        return sorted(tests, key=lambda test: self.widths[test])


def nearest(path: Path) -> Path:
    """The folder of tests that is called like the module's, or like one above it."""
    near = Path("tests", *path.parent.parts)
    while not any((ROOT / near).glob("**/test_*.py")):
        near = near.parent
    return near


def _test_of(context: str) -> str:
    """A context is the name of a test and the phase of it."""
    return context.rpartition("|")[0]


def make_map(path: Path) -> None:
    """Run the default tests, and keep what each of them reaches."""
    with tempfile.TemporaryDirectory() as folder:
        copy_sources(Path(folder))
        sources = [f"--cov={package}" for package in PACKAGES]
        command = [sys.executable, "-m", "pytest", *QUIET, *sources]
        command += ["--cov-context=test", "--cov-report="]
        done = subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": folder})
        if done.returncode:
            raise SystemExit("the default tests fail without any mistake")
        shutil.move(Path(folder) / ".coverage", path)


PRELOADED = ["equinox", "jax.numpy", "onnx_ir", "onnxruntime", "pytest", "torch", "transformers"]
"""What a server imports once, for the processes that it forks; none of it is of this tree."""


def run_tests(folder: Path, arguments: list[str]) -> None:
    """Run pytest in this process, which ends with it; what is said goes to a file in the folder."""
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    with open(SAID, "wb") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    # Some of its plugins are imported already.
    ignored = "ignore::pytest.PytestAssertRewriteWarning"
    status = pytest.main([*QUIET, "-W", ignored, "-n", "0", "-x", "-rfE", *arguments])
    sys.stdout.flush()
    os._exit(status)


QUIET = ["-p", "no:cacheprovider"]
SAID = "said.txt"


def copy_sources(folder: Path) -> None:
    for path in tracked():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)


def batches(tests: list[str]) -> list[list[str]]:
    """Arguments for pytest: the tests themselves, more and more at once, and their files."""
    ends = [0, *accumulate(BATCHES)]
    parts = [tests[start:end] for start, end in pairwise(ends)]
    files = Counter(test.partition("::")[0] for test in tests)
    return [*filter(None, parts), [file for file, _ in files.most_common(FILES)]]


def caught_by(folder: Path, tests: list[list[str]]) -> str | None:
    """The first default test that fails in a folder with a mistake."""
    context = get_context("forkserver")
    for arguments in tests:
        process = context.Process(target=run_tests, args=(folder, arguments))
        process.start()
        process.join(LIMIT)
        if process.exitcode is None:
            process.kill()
            process.join()
            return f"{arguments[0]} does not end"
        said = (folder / SAID).read_text(errors="replace")
        if "ERROR: not found" in said:
            raise SystemExit(f"the map is of other tests: {said}")
        if process.exitcode:
            failed = re.search(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)
            return failed[1] if failed else said.strip().splitlines()[-1]
    return None


def judged(mistake: Mistake, tests: list[list[str]], folders: SimpleQueue[Path]) -> str | None:
    """What notices a mistake, in a copy of the sources that nobody else uses meanwhile."""
    folder = folders.get()
    try:
        (folder / mistake.path).write_text(mistake.applied())
        return caught_by(folder, tests)
    finally:
        shutil.copy(ROOT / mistake.path, folder / mistake.path)
        folders.put(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", help="the mistakes at places that begin so")
    parser.add_argument("--show", action="store_true", help="draw them, and run nothing")
    parser.add_argument(
        "--map", type=Path, default=ROOT / ".coverage-map", help="which test reaches what"
    )
    parser.add_argument("--jobs", type=int, default=2, help="so many mistakes are tried at once")
    options = parser.parse_args()
    chosen = drawn(options.count, options.seed)
    if options.only:
        chosen = [mistake for mistake in chosen if str(mistake).startswith(options.only)]
    if options.show:
        print(*chosen, sep="\n")
        return 0
    if not options.map.exists():
        make_map(options.map)
    reached = Map(options.map)
    tests = [reached.reaching(mistake) for mistake in chosen]
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    get_context("forkserver").set_forkserver_preload(PRELOADED)
    survived = 0
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(options.jobs) as pool:
        folders = SimpleQueue[Path]()
        for number in range(options.jobs):
            folders.put(Path(place) / str(number))
            copy_sources(Path(place) / str(number))
        verdicts = pool.map(lambda m, t: judged(m, t, folders), chosen, tests)
        for mistake, names, caught in zip(chosen, tests, verdicts, strict=True):
            survived += caught is None
            tried = " ".join(names[-1])
            print(f"{mistake} | {caught or f'SURVIVES, {tried} at last'}", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} are noticed")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
