"""What the package needs: which libraries, from which version on, and where that is said."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from converter.opsets import OLDEST_RUNTIME

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

OWN = {"jax", "jaxlib", "numpy", "onnx_ir", "ml_dtypes"}
"""What the converter imports by itself; ONNX Runtime comes in where a file is checked."""

IMPORTS = """
import sys
import jax, numpy, onnx_ir, ml_dtypes
before = set(sys.modules)
import converter
converter.to_onnx(jax.numpy.tanh, [("n", 3)])
print(*{name.partition(".")[0] for name in set(sys.modules) - before})
"""


def test_the_converter_imports_nothing_else():
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    others = set(done.stdout.split()) - OWN - {"converter"} - sys.stdlib_module_names
    assert not {name for name in others if not name.startswith("_")}, others


def test_every_dependency_has_a_lowest_version():
    extras = PROJECT["optional-dependencies"]
    given = [*PROJECT["dependencies"], *extras["cpu"], *extras["gpu"], *extras["directml"]]
    for text in given:
        assert any(each.operator == ">=" for each in Requirement(text).specifier), text


@pytest.mark.parametrize("extra", ["cpu", "gpu", "directml"])
def test_files_are_checked_from_the_lowest_runtime_on(extra):
    (text,) = PROJECT["optional-dependencies"][extra]
    assert f">={OLDEST_RUNTIME}" in text


def test_pages_say_the_lowest_versions():
    page = (ROOT / "docs/how-to/versions.md").read_text()
    lowest = {Requirement(text).name: Requirement(text) for text in PROJECT["dependencies"]}
    for name in ("jax", "numpy", "huggingface-hub", "pillow"):
        (version,) = [each.version for each in lowest[name].specifier if each.operator == ">="]
        assert re.search(rf"\| {name} \| {re.escape(version)} \|", page), name
    assert f"| onnxruntime | {OLDEST_RUNTIME} |" in page
