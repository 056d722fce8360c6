"""Notebooks: what is stored is whole and small, and running it again says the same."""

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
"""Bytes of a notebook."""

OURS = {"converter", "weights", "zoo"}
PACKAGES = {"PIL": "pillow", "onnx_ir": "onnx-ir", "sklearn": "scikit-learn"}
"""Where a package is not called like its module."""


def imported(cells):
    """Modules of the cells: all but magics are Python, and nothing of what another runs."""
    for cell in cells:
        text = "".join(cell["source"])
        text = "" if text.startswith("%%sh") else re.sub(r"(?m)^[%!].*$", "", text)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                yield from (each.name.split(".")[0] for each in node.names)
            if isinstance(node, ast.ImportFrom):
                yield node.module.split(".")[0]


def required(extra):
    """What `pip install 'jax-onnx-zoo[EXTRA]'` asks for, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"][extra]]
    own = [found[1] for line in wanted if (found := re.match(r"jax-onnx-zoo\[(.+)\]", line))]
    names = {re.match(r"[\w-]+", line)[0] for line in wanted}
    return names.union(*(required(other) for other in own))


@NOTEBOOKS
def test_what_is_stored(path):
    text = path.read_text()
    code = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert len(text.encode()) < LARGEST
    assert [cell["execution_count"] for cell in code] == [*range(1, 1 + len(code))]
    outputs = [output for cell in code for output in cell["outputs"]]
    assert "image/png" in {kind for output in outputs for kind in output.get("data", {})}
    assert not [output for output in outputs if output["output_type"] == "error"]
    said = "".join("".join(output.get("text", "")) for output in outputs)
    assert not re.search(r"Warning|Traceback|/tmp/|/home/|/root/", said)
    modules = set(imported(code)) - OURS - sys.stdlib_module_names
    assert {PACKAGES.get(name, name) for name in modules} <= required("notebooks")


@NOTEBOOKS
def test_it_says_the_same_again(path, tmp_path):
    pytest.importorskip("nbclient", reason="notebooks need the extra [notebooks]")
    import nbformat

    from tests.notebooks import run, told

    stored = nbformat.read(path, as_version=4)
    again = run(path, tmp_path)
    for before, after in zip(stored.cells, again.cells, strict=True):
        if before.cell_type == "code":
            assert told(after) == told(before), before.source


def test_progress_is_not_red(tmp_path):
    """As Jupyter stores it: what a call and a command say meanwhile is not among the errors."""
    pytest.importorskip("nbclient", reason="notebooks need the extra [notebooks]")
    from nbformat import v4

    from tests.notebooks import run_notebook

    works = (
        "import time\nfrom weights.progress import Quiet\n"
        "from zoo.common.progress import LogProgress, progress_bar\n"
        "with progress_bar(LogProgress()) as progress:\n"
        "    progress.stage('fetching', 10**7)\n    time.sleep(1.1)\n    progress.step(5 * 10**6)\n"
        "    progress.note('by others')\nQuiet().note('terms')\n"
    )
    command = f'{sys.executable} -c "{works}"'
    cells = [works, f"%%sh\n{command}", f"%%sh\nexec 2>&1\n{command}"]
    ran = run_notebook(v4.new_notebook(cells=[v4.new_code_cell(each) for each in cells]), tmp_path)
    found = [[each.get("name") for each in cell.outputs] for cell in ran.cells]
    assert found == [["stdout"], ["stderr"], ["stdout"]]
    said = [cell.outputs[-1].text for cell in ran.cells]
    assert said == ["by others\nterms\n"] * 2 + ["fetching\nby others\nterms\n"]
