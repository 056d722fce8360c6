"""Stored notebooks are complete, small and free of errors, and running them again gives the stored
outputs."""

import ast
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[1]
NOTEBOOKS = pytest.mark.parametrize(
    "path", sorted(ROOT.glob("notebooks/*.ipynb")), ids=lambda path: path.stem
)
LARGEST = 400_000
"""The largest number of bytes of a notebook."""

OURS = {"converter", "weights", "zoo"}
PACKAGES = {"PIL": "pillow", "onnx_ir": "onnx-ir", "sklearn": "scikit-learn"}
"""Packages whose name differs from that of their module."""


def imported(cells):
    """Yield the modules that cells import. Cells of other languages and magics are left out."""
    for cell in cells:
        text = "".join(cell["source"])
        text = "" if text.startswith("%%sh") else re.sub(r"(?m)^[%!].*$", "", text)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                yield from (alias.name.split(".")[0] for alias in node.names)
            if isinstance(node, ast.ImportFrom):
                yield node.module.split(".")[0]


def required(extra):
    """Return the names of the packages that `pip install 'jax-onnx-zoo[EXTRA]'` requires."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [*project["dependencies"], *project["optional-dependencies"][extra]]
    own_extras = [
        extra_match[1]
        for line in requirements
        if (extra_match := re.match(r"jax-onnx-zoo\[(.+)\]", line))
    ]
    names = {re.match(r"[\w-]+", line)[0] for line in requirements}
    return names.union(*(required(other) for other in own_extras))


@NOTEBOOKS
def test_stored_notebooks_are_complete_and_small(path):
    text = path.read_text()
    code = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert len(text.encode()) < LARGEST
    assert [cell["execution_count"] for cell in code] == [*range(1, 1 + len(code))]
    outputs = [output for cell in code for output in cell["outputs"]]
    assert "image/png" in {kind for output in outputs for kind in output.get("data", {})}
    assert not [output for output in outputs if output["output_type"] == "error"]
    printed = "".join("".join(output.get("text", "")) for output in outputs)
    assert not re.search(r"Warning|Traceback|/tmp/|/home/|/root/", printed)
    modules = set(imported(code)) - OURS - sys.stdlib_module_names
    assert {PACKAGES.get(name, name) for name in modules} <= required("notebooks")


@NOTEBOOKS
def test_running_a_notebook_again_gives_the_stored_outputs(path, tmp_path):
    pytest.importorskip("nbclient", reason="notebooks need the extra [notebooks]")
    import nbformat

    from tests.notebooks import outputs_of, run

    stored = nbformat.read(path, as_version=4)
    rerun = run(path, tmp_path)
    for stored_cell, new_cell in zip(stored.cells, rerun.cells, strict=True):
        if stored_cell.cell_type == "code":
            assert outputs_of(new_cell) == outputs_of(stored_cell), stored_cell.source


def test_progress_is_not_stored_as_an_error(tmp_path):
    """Progress of a call or a command does not appear in the stream of errors, as which Jupyter
    would show it in red."""
    pytest.importorskip("nbclient", reason="notebooks need the extra [notebooks]")
    from nbformat import v4

    from tests.notebooks import run_notebook

    code = (
        "import time\nfrom weights.progress import Quiet\n"
        "from zoo.common.progress import LogProgress, progress_bar\n"
        "with progress_bar(LogProgress()) as progress:\n"
        "    progress.stage('fetching', 10**7)\n    time.sleep(1.1)\n    progress.step(5 * 10**6)\n"
        "    progress.note('by others')\nQuiet().note('terms')\n"
    )
    command = f'{sys.executable} -c "{code}"'
    cells = [code, f"%%sh\n{command}", f"%%sh\nexec 2>&1\n{command}"]
    executed = run_notebook(
        v4.new_notebook(cells=[v4.new_code_cell(source) for source in cells]), tmp_path
    )
    streams = [[source.get("name") for source in cell.outputs] for cell in executed.cells]
    assert streams == [["stdout"], ["stderr"], ["stdout"]]
    texts = [cell.outputs[-1].text for cell in executed.cells]
    assert texts == ["by others\nterms\n"] * 2 + ["fetching\nby others\nterms\n"]
