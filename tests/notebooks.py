"""Notebooks, run as a reader runs them, without a network and without anybody's weights.

`python -m tests.notebooks [NAME…]` runs those of `notebooks/` anew and stores their outputs,
without what changes from one run or machine to the next.
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

FOLDER = Path(__file__).parents[1] / "notebooks"
LONGEST = 240
"""Seconds that a cell may take on a machine that has more to do."""

MANY = 10_000
"""Colours that a diagram has at most, the shades of its letters among them."""

BUSY = re.compile(r"^[^\n]*the machine was busy[^\n]*\n?", re.MULTILINE)
"""What is said where other programs run."""

NUMBER = re.compile(r"sha256 \w+|(?<=\nint8: )\w+|\d[\d,.]*(e[+-]\d+)?")
"""What another machine may tell otherwise: the kind of int8 that is the fastest there as well."""


def run(path: Path, folder: Path) -> NotebookNode:
    """A notebook's file with the outputs that it has in an empty folder and an empty home."""
    return run_notebook(nbformat.read(path, as_version=4), folder)


def run_notebook(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """The same of a notebook that is in no file."""
    programs = Path(sys.executable).parent
    own = {
        "HOME": str(folder),
        "HF_HUB_OFFLINE": "1",
        "MPLCONFIGDIR": matplotlib.get_configdir(),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }
    places = {name: os.environ[name] for name in ("PYTHONPATH", "LANG") if name in os.environ}
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=LONGEST, resources=resources)
    client.execute(env=places | own)
    # Without times, versions and the pieces in which texts happened to arrive.
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for cell in notebook.cells:
        cell.metadata = {key: value for key, value in cell.metadata.items() if key == "tags"}
        if cell.cell_type == "code":
            cell.outputs = merged(cell.outputs)
    return notebook


def merged(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Outputs of which no two texts of one stream follow each other; pictures of 256 colours.

    Progress that was shown below a cell and is empty since then is none.
    """
    found: list[NotebookNode] = []
    for output in (small(each) for each in outputs if each.get("data") != {"text/plain": ""}):
        last = found[-1] if found else NotebookNode()
        if "text" not in output or last.get("name") != output.name:
            found.append(output)
        else:
            last.text += output.text
    for output in found:
        if "text" in output:
            output.text = re.sub(r"\x1b\[[\d;]*m", "", output.text)  # what makes letters bold
    return found


def small(output: NotebookNode) -> NotebookNode:
    """A diagram in a third of its bytes. A photograph keeps all of its colours."""
    if picture := output.get("data", {}).get("image/png"):
        image = Image.open(BytesIO(b64decode(picture))).convert("RGB")
        if image.getcolors(MANY):
            image.quantize(256).save(written := BytesIO(), "PNG", optimize=True)
            output.data["image/png"] = b64encode(written.getvalue()).decode()
    return output


def told(cell: NotebookNode) -> dict[str, str]:
    """What a cell prints, by stream, and what else it shows: that there is a picture, not which.

    In a cell that is tagged `varies` the numbers are those of a machine or a moment: only how the
    text looks without them is told.
    """
    found: dict[str, str] = {}
    for output in cell.outputs:
        for kind, text in output.get("data", {output.get("name"): output.get("text")}).items():
            text = "".join(BUSY.split(text)) if isinstance(text, str) else text
            found[kind] = found.get(kind, "") + ("." if kind.startswith("image/") else text)
    if "varies" in cell.metadata.get("tags", ()):
        return {kind: " ".join(NUMBER.sub("#", text).split()) for kind, text in found.items()}
    return found


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        if not sys.argv[1:] or path.stem in sys.argv[1:]:
            with tempfile.TemporaryDirectory() as folder:
                nbformat.write(run(path, Path(folder)), path)
            print(path.name, f"{path.stat().st_size / 1e3:.0f} KB")
