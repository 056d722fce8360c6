"""Notebooks: what is stored is whole and small, and running it again says the same."""

import ast
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
LARGEST = 400_000
"""Bytes of a notebook."""

OURS = {"converter", "weights", "zoo"}
PACKAGES = {"PIL": "pillow", "onnx_ir": "onnx-ir", "sklearn": "scikit-learn"}
"""Where a package is not called like its module."""


def code(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def python(cell):
    """What of a cell is Python: all but magics, and nothing of what another program is to run."""
    text = "".join(cell["source"])
    return "" if text.startswith("%%sh") else re.sub(r"^[%!].*$", "", text, flags=re.MULTILINE)


def imported(notebook):
    for cell in code(notebook):
        for node in ast.walk(ast.parse(python(cell))):
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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_stored(path):
    text = path.read_text()
    notebook = json.loads(text)
    assert len(text.encode()) < LARGEST
    assert [cell["execution_count"] for cell in code(notebook)] == [
        *range(1, 1 + len(code(notebook)))
    ]
    outputs = [output for cell in code(notebook) for output in cell["outputs"]]
    assert "image/png" in {kind for output in outputs for kind in output.get("data", {})}
    assert not [output for output in outputs if output["output_type"] == "error"]
    said = "".join("".join(output.get("text", "")) for output in outputs)
    assert not re.search(r"Warning|Traceback|/tmp/|/home/|/root/", said)
    modules = set(imported(notebook)) - OURS - sys.stdlib_module_names
    assert {PACKAGES.get(name, name) for name in modules} <= required("notebooks")


@pytest.mark.full
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_says_the_same_again(path, tmp_path):
    pytest.importorskip("nbclient", reason="notebooks need the extra [notebooks]")
    import nbformat

    from tests.notebooks import run, told

    stored = nbformat.read(path, as_version=4)
    again = run(path, tmp_path)
    for before, after in zip(stored.cells, again.cells, strict=True):
        if before.cell_type == "code":
            assert told(after) == told(before), before.source
