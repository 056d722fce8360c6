"""Run notebooks as a reader runs them, without a network and without weights that exist already.

`python -m tests.notebooks [NAME…]` runs notebooks of `notebooks/` again and stores their outputs,
without the parts that change between two runs or machines.
"""

import os
import re
import sys
import tempfile
from base64 import b64decode, b64encode
from io import BytesIO
from pathlib import Path

import matplotlib
import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from PIL import Image

from tests.generated import record

FOLDER = Path(__file__).parents[1] / "notebooks"
LONGEST = 240
"""The seconds that a cell may take on a busy machine."""

MAX_COLOURS = 10_000
"""The largest number of colours of a diagram, shades of its letters included."""

BUSY = re.compile(r"^[^\n]*the machine was busy[^\n]*\n?", re.MULTILINE)
"""The line that says that other programs ran during a measurement."""

NUMBER = re.compile(r"sha256 \w+|(?<=\nint8: )\w+|\d[\d,.]*(e[+-]\d+)?")
"""Texts that may differ on another machine. They include the kind of int8, which is the fastest
kind there."""


def run(path: Path, folder: Path) -> NotebookNode:
    """Run the notebook of a file in an empty folder, which is also its home. Return it with its
    outputs."""
    return run_notebook(nbformat.read(path, as_version=4), folder)


def run_notebook(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """Run a notebook in an empty folder, which is also its home. Return it with its outputs."""
    programs = Path(sys.executable).parent
    variables = {
        "HOME": str(folder),
        "HF_HUB_OFFLINE": "1",
        "MPLCONFIGDIR": matplotlib.get_configdir(),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }
    inherited = {name: os.environ[name] for name in ("PYTHONPATH", "LANG") if name in os.environ}
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=LONGEST, resources=resources)
    client.execute(env=inherited | variables)
    # Leave out times and versions, and join the pieces in which a text arrived.
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        cell.metadata = {key: value for key, value in cell.metadata.items() if key == "tags"}
        if cell.cell_type == "code":
            cell.outputs = merge(cell.outputs)
    return notebook


def merge(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Join adjacent texts of one stream, and reduce pictures to 256 colours.

    A progress bar that was shown below a cell and was cleared is left out.
    """
    joined: list[NotebookNode] = []
    for output in (small(item) for item in outputs if item.get("data") != {"text/plain": ""}):
        last = joined[-1] if joined else NotebookNode()
        if "text" not in output or last.get("name") != output.name:
            joined.append(output)
        else:
            last.text += output.text
    for output in joined:
        if "text" in output:
            # Remove control sequences for bold letters.
            output.text = re.sub(r"\x1b\[[\d;]*m", "", output.text)
    return joined


def small(output: NotebookNode) -> NotebookNode:
    """Reduce a diagram to 256 colours, a third of its bytes. A photograph keeps its colours."""
    if picture := output.get("data", {}).get("image/png"):
        image = Image.open(BytesIO(b64decode(picture))).convert("RGB")
        if image.getcolors(MAX_COLOURS):
            image.quantize(256).save(buffer := BytesIO(), "PNG", optimize=True)
            output.data["image/png"] = b64encode(buffer.getvalue()).decode()
    return output


def outputs_of(cell: NotebookNode) -> dict[str, str]:
    """Return the text that a cell prints by stream, and a mark for each picture that it shows.

    In a cell that is tagged `varies`, numbers depend on the machine and the moment, so they are
    replaced by `#`.
    """
    texts: dict[str, str] = {}
    for output in cell.outputs:
        for kind, text in output.get("data", {output.get("name"): output.get("text")}).items():
            text = "".join(BUSY.split(text)) if isinstance(text, str) else text
            texts[kind] = texts.get(kind, "") + ("." if kind.startswith("image/") else text)
    if "varies" in cell.metadata.get("tags", ()):
        return {kind: " ".join(NUMBER.sub("#", text).split()) for kind, text in texts.items()}
    return texts


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not sys.argv[1:] or path.stem in sys.argv[1:]:
            with tempfile.TemporaryDirectory() as folder:
                nbformat.write(run(path, Path(folder)), path)
            print(path.name, f"{path.stat().st_size / 1e3:.0f} KB")
    if not sys.argv[1:]:
        record("notebooks")
