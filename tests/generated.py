"""Committed files that a command writes, and digests of what they were written from.

    python -m tests.generated                   print the stale files, each with its command
    python -m tests.generated --record FILE...  record the present inputs of these files

A command that writes a file records the digest of its inputs, in `generated.json`. A command that
writes a part of a file records nothing. Use `--record` after it, or if a change of the inputs does
not affect the file. `test_generated.py` compares the recorded digests with the present inputs. The
digest of a Python file does not depend on comments, docstrings and formatting. The digest of a
notebook depends on its code only.

A file that a test compares with its source in milliseconds needs no digest: `manifest.schema.json`,
`runtimes.md`, `models.md`, `performance.md`, and the tables of `own-checkpoints.md`, `answers.md`
and `versions.md`. Measurements of numbers, speeds and planted faults take hours and have no digest
either. Their pages state the date or the machine.
"""

import argparse
import ast
import hashlib
import json
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORD = Path(__file__).with_name("generated.json")
PYTHON = ".".join(platform.python_version_tuple()[:2])
"""The version of Python, on which the digest of a Python file depends."""

Digests = dict[str, str]
"""Digests of the inputs, by the path of the generated file."""


@dataclass(frozen=True)
class Generated:
    """A file or folder, the command that writes it, and patterns of the files that it depends on.
    Paths are relative to the root."""

    path: str
    command: str
    inputs: tuple[str, ...]


def golden(name: str, *inputs: str) -> Generated:
    """Return the row of a file of `tests/golden`, which the program `make_NAME.py` writes in an
    environment with another library, and perhaps another version of Python."""
    path, program = f"tests/golden/{name}", f"tests/golden/make_{Path(name).stem}.py"
    command = f"python {program}, and then python -m tests.generated --record {path}"
    return Generated(path, command, (program, *inputs))


PROGRAMS = ("tests/programs/*.py", "tests/forms/*.py", "tests/forms/steps/*.py")
LAYERS = "tests/frameworks/*.py"
TIMM = "tests/references/timm_settings.py"

FILES = (
    # `test_coverage.py` compares the columns that follow from the converter's tables.
    Generated(
        "docs/coverage.md",
        "python -m tests.coverage",
        (
            *("tests/coverage/*.py", *PROGRAMS, "tests/converter/test_rules.py"),
            "tests/converter/harness/*.py",
        ),
    ),
    Generated("docs/frameworks.md", "python -m tests.frameworks", (LAYERS,)),
    # A part of the programs is converted by `test_fusion_counts.py`.
    Generated(
        "tests/fusion_counts.json",
        "python -m tests.fusion_counts --write",
        (*PROGRAMS, LAYERS, "tests/seeded.py", "tests/fusion_counts.py"),
    ),
    Generated(
        "tests/golden/setting_outcomes.json",
        "python -m tests.zoo.checkpoints.setting_outcomes",
        ("tests/references/settings.py", TIMM, "tests/golden/timm_settings.json"),
    ),
    Generated("notebooks", "python -m tests.notebooks", ("notebooks/*.ipynb",)),
    golden("equimo_2_orders.json"),
    golden("published.json"),
    golden("timm_fields.json"),
    golden("timm_nano.npz", "tests/synthetic.py"),
    golden("timm_options.json", "tests/drawn_state.py"),
    golden("timm_published.json"),
    golden("timm_settings.json", TIMM),
    golden("vit5_nano.npz", "tests/synthetic.py"),
)


def digest(row: Generated) -> str:
    """Return the digest of a row's inputs."""
    hashed = hashlib.sha256()
    for path in (path for pattern in row.inputs for path in find_files(pattern)):
        hashed.update(f"{path.relative_to(ROOT)}\n{digested_text(path)}\n".encode())
    return hashed.hexdigest()[:16]


def find_files(pattern: str) -> list[Path]:
    """Return the files that match a pattern. Test modules match only if the pattern names them.

    **Raises** `AssertionError` if no file matches.
    """
    paths = [
        path
        for path in sorted(ROOT.glob(pattern))
        if path.name in pattern or not path.name.startswith("test_")
    ]
    assert paths, f"no file matches {pattern}"
    return paths


def digested_text(path: Path) -> str:
    """Return the part of a file that its digest contains.

    For Python, it is the syntax tree without docstrings. For a notebook, it is the source of the
    code cells. For other files, it is the full text.
    """
    text = path.read_text()
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        return "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    return ast.dump(without_docstrings(ast.parse(text))) if path.suffix == ".py" else text


def without_docstrings(tree: ast.Module) -> ast.Module:
    """Remove strings that are statements, in place, and return the tree."""
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [line for line in body if not is_string(line)]
    return tree


def is_string(line: ast.AST) -> bool:
    """Return whether a statement is a string alone."""
    return (
        isinstance(line, ast.Expr)
        and isinstance(line.value, ast.Constant)
        and isinstance(line.value.value, str)
    )


def read() -> tuple[str, Digests]:
    """Return the version of Python that recorded the digests, and the digests."""
    recorded = json.loads(RECORD.read_text()) if RECORD.exists() else {"python": "", "inputs": {}}
    return recorded["python"], recorded["inputs"]


def record(*paths: str) -> None:
    """Record the present inputs of files that were written, and delete digests without a row.

    The digests of all files are those of one version of Python. **Raises** `SystemExit` if the
    other files were recorded with another version.
    """
    python, recorded = read()
    if python not in ("", PYTHON) and {row.path for row in FILES} - {*paths}:
        raise SystemExit(
            f"the digests were recorded with Python {python}, and this is {PYTHON}: use Python "
            f"{python}, or name all files after `python -m tests.generated --record`."
        )
    inputs = {
        row.path: digest(row) if row.path in paths else recorded.get(row.path, "") for row in FILES
    }
    RECORD.write_text(json.dumps({"python": PYTHON, "inputs": inputs}, indent=1) + "\n")


def find_stale() -> Iterator[str]:
    """Yield a sentence for each file whose inputs are not the recorded ones."""
    recorded = read()[1]
    for row in FILES:
        if recorded.get(row.path) != digest(row):
            yield f"{row.path} is older than {', '.join(row.inputs)}: {row.command}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.generated")
    paths = [row.path for row in FILES]
    parser.add_argument("--record", nargs="+", choices=paths, default=[], metavar="FILE")
    if written := parser.parse_args().record:
        record(*written)
    print("\n".join(find_stale()) or "no file is stale")


if __name__ == "__main__":
    main()
