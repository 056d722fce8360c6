"""Build the documentation site: `python docs/build.py` writes `build/docs` and then `site/`.

`build/docs` contains the committed pages and those that are generated from the sources: the command
line, the list of passes, the settings of checkpoints, the faults of runtimes with the files that
show them, and the notebooks with their stored outputs. mkdocstrings writes the reference of the
packages. The command fails if a link is broken.
"""

import html
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbconvert.exporters import MarkdownExporter

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # Python puts only the folder of a script there

from converter.pipeline.passes import PASSES, Pass  # noqa: E402
from tests.judges.habits.page import details_page  # noqa: E402

TARGET = ROOT / "build" / "docs"

TYPER = ("-m", "typer", "zoo.cli.app", "utils", "docs", "--name", "zoo")
EXAMPLES = re.compile(r"^(Examples?):\n((?:zoo .*\n)+)", re.MULTILINE)

LINKS = (
    (re.compile(r"\]\(((?:\.\./)*)\.\./notebooks/(\w+)\.ipynb\)"), r"](\1notebooks/\2.md)"),
    (re.compile(r"\]\(\.\./\.\./converter/pipeline/passes\.py\)"), "](../reference/passes.md)"),
    (
        re.compile(r"\]\(\.\./\.\./tests/golden/setting_outcomes\.json\)"),
        "](../reference/settings.md)",
    ),
)
"""Links to files of the repository that have a page on the site."""

NOTEBOOK_LINKS = (
    (re.compile(r"\]\((\w+)\.ipynb\)"), r"](\1.md)"),
    (re.compile(r"\]\(\.\./docs/"), "](../"),
)

SETTINGS = ROOT / "tests" / "golden" / "setting_outcomes.json"
SETTINGS_HEAD = """# Settings of checkpoints

Each setting of these classes of transformers and timm was set to other values, and a small network
of the library was saved with it. A setting is *followed* if the zoo then computes what the library
computes, and *refused* if the zoo refuses to read the checkpoint and names the setting. A setting
that is followed at some values and refused at others is in both columns. The third column counts
the settings that change nothing in the library.

{total:,} settings of {classes} classes:

| class | settings | without effect | followed | refused |
|---|---|---|---|---|
"""

PASSES_HEAD = """# The passes in their order

[Passes](../concepts/passes.md) says what they are for. A graph is canonicalized after a pass that
is marked with * and changed something. The passes of a group (a number and a letter) run again, one
after the other, while the first of them changes anything, {most} times at most.

| | pass | what it does | from opset |
|---|---|---|---|
"""


def write_pages(target: Path = TARGET) -> None:
    """Write all pages of the site into a folder. Its earlier content is deleted."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ROOT / "docs", target, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for page in target.rglob("*.md"):
        page.write_text(replace_links(page.read_text(), LINKS))
    (target / "reference" / "command-line.md").write_text(command_line_page())
    (target / "reference" / "passes.md").write_text(passes_page())
    (target / "reference" / "settings.md").write_text(settings_page())
    (target / "reference" / "runtime-faults.md").write_text(details_page())
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        write_notebook(notebook, target / "notebooks")


def replace_links(text: str, links: tuple[tuple[re.Pattern[str], str], ...]) -> str:
    """Return the text with each pattern replaced."""
    for pattern, replacement in links:
        text = pattern.sub(replacement, text)
    return text


def command_line_page() -> str:
    """Return Typer's page of all commands, with the examples as code blocks."""
    command = [sys.executable, *TYPER]
    text = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True).stdout
    return EXAMPLES.sub(
        lambda found: f"**{found[1]}**:\n\n```sh\n{html.unescape(found[2])}```\n",
        text.strip() + "\n",
    )


def passes_page() -> str:
    """Return the page of the passes of a conversion."""
    (limit,) = {row.max_repetitions for row in PASSES if not isinstance(row, Pass)}
    return PASSES_HEAD.format(most=limit) + "".join(passes_rows())


def passes_rows() -> Iterator[str]:
    """Yield a row for each pass. A pass of a group has the number of the group and a letter."""
    for number, row in enumerate(PASSES, 1):
        if isinstance(row, Pass):
            yield passes_row(str(number), row)
            continue
        for letter, step in zip("abcdef", row.passes, strict=False):
            yield passes_row(f"{number}{letter}", step)


def passes_row(number: str, step: Pass) -> str:
    """Return the row of one pass."""
    mark = "\\*" if step.canonical else ""
    return f"| {number} | {step.name}{mark} | {step.purpose} | {step.since} |\n"


def settings_page() -> str:
    """Return the page with the outcome of every setting of a checkpoint."""
    classes = json.loads(SETTINGS.read_text())
    total = sum(map(len, classes.values()))
    head = SETTINGS_HEAD.format(total=total, classes=len(classes))
    return head + "".join(settings_row(name, outcomes) for name, outcomes in classes.items())


def settings_row(name: str, outcomes: dict[str, list[str]]) -> str:
    """Return the row of one class. ``outcomes`` contains the outcomes of each setting by its
    path."""
    idle = sum(words == ["without effect"] for words in outcomes.values())
    cells = []
    for word in ("followed", "refused"):
        settings = (path for path, words in outcomes.items() if word in words)
        names = dict.fromkeys(path.rpartition(".")[2] for path in settings)
        cells.append(", ".join(f"`{setting}`" for setting in names))
    return f"| `{name}` | {len(outcomes)} | {idle} | {' | '.join(cells)} |\n"


def write_notebook(path: Path, folder: Path) -> None:
    """Write the page of a notebook and its images into a folder."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"unique_key": path.stem, "output_files_dir": f"{path.stem}_files"}
    text, resources = MarkdownExporter().from_notebook_node(notebook, resources=resources)
    folder.mkdir(exist_ok=True)
    (folder / f"{path.stem}.md").write_text(replace_links(text, NOTEBOOK_LINKS))
    for name, content in resources["outputs"].items():
        picture = folder / name
        picture.parent.mkdir(exist_ok=True)
        picture.write_bytes(content)


def main() -> int:
    """Write the pages and build the site. Return the exit code of zensical."""
    write_pages()
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
