"""What ONNX Runtime's optimiser makes of what the converter writes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

import converter


@pytest.mark.parametrize(("approximate", "kernel"), [(False, "BiasGelu"), (True, "FastGelu")])
def test_gelu_below_its_opset_is_one_kernel(approximate, kernel, tmp_path):
    """The optimiser knows some spellings of the formula, and takes in the bias before it."""
    params = {"w": np.ones((6, 8), np.float32), "b": np.ones(8, np.float32)}

    def fn(p: Any, x: Any) -> Any:
        return jnp.sin(jax.nn.gelu(x @ p["w"] + p["b"], approximate=approximate))

    export = converter.to_onnx(fn, [("B", 3, 6)], params=params, opset=18)
    export.save(tmp_path / "model.onnx")
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.log_severity_level = 3
    ort.InferenceSession(tmp_path / "model.onnx", options, providers=["CPUExecutionProvider"])
    found = [node.op_type for node in ir.load(tmp_path / "optimised.onnx").graph]
    assert found == ["MatMul", kernel, "Sin"]
