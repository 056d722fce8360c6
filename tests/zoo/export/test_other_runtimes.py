"""The search for the oldest ONNX Runtime that computes a file correctly.

The older environment is a script that starts this Python.
"""

import sys

import jax.numpy as jnp
import numpy as np
import onnxruntime
import pytest

import converter
from zoo.common import runtime
from zoo.export import other_runtimes
from zoo.export.precisions import Limit
from zoo.export.verify import Sample


@pytest.mark.parametrize(
    ("error", "minimum"), [(0.0, onnxruntime.__version__), (0.1, "99.0"), (np.nan, "99.0")]
)
def test_the_oldest_runtime_that_is_right_is_found(tmp_path, monkeypatch, error, minimum):
    python = tmp_path / "older" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (tmp_path / "none").mkdir()
    monkeypatch.setenv(other_runtimes.ENVIRONMENTS, str(tmp_path))
    monkeypatch.setattr(runtime, "RELEASE", "99.0")
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(1, 3, 2, 4)
    file = tmp_path / "sine.onnx"
    converter.to_onnx(jnp.sin, [x], path=file, input_names=["pixel_values"])
    sample = Sample({"pixel_values": x}, np.sin(x) + np.float32(error))
    limit = Limit("max_abs", 1e-5)
    assert other_runtimes.find_minimum_runtime(file, sample, limit) == minimum
