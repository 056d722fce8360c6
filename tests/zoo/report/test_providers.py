"""`zoo report --providers`: files in every provider, and in one that does not start."""

import json

import numpy as np
import pytest

from tests.runtimes.load import needs_placement
from weights.progress import Quiet
from zoo import runtime
from zoo.report import providers
from zoo.report.providers import FILE, NOT_STARTED, ProvidersRequest, Ran, report_providers

ABSENT = "CUDAExecutionProvider"

pytestmark = pytest.mark.filterwarnings("ignore:Specified provider")


@needs_placement
def test_every_file_in_every_provider(tmp_path, monkeypatch):
    """Without a card: its provider has a line that says so, and the CPU's are as they are."""
    monkeypatch.setattr(runtime, "available", lambda: [ABSENT, runtime.CPU])
    asked = ProvidersRequest(["vit_digits"], ("fp32", "bf16"), tmp_path / "new" / "out")
    found = report_providers(asked, Quiet())
    exact, half = found.files
    assert set(exact.outcomes) == {ABSENT, runtime.CPU}
    assert exact.outcomes[ABSENT] == Ran(failed=NOT_STARTED)
    ran = exact.outcomes[runtime.CPU]
    assert ran.max_rel == 0 and ran.nodes[runtime.CPU] > 100 and ran.run_ms and not ran.failed
    assert "NOT_IMPLEMENTED" in (half.outcomes[runtime.CPU].failed or "")
    told = json.loads((tmp_path / "new" / "out" / FILE).read_text())
    assert told["providers"] == [ABSENT, runtime.CPU]
    assert told["libraries"]["onnxruntime"] == runtime.RELEASE
    assert [each["file"] for each in told["files"]] == ["onnx/model.onnx", "onnx/model_bf16.onnx"]


@pytest.mark.parametrize(
    ("got", "max_rel"), [([3.0, -4.0], 0), ([3.0, -4.5], 0.125), ([3.0, np.nan], None)]
)
def test_the_difference_is_from_the_cpu(got, max_rel):
    arrays = {"y": np.array(got)}, {"y": np.array([3.0, -4.0])}
    assert providers._compared(Ran(), *arrays, "fp32").max_rel == max_rel


def test_an_output_of_another_shape_is_said():
    arrays = {"y": np.zeros(3)}, {"y": np.zeros(2)}
    assert "float64[3]" in (providers._compared(Ran(), *arrays, "fp32").failed or "")
