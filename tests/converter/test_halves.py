"""Files in float16 and bfloat16 with constants outside of these ranges, compared with float32."""

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest

import converter
from converter.model.half_precision import narrow_array
from converter.verify.sessions import run

X = np.array([[0, 0, 0, 0], [1, 2, 3, 4], [-1, 0.5, 0, 2]], np.float32)
MASK = np.array([[1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 1, 1]], np.float32)

FUNCTIONS = {
    "norm": lambda x, m: x / (jnp.linalg.norm(x, axis=-1, keepdims=True) + 1e-8),
    "magnitude": lambda x, m: x / (jnp.abs(x) + 1e-8),
    "hidden": lambda x, m: jax.nn.softmax(jnp.where(m > 0, x, -1e9)),
    "lowered": lambda x, m: jax.nn.softmax(x + (1 - m) * -1e9),
    "lowest": lambda x, m: jax.nn.softmax(jnp.where(m > 0, x, jnp.finfo(jnp.float32).min)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_constants_stay_finite_and_not_zero(name, precision):
    fn = FUNCTIONS[name]
    export = converter.to_onnx(fn, [X.shape, MASK.shape])
    model = converter.lower_precision(export.model, precision)
    if precision == "bfloat16":
        model = converter.emulate_bfloat16(model)
    (actual,) = run(model, [X, MASK]).values()
    unit, expected = float(jnp.finfo(precision).eps), np.asarray(fn(X, MASK))
    if name == "lowered":  # 65504 does not cancel the number that it is added to
        assert np.isfinite(actual).all()
        actual, expected = actual[MASK.any(1)], expected[MASK.any(1)]
    np.testing.assert_allclose(actual, expected, rtol=2 * unit, atol=unit)


def test_narrowed_constants_stay_finite_and_not_zero():
    half = np.dtype(np.float16)
    numbers = np.array([1e9, -1e9, np.inf, -np.inf, 65519, 3e-9, 0, 1.5], np.float32)
    expected = np.array([65504, -65504, np.inf, -np.inf, 65504, 0, 0, 1.5], half)
    np.testing.assert_array_equal(narrow_array(numbers, half), expected)
    assert np.isnan(narrow_array(np.array([np.nan], np.float32), half)).all()
    for number in (1e-8, -1e-30, 5e-5):
        narrowed = narrow_array(np.array(number, np.float32), half)
        assert float(narrowed) == float(np.copysign(np.finfo(half).smallest_normal, number))
    large = narrow_array(np.array([3.4e38], np.float32), jnp.dtype(jnp.bfloat16))
    assert np.isfinite(large).all()


def test_numbers_that_depend_on_shapes_alone_stay_float32():
    """Divisions by a size stay in float32; arithmetic on inputs does not."""

    def fn(x):
        shares = jnp.cos(jnp.arange(x.shape[0]) / x.shape[0])
        return (x @ np.eye(4, 3, dtype=np.float32) - x[:, :3]) * shares[:, None]

    model = converter.lower_precision(converter.to_onnx(fn, [("n", 4)]).model, "float16")
    dtypes = {node.op_type: node.outputs[0].dtype for node in model.graph}
    assert dtypes["Div"] == dtypes["Cos"] == ir.DataType.FLOAT
    assert dtypes["MatMul"] == dtypes["Sub"] == ir.DataType.FLOAT16
