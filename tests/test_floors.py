"""The libraries that the package requires, their lowest versions, and the pages that state them."""

import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement

import converter
from converter.opsets import OLDEST_ON_CUDA, OLDEST_RUNTIME, WEB_RELEASE
from tests.floors import PAGE, ROOT, lowest
from tests.onnxruntimes import DIRECTML, INTEL_MAC, VERSIONS

HOW_TO = PAGE.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

REQUIRED = {"jax", "jaxlib", "numpy", "onnx_ir", "ml_dtypes"}
"""The libraries that the converter imports. It imports ONNX Runtime only to check a file."""

IMPORTS = """
import sys
import jax, numpy, onnx_ir, ml_dtypes
before = set(sys.modules)
import converter
converter.to_onnx(jax.numpy.tanh, [("n", 3)])
print(*{name.partition(".")[0] for name in set(sys.modules) - before})
"""


def test_the_converter_imports_only_required_libraries():
    process = subprocess.run(
        [sys.executable, "-c", IMPORTS], cwd=ROOT, capture_output=True, text=True, check=True
    )
    others = set(process.stdout.split()) - REQUIRED - {"converter"} - sys.stdlib_module_names
    assert not {name for name in others if not name.startswith("_")}, others


def test_every_dependency_has_a_lowest_version():
    extras = PROJECT["optional-dependencies"]
    for text in (*PROJECT["dependencies"], *extras["cpu"], *extras["gpu"], *extras["directml"]):
        assert any(specifier.operator == ">=" for specifier in Requirement(text).specifier), text


@pytest.mark.parametrize("extra", ["cpu", "gpu", "directml"])
def test_files_are_checked_from_the_lowest_runtime_on(extra):
    (text,) = PROJECT["optional-dependencies"][extra]
    assert text.startswith("onnxruntime") and f">={OLDEST_RUNTIME}" in text


def test_pages_state_the_lowest_versions():
    """`python -m tests.floors` writes the table."""
    page = PAGE.read_text()
    assert "\n".join(lowest()) in page
    assert f"versions of ONNX Runtime before {OLDEST_RUNTIME} " in page
    assert f"newest version of ONNX Runtime is {DIRECTML}." in page
    assert f"use onnxruntime {INTEL_MAC}, which" in page
    oldest = ".".join(map(str, converter.TARGETS["onnxruntime"].versions.low))
    assert f"The oldest supported version is {oldest}." in page and VERSIONS[0].startswith(
        f"{oldest}."
    )
    assert (
        f"all versions of ONNX Runtime from {OLDEST_RUNTIME} on"
        in (HOW_TO / "conversion.md").read_text()
    )


TITLES = {"tensorrt": "TensorRT", "openvino": "OpenVINO", "iree": "IREE", "opencv": "OpenCV"}


def test_pages_list_the_runtimes_of_files():
    page = (HOW_TO / "runtimes.md").read_text()
    assert f"| ONNX Runtime, CUDA, {OLDEST_ON_CUDA} or newer |" in page
    for name, target in converter.TARGETS.items():
        if target.oldest and name not in ("onnxruntime", "web"):
            assert f"\n| {TITLES.get(name, name)} {target.oldest}" in page
    assert f"files for onnxruntime-web {WEB_RELEASE}." in (HOW_TO / "browser.md").read_text()
