"""What runs with which versions: `python -m tests.floors FOLDER`, a folder for the environments.

Makes an environment for each row with `uv`, runs the suites in it, and writes the table of
`docs/how-to/versions.md`. `python -m tests.floors FOLDER ROW…` does so for some rows and keeps what
is written of the others.
"""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-to" / "versions.md"

TOOLS = (
    *("absl-py", "beartype", "coverage", "equimo", "flax", "hypothesis", "optax", "packaging"),
    *("onnx<1.24", "pytest>=9", "pytest-xdist", "safetensors", "tokenizers"),
)
"""What the suites need beside the package."""

SUITES = {
    "programs of JAX": ("tests/programs/test_programs.py", "not full", 60),
    "rules": ("tests/rules", "not full", 25),
    "Equimo families": ("tests/converter/test_equimo_families.py", "full", 2),
    "frameworks": ("tests/frameworks", "not full", 3),
}
"""What runs: files, of which tier, and how many tests of them are drawn."""

SEED = 1


@dataclass(frozen=True)
class Row:
    """An environment: what it holds, and of which Python."""

    python: str
    pins: tuple[str, ...] = ()
    lowest: bool = False


ROWS = {
    "lowest of everything": Row("3.11", lowest=True),
    **{
        f"jax {version}": Row("3.11", (f"jax=={version}", "onnxruntime<1.33"))
        for version in ("0.7.2", "0.8.2", "0.9.2", "0.10.2")
    },
    "jax 0.12.0": Row("3.13", ("jax>=0.12,<0.13", "onnxruntime<1.33")),
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
    _run("uv", "pip", "install", "-q", "--python", python, "-r", place / "requirements.txt", ROOT)
    return python


def outcome(python: Path, files: str, tier: str, count: int) -> str:
    """How a suite went: how many tests passed, were skipped, and failed, if any."""
    # Old libraries warn of newer ones that they were not made for.
    draw = ["--draw", f"{SEED}/{count}/30", "-m", tier, "-W", "default::DeprecationWarning"]
    command = [python, "-m", "pytest", "-n", "0", "-q", "-rs", "-o", "addopts=", *draw, files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
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


def write(lines: dict[str, str]) -> None:
    """Put rows into the page's table."""
    text = PAGE.read_text()
    old = {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("|")}
    rows = [lines.get(name) or old.get(name, "") for name in ROWS]
    head = f"| | {' | '.join(SUITES)} |\n|---|{'---:|' * len(SUITES)}\n"
    table = head + "\n".join(filter(None, rows))
    begin, end = "<!-- versions: written by tests/floors.py -->", "<!-- end -->"
    before, rest = text.split(begin)
    PAGE.write_text(f"{before}{begin}\n\n{table}\n\n{end}{rest.split(end, 1)[1]}")


def main() -> None:
    """Run the rows that are named, or all."""
    folder, *names = sys.argv[1:]
    for name in names or ROWS:
        python = make(name, ROWS[name], Path(folder))
        cells = [outcome(python, *suite) for suite in SUITES.values()]
        write({name: f"| {name} | {' | '.join(cells)} |"})


if __name__ == "__main__":
    main()
