"""What ONNX Runtime's optimiser takes for others, or over which it ended the process."""

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

import converter
from tests.conformance import inputs as drawn
from tests.programs.layouts import PRODUCTS, W


@pytest.mark.each("precision")
@pytest.mark.parametrize("case", PRODUCTS, ids=lambda case: case.name)
@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_transposed_in_a_file_of_lower_precision(case, precision):
    inputs = drawn(case.specs)
    model = converter.lower_precision(case.export().model, precision)
    if precision == "bfloat16":
        model = converter.emulate_bfloat16(model)
    (got,) = converter.run(model, inputs).values()
    atol = 16 * float(jnp.finfo(precision).eps)
    np.testing.assert_allclose(got, case.call(*inputs), rtol=0, atol=atol)


@pytest.mark.each("dtype", "order")
@pytest.mark.parametrize("dtype", [np.int32, np.bool_, np.float16])
@pytest.mark.parametrize("order", [(1, 0, 2), (1, 2, 0), (2, 0, 1)])
@pytest.mark.parametrize("axes", [1, 2, 4])
def test_transposed_and_converted(dtype, order, axes):
    """In float32 too, as of pixels or tokens."""
    w = np.arange(10, dtype=np.float32).reshape((1,) * (axes - 2) + (5, 2)) if axes > 1 else W[:, 0]

    def fn(x):
        return jnp.transpose(x, order).astype(np.float32) @ w

    x = (np.arange(60) % 7).reshape(4, 3, 5).transpose(np.argsort(order)).astype(dtype)
    converter.to_onnx(fn, [x], verify=[x])


def test_inside_a_loop():
    """A body has products too, whose names are taken in the whole file."""

    def fn(x, carry):
        def step(c, row):
            turned = jnp.transpose(row, (1, 0, 2)).astype(np.float32)
            return c + (turned @ W).sum(), turned @ W

        return jax.lax.scan(step, carry, x)

    inputs = [np.arange(120, dtype=np.int32).reshape(2, 4, 3, 5), np.float32(1)]
    converter.to_onnx(fn, inputs, verify=inputs)


def test_the_first_axis_in_its_place_is_left_alone():
    """Heads and images are turned so: their products stay as they are written."""

    def fn(x):
        return jnp.transpose(x, (0, 2, 1)).astype(np.float32) @ W

    model = converter.to_onnx(fn, [((4, 5, 3), np.float16)]).model
    assert [n.op_type for n in model.graph] == ["Transpose", "Cast", "MatMul"]


def test_names_stay():
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
    """The optimiser knows some spellings of the formula, and takes in the bias before it."""
    params = {"w": np.ones((6, 8), np.float32), "b": np.ones(8, np.float32)}

    def fn(p, x):
        return jnp.sin(jax.nn.gelu(x @ p["w"] + p["b"], approximate=approximate))

    export = converter.to_onnx(fn, [("B", 3, 6)], params=params, opset=18)
    export.save(tmp_path / "model.onnx")
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.log_severity_level = 3
    ort.InferenceSession(tmp_path / "model.onnx", options, providers=["CPUExecutionProvider"])
    found = [node.op_type for node in ir.load(tmp_path / "optimised.onnx").graph]
    assert found == ["MatMul", kernel, "Sin"]
