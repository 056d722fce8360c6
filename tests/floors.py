"""Run the tests with the lowest and other versions of libraries: `python -m tests.floors FOLDER`,
where FOLDER receives the environments.

The command makes an environment for each row with `uv`, runs the suites in it, and writes the
tables of `docs/how-to/versions.md`. `python -m tests.floors FOLDER ROW…` does so for some rows and
keeps the written results of the others. Without arguments it writes only the lowest versions.
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-to" / "versions.md"

TOOLS = (
    *("absl-py", "beartype", "coverage", "dm-haiku", "equimo", "flax", "hypothesis", "jraph"),
    *("keras", "onnx<1.24", "optax", "packaging", "pytest>=9", "pytest-xdist", "safetensors"),
    *("sybil", "tokenizers"),
)
"""Packages that the suites need besides this one."""

OF_THE_ZOO = (
    *("axe-playwright-python", "distributed", "duckdb", "faiss-cpu", "fsspec", "jsonschema"),
    *("matplotlib", "opencv-python-headless", "pandas", "peft", "playwright", "polars", "pyarrow"),
    *("pycocotools", "pylance", "pyyaml", "scikit-learn", "textual-image", "torch<2.14"),
    "transformers>=5.23",
)
"""Packages that the suites of `zoo` and `weights` need in addition. transformers requires a newer
huggingface-hub than the lowest, so the tests of the hub run in a suite without it."""


@dataclass(frozen=True)
class Suite:
    """Test files of one tier. `of_the_zoo` says whether they need `OF_THE_ZOO` besides `TOOLS`."""

    name: str
    files: str
    tier: str = "not full"
    of_the_zoo: bool = False


SUITES = (
    Suite("converter", "tests/programs tests/rules tests/converter"),
    Suite("Equimo families", "tests/converter/test_equimo_families.py", "full"),
    Suite("frameworks", "tests/frameworks"),
    Suite("hub", "tests/zoo/artifacts tests/weights/sources"),
    Suite("weights and zoo", "tests/weights tests/zoo", of_the_zoo=True),
)

FIRST = "README's first command"
"""Heading of the column for an environment with nothing but the package: an import of the
converter, and README's first command."""


@dataclass(frozen=True)
class Row:
    """An environment: its version of Python, its pinned requirements, whether it has the lowest
    versions of everything, and the suites that run in it."""

    python: str
    pins: tuple[str, ...] = ()
    lowest: bool = False
    suites: tuple[str, ...] = ("converter", "Equimo families", "frameworks")


NEWEST = "onnxruntime<1.33"

ROWS = {
    "lowest of everything": Row("3.11", lowest=True, suites=tuple(s.name for s in SUITES)),
    **{
        f"jax {version}": Row("3.11", (f"jax=={version}", NEWEST))
        for version in ("0.7.2", "0.8.2", "0.9.2", "0.10.2")
    },
    "jax 0.12.0": Row("3.13", ("jax>=0.12,<0.13", NEWEST)),
    **{
        f"onnxruntime {version}": Row("3.11", (f"onnxruntime=={version}",), suites=("converter",))
        for version in ("1.23.1", "1.24.4", "1.26.0", "1.28.0")
    },
}

COUNTS = re.compile(r"(\d+) (passed|failed|skipped|errors?)")


def make(name: str, row: Row, folder: Path) -> Path:
    """Make an environment with this package and the tools. Return its interpreter."""
    venv = folder / re.sub(r"\W+", "-", name)
    python = venv / "bin" / "python"
    _run("uv", "venv", "-q", "--allow-existing", "-p", row.python, venv)
    resolution = ["--resolution", "lowest-direct"] if row.lowest else []
    pins = venv / "pins.txt"
    project = [str(ROOT / "pyproject.toml"), "--extra", "cpu", "-p", row.python, "-q"]
    _run("uv", "pip", "compile", *resolution, *project, "-o", pins)
    pinned = pins.read_text() if row.lowest else ""
    (venv / "requirements.txt").write_text("\n".join((pinned, *row.pins, *TOOLS, "onnxruntime")))
    fresh = ("--reinstall-package", "jax-onnx-zoo", "--refresh-package", "jax-onnx-zoo")
    requirements = venv / "requirements.txt"
    _run("uv", "pip", "install", "-q", *fresh, "--python", python, "-r", requirements, ROOT)
    return python


