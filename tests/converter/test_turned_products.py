"""Transposed products that ONNX Runtime's optimizer miscomputes or that end the process.

Files avoid them, and are compared with JAX. Also GELU formulas that the optimizer fuses.
"""

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

import converter
from tests.conformance import inputs as draw_inputs
from tests.programs.layouts import PRODUCTS, W


@pytest.mark.each("precision")
@pytest.mark.parametrize("case", PRODUCTS, ids=lambda case: case.name)
@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_transposed_products_of_lower_precision_agree_with_jax(case, precision):
    inputs = draw_inputs(case.specs)
    model = converter.lower_precision(case.export().model, precision)
    if precision == "bfloat16":
        model = converter.emulate_bfloat16(model)
    (actual,) = converter.run(model, inputs).values()
    atol = 16 * float(jnp.finfo(precision).eps)
    np.testing.assert_allclose(actual, case.call(*inputs), rtol=0, atol=atol)


def test_rewritten_products_keep_names_of_inputs_and_outputs():
    def fn(x):
        return jnp.transpose(x, (1, 0, 2)) @ W[:, 0].astype(x.dtype)

    x = ((4, 3, 5), np.float16)
    model = converter.to_onnx(fn, [x], input_names=["axes"], output_names=["product"]).model
    assert [v.name for v in model.graph.outputs] == ["product"]
    assert ir.Shape(model.graph.outputs[0].shape) == ir.Shape([3, 4])
    names = [v.name for node in model.graph for v in node.outputs]
    names += ["axes", *model.graph.initializers]
    assert len({*names}) == len(names)


@pytest.mark.parametrize(("approximate", "kernel"), [(False, "BiasGelu"), (True, "FastGelu")])
def test_gelu_below_its_opset_is_one_kernel(approximate, kernel, tmp_path):
    """ONNX Runtime's optimizer fuses the formula of GELU and the bias before it into one kernel."""
    params = {"w": np.ones((6, 8), np.float32), "b": np.ones(8, np.float32)}

    def fn(p, x):
        return jnp.sin(jax.nn.gelu(x @ p["w"] + p["b"], approximate=approximate))

    export = converter.to_onnx(fn, [("B", 3, 6)], params=params, opset=18)
    export.save(tmp_path / "model.onnx")
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.log_severity_level = 3
    ort.InferenceSession(tmp_path / "model.onnx", options, providers=["CPUExecutionProvider"])
    operators = [node.op_type for node in ir.load(tmp_path / "optimised.onnx").graph]
    assert operators == ["MatMul", kernel, "Sin"]
