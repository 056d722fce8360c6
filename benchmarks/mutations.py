"""Deliberate mistakes in the sources, drawn by a seed, and which default test notices each.

    python benchmarks/mutations.py --count 30 --seed 1 [--only PLACE] [--show]

A mistake turns a comparison, a connective, a sign, a number or a truth value around in one place of
`converter/`, `weights/` or `zoo/`. It is made in a copy of the tracked files. The files of tests
that share most words with it run first, then those of the same folder, of the package, and all
others, until one fails. One line a mistake is printed; the exit code is 1 if a mistake survives.
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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("converter", "weights", "zoo")
LIMIT = 1500
"""Seconds that the tests of one folder may take; a mistake may hang."""

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
    """Every mistake that can be made in a file; types and texts are left alone."""
    tree = ast.parse((ROOT / path).read_text())
    typed = {
        id(inner)
        for node in ast.walk(tree)
        for name in ("annotation", "returns", "decorator_list")
        for hint in _listed(getattr(node, name, None))
        for inner in ast.walk(hint)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and id(node) not in typed and (wrong := _wrong(node)):
            yield Mistake(path, node, wrong)


def _listed(found: ast.AST | list[ast.AST] | None) -> list[ast.AST]:
    return found if isinstance(found, list) else [found] if found else []


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


LIKELY = 6
"""Files of tests that are tried first."""


def likely(mistake: Mistake) -> list[str]:
    """The files of tests that have the most words of the module and of the mistaken line."""
    lines = (ROOT / mistake.path).read_text().splitlines()
    said = f"{mistake.path.with_suffix('')} {lines[mistake.node.lineno - 1]}".lower()
    words = {word for word in re.findall(r"[a-z]{4,}", said) if word not in PACKAGES}
    tests = [p for p in tracked() if p.parts[0] == "tests" and p.name.startswith("test_")]
    texts = {str(p): f"{p.stem * 9} {(ROOT / p).read_text()}".lower() for p in tests}
    rarity = {word: 1 / (1 + sum(word in text for text in texts.values())) for word in words}

    def score(path: str) -> float:
        return sum(min(9, texts[path].count(word)) * rarity[word] for word in words)

    return sorted(texts, key=score, reverse=True)[:LIKELY]


def stages(mistake: Mistake) -> Iterator[list[str]]:
    """Arguments for pytest: likely files, the nearest folder of tests, the package's, all."""
    yield likely(mistake)
    path = mistake.path
    near = Path("tests", *path.parent.parts)
    while not any((ROOT / near).glob("**/test_*.py")):
        near = near.parent
    package = Path("tests", path.parts[0])
    yield [str(near)]
    if near != package:
        yield [str(package), f"--ignore={near}"]
    yield ["tests", f"--ignore={package}"]


def caught_by(folder: Path, mistake: Mistake) -> str | None:
    """The first default test that fails in a folder with a mistake."""
    for arguments in stages(mistake):
        command = [sys.executable, "-m", "pytest", "-x", "-rfE", "-p", "no:cacheprovider"]
        try:
            ran = subprocess.run(
                [*command, *arguments],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(folder)},
                capture_output=True,
                text=True,
                timeout=LIMIT,
            )
        except subprocess.TimeoutExpired:
            return f"{arguments[0]} does not end"
        if ran.returncode:
            found = re.search(r"^(?:FAILED|ERROR) (\S+)", ran.stdout, re.MULTILINE)
            return found[1] if found else (ran.stdout + ran.stderr).strip().splitlines()[-1]
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", help="the mistakes at places that begin so")
    parser.add_argument("--show", action="store_true", help="draw them, and run nothing")
    options = parser.parse_args()
    chosen = drawn(options.count, options.seed)
    if options.only:
        chosen = [mistake for mistake in chosen if str(mistake).startswith(options.only)]
    if options.show:
        print(*chosen, sep="\n")
        return 0
    survived = 0
    with tempfile.TemporaryDirectory() as copy:
        for path in tracked():
            (Path(copy) / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, Path(copy) / path)
        for mistake in chosen:
            (Path(copy) / mistake.path).write_text(mistake.applied())
            caught = caught_by(Path(copy), mistake)
            shutil.copy(ROOT / mistake.path, Path(copy) / mistake.path)
            survived += caught is None
            print(f"{mistake} | {caught or 'SURVIVES'}", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} are noticed")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
