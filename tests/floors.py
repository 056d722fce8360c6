"""What runs with which versions: `python -m tests.floors FOLDER`, a folder for the environments.

Makes an environment for each row with `uv`, runs the suites in it, and writes the tables of
`docs/how-to/versions.md`. `python -m tests.floors FOLDER ROW…` does so for some rows and keeps what
is written of the others. Without arguments it writes the lowest versions alone.
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
    "tokenizers",
)
"""What the suites need beside the package."""

OF_THE_ZOO = (
    *("axe-playwright-python", "distributed", "duckdb", "faiss-cpu", "fsspec", "jsonschema"),
    *("matplotlib", "opencv-python-headless", "pandas", "peft", "playwright", "polars", "pyarrow"),
    *("pycocotools", "pylance", "pyyaml", "scikit-learn", "textual-image", "torch<2.14"),
    "transformers>=5.23",
)
"""What the suites of `zoo` and `weights` need beside these. transformers asks for a newer
huggingface-hub than the lowest, which the tests of the hub are run with by themselves."""


@dataclass(frozen=True)
class Suite:
    """Files, of which tier, and whether they need more than `TOOLS`."""

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
"""Heading of what is run where nothing but the package is: an import, and two exports."""


@dataclass(frozen=True)
class Row:
    """An environment: what it holds, of which Python, and which suites it runs."""

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
    """An environment with this package and the tools; returns its interpreter."""
    place = folder / re.sub(r"\W+", "-", name)
    python = place / "bin" / "python"
    _run("uv", "venv", "-q", "--allow-existing", "-p", row.python, place)
    resolution = ["--resolution", "lowest-direct"] if row.lowest else []
    pins = place / "pins.txt"
    project = [str(ROOT / "pyproject.toml"), "--extra", "cpu", "-p", row.python, "-q"]
    _run("uv", "pip", "compile", *resolution, *project, "-o", pins)
    kept = pins.read_text() if row.lowest else ""
    (place / "requirements.txt").write_text("\n".join((kept, *row.pins, *TOOLS, "onnxruntime")))
    fresh = ("--reinstall-package", "jax-onnx-zoo", "--refresh-package", "jax-onnx-zoo")
    requirements = place / "requirements.txt"
    _run("uv", "pip", "install", "-q", *fresh, "--python", python, "-r", requirements, ROOT)
    return python


def environment() -> dict[str, str]:
    """This one, without what `tests` tells this process's own XLA."""
    return {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}


def first_command(python: Path) -> str:
    """Whether the converter can be imported, and README's first command ends well."""
    with TemporaryDirectory() as empty:
        for words in (["-c", "import converter"], ["-m", "zoo.export"]):
            if subprocess.run(
                [python, *words], cwd=empty, env=environment(), check=False
            ).returncode:
                return "**no**"
    return "yes"


def add_tools(python: Path) -> None:
    """Install what tests of the zoo need, and what that needs above the lowest versions."""
    requirements = python.parents[1] / "requirements.txt"
    lines = [
        line
        for line in requirements.read_text().splitlines()
        if not line.startswith("huggingface-hub==")
    ]
    requirements.write_text("\n".join((*lines, *OF_THE_ZOO)))
    _run("uv", "pip", "install", "-q", "--no-build", "--python", python, "-r", requirements)


def outcome(python: Path, suite: Suite) -> str:
    """How a suite went: how many tests passed, were skipped, and failed, if any."""
    # Old libraries warn of newer ones that they were not made for.
    options = ["-n", "0", "-q", "-rsf", "-o", "addopts=", "-W", "default::DeprecationWarning"]
    command = [python, "-m", "pytest", *options, "-m", suite.tier, *suite.files.split()]
    how = {"cwd": ROOT, "env": environment(), "capture_output": True, "text": True}
    done = subprocess.run(command, **how, check=False)
    sys.stdout.write(f"{' '.join(map(str, command))}\n{done.stdout}\n")
    if done.returncode > 1:
        return "**error**"
    found = {word: int(count) for count, word in COUNTS.findall(done.stdout.splitlines()[-1])}
    skipped = found.pop("skipped", 0)
    failed = sum(count for word, count in found.items() if word != "passed")
    words = [f"{found.get('passed', 0)}"]
    words += [f"{skipped} skipped"] if skipped else []
    return ", ".join([*words, *([f"**{failed} failed**"] if failed else [])])


def _run(*command: object) -> None:
    subprocess.run([*map(str, command)], check=True)


def lowest() -> Iterator[str]:
    """The table of the lowest version of each library, as `pyproject.toml` has it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    yield "| library | lowest |"
    yield "|---|---|"
    yield f"| Python | {project['requires-python'].removeprefix('>=')} |"
    for text in (*project["dependencies"], *project["optional-dependencies"]["cpu"]):
        library = Requirement(text)
        (version,) = (each.version for each in library.specifier if each.operator == ">=")
        yield f"| {library.name} | {version} |"


def results(lines: dict[str, str]) -> Iterator[str]:
    """The table of what was run: some rows, and the others as they are on the page."""
    found = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    old = {line.split("|")[1].strip(): line for line in found}
    heads = [FIRST, *(suite.name for suite in SUITES)]
    yield f"| | {' | '.join(heads)} |"
    yield f"|---|{'---:|' * len(heads)}"
    for name in ROWS:
        yield from filter(None, [lines.get(name) or old.get(name)])


def write(heading: str, lines: Iterator[str]) -> None:
    """Put a table into the page."""
    begin, end = f"<!-- {heading}: written by tests/floors.py -->", f"<!-- end of {heading} -->"
    table = "\n".join(lines)
    before, rest = PAGE.read_text().split(begin)
    PAGE.write_text(f"{before}{begin}\n\n{table}\n\n{end}{rest.split(end, 1)[1]}")


def main() -> None:
    """Run the rows that are named, or all."""
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