def environment() -> dict[str, str]:
    """Return this process's environment variables, without the XLA flags that `tests` sets."""
    return {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}


def first_command(python: Path) -> str:
    """Return "yes" if the converter can be imported and README's first command succeeds."""
    with TemporaryDirectory() as empty:
        for words in (["-c", "import converter"], ["-m", "zoo.export"]):
            if subprocess.run(
                [python, *words], cwd=empty, env=environment(), check=False
            ).returncode:
                return "**no**"
    return "yes"


def add_tools(python: Path) -> None:
    """Install the packages of `OF_THE_ZOO`. The pin of huggingface-hub is removed, because one of
    them requires a newer version."""
    requirements = python.parents[1] / "requirements.txt"
    lines = [
        line
        for line in requirements.read_text().splitlines()
        if not line.startswith("huggingface-hub==")
    ]
    requirements.write_text("\n".join((*lines, *OF_THE_ZOO)))
    _run("uv", "pip", "install", "-q", "--no-build", "--python", python, "-r", requirements)


def outcome(python: Path, suite: Suite) -> str:
    """Run a suite. Return the numbers of tests that passed, were skipped and failed."""
    # Old libraries emit deprecation warnings with newer ones.
    options = ["-n", "0", "-q", "-rsf", "-o", "addopts=", "-W", "default::DeprecationWarning"]
    command = [python, "-m", "pytest", *options, "-m", suite.tier, *suite.files.split()]
    options = {"cwd": ROOT, "env": environment(), "capture_output": True, "text": True}
    process = subprocess.run(command, **options, check=False)
    sys.stdout.write(f"{' '.join(map(str, command))}\n{process.stdout}\n")
    if process.returncode > 1:
        return "**error**"
    numbers = {word: int(count) for count, word in COUNTS.findall(process.stdout.splitlines()[-1])}
    skipped = numbers.pop("skipped", 0)
    failed = sum(count for word, count in numbers.items() if word != "passed")
    cell = [f"{numbers.get('passed', 0)}"]
    cell += [f"{skipped} skipped"] if skipped else []
    return ", ".join([*cell, *([f"**{failed} failed**"] if failed else [])])


def _run(*command: object) -> None:
    subprocess.run([*map(str, command)], check=True)


def lowest() -> Iterator[str]:
    """Yield the lines of the table of each library's lowest version, which `pyproject.toml`
    states."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    yield "| library | lowest |"
    yield "|---|---|"
    yield f"| Python | {project['requires-python'].removeprefix('>=')} |"
    for text in (*project["dependencies"], *project["optional-dependencies"]["cpu"]):
        library = Requirement(text)
        (version,) = (clause.version for clause in library.specifier if clause.operator == ">=")
        yield f"| {library.name} | {version} |"


def results(lines: dict[str, str]) -> Iterator[str]:
    """Yield the lines of the table of results. `lines` are the new rows by name; the page's present
    rows are kept for the others."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    present = {line.split("|")[1].strip(): line for line in rows}
    heads = [FIRST, *(suite.name for suite in SUITES)]
    yield f"| | {' | '.join(heads)} |"
    yield f"|---|{'---:|' * len(heads)}"
    for name in ROWS:
        yield from filter(None, [lines.get(name) or present.get(name)])


def write(heading: str, lines: Iterator[str]) -> None:
    """Replace the table under a heading of the page."""
    start, end = f"<!-- {heading}: written by tests/floors.py -->", f"<!-- end of {heading} -->"
    table = "\n".join(lines)
    before, after = PAGE.read_text().split(start)
    PAGE.write_text(f"{before}{start}\n\n{table}\n\n{end}{after.split(end, 1)[1]}")


def main() -> None:
    """Run the rows that the command line names, or all rows."""
    write("lowest", lowest())
    folder, *names = sys.argv[1:] or [None]
    for name in (names or ROWS) if folder else ():
        row = ROWS[name]
        python = make(name, row, Path(folder))
        cells = [first_command(python)]
        for suite in SUITES:
            if suite.name in row.suites and suite.of_the_zoo:
                add_tools(python)
            cells.append(outcome(python, suite) if suite.name in row.suites else "")
        write("versions", results({name: f"| {name} | {' | '.join(cells)} |"}))


if __name__ == "__main__":
    main()
