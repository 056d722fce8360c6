"""Elements for which JAX itself has another result in another legal evaluation.

The file passes with either result. Every other number fails.
"""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from converter.model.verdict import LEVELS
from converter.verify.step_by_step import evaluate_twice

X = np.float32([0.5, 1, 2])


def divide_by_repeated(x):
    """Return 2, or 1 if the reciprocal of the divisor is subnormal and flushed to zero."""
    return (x * 0 + 1e38) / jnp.sum(x[:1] * 0 + 1e38) + 1


def multiply_subnormals(x):
    """Return 6e-29, or 1e-30 if the exponential is flushed to zero."""
    return lax.map(lambda y: jnp.exp(y * 0 - 88) * 1e10 + 1e-30, x)


def divide_equal_exponentials(x):
    """Return NaN, or 1 if the quotient of equal operands is replaced by 1."""
    large = jnp.exp(x * 100 + 100)
    return large / large


TWO_RESULTS = {
    fn.__name__: fn for fn in (divide_by_repeated, multiply_subnormals, divide_equal_exponentials)
}
"""Functions that have one result node by node and another one compiled as a whole."""


@pytest.mark.parametrize("name", TWO_RESULTS)
def test_either_result_passes_and_others_fail(name):
    fn = jax.jit(TWO_RESULTS[name])
    results = evaluate_twice(fn, [X])
    assert not np.allclose(results.stepped, results.compiled, rtol=1e-3, atol=0, equal_nan=True)
    export = converter.to_onnx(fn, [X])
    assert converter.check(export, fn, [X]).passed

    def replace_nan(x):
        return jnp.nan_to_num(fn(x), nan=1)

    for wrong in (lambda x: replace_nan(x) * 3, lambda x: replace_nan(x) + 0.5):
        verdict = converter.check(converter.to_onnx(wrong, [X]).model, fn, [X])
        assert {d.level for d in verdict.differences} == {*LEVELS}


def test_two_results_of_another_function_do_not_count():
    """The results are those of the function, not those of the graph of the export."""
    export = converter.to_onnx(divide_by_repeated, [X])
    assert not converter.check(export, lambda x: x * 0 + 1, [X]).passed


WEIGHTS = {"w": np.full((3, 2), 1e30, np.float32), "s": np.float32(1e-30)}


def scale_product(params, x):
    """Return 1 plus a reciprocal. JAX overflows in the product, the file scales the weights."""
    return 1 + 1e10 / ((jnp.asarray(x) @ params["w"]) * params["s"])


def test_a_file_without_the_overflow_of_jax_passes_if_it_has_the_true_result():
    fn = partial(scale_product, WEIGHTS)
    large = np.float32([[1e10, 2e10, 3e10]])
    assert (np.asarray(fn(large)) == 1).all()
    assert converter.check(
        converter.to_onnx(scale_product, [large], params=WEIGHTS), fn, [large]
    ).passed
    for other in (1.0, 1.3):
        wrong = converter.to_onnx(lambda x, other=other: x[:, :2] * 0 + other * 1.2, [large]).model
        assert not converter.check(wrong, fn, [large]).passed
    small = np.float32([[1, 2, 3]])
    assert not converter.check(
        converter.to_onnx(lambda x: fn(x) * 1.001, [small]).model, fn, [small]
    ).passed


def exponential_ratio(x):
    return jnp.exp(x * 20) / jnp.sum(jnp.exp(x * 20))


@pytest.mark.parametrize(("dtype", "is_open"), [(np.float16, True), (np.float32, False)])
def test_overflow_in_half_precision_is_open(dtype, is_open):
    """A wrong file fails in any case. The element is open if JAX overflows in float16."""
    x = X.astype(dtype)
    wrong = converter.to_onnx(lambda x: exponential_ratio(x) * 0 + x, [x]).model
    verdict = converter.check(wrong, exponential_ratio, [x])
    assert verdict.differences and any(d.open for d in verdict.differences) == is_open


BITS = {
    "bits": lambda x: lax.bitcast_convert_type((x * 0) / (x * 0), "int32"),
    "sign": lambda x: jnp.signbit((x * 0) / (x * 0)).astype(int) * 4,
    "positions": lambda x: lax.top_k(jnp.where(x > 1, (x * 0) / (x * 0), x), 2)[1],
}
"""Functions that read the sign of a NaN, which IEEE 754 does not define."""


@pytest.mark.parametrize("name", BITS)
def test_the_sign_of_nan_may_differ(name):
    fn = BITS[name]
    assert converter.check(converter.to_onnx(fn, [X]), fn, [X]).passed
    wrong = converter.to_onnx(lambda x: fn(x) + 1, [X]).model
    assert not converter.check(wrong, fn, [X]).passed


def test_the_sign_of_a_given_nan_may_not_differ():
    """A file of opset 23 does not distinguish the signs of NaN. It is wrong if the NaN is an input,
    which no operation rounds."""
    nan = np.float32([np.nan, -np.nan])
    export = converter.to_onnx(jnp.signbit, [nan], opset=23)
    assert not converter.check(export, jnp.signbit, [nan]).passed


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_products_that_overflow_in_another_order_are_open(dtype):
    """The product of a zero and infinitely large factors is zero or NaN. Other products are
    judged."""
    x = np.resize([0, 3e38, 3e38, 3e38], 32).astype(dtype)
    wrong = converter.to_onnx(lambda x: jnp.sum(x) * jnp.nan, [x]).model
    verdict = converter.check(wrong, jnp.prod, [x])
    assert verdict.differences and all(d.open for d in verdict.differences)
    tame = np.resize([0, 2, 3], 32).astype(dtype)
    verdict = converter.check(wrong, jnp.prod, [tame])
    assert verdict.differences and not any(d.open for d in verdict.differences)


def test_windows_of_equals_are_open():
    """The derivative of a maximum of equals in windows of two axes depends on the order."""
    pads = ((0, 1), (0, 0), (0, 0))

    def slope(x, y):
        window = (2, 2, 1), (1, 1, 1), pads
        return jax.jvp(lambda z: lax.reduce_window(z, -jnp.inf, lax.max, *window), (x,), (y,))[1]

    export = converter.to_onnx(slope, [(2, 2, 6)] * 2)
    verdict = converter.check(export, jax.jit(slope))
    assert all(d.open for d in verdict.differences)
    wrong = converter.to_onnx(lambda x, y: slope(x, y) * 1.001, [(2, 2, 6)] * 2)
    verdict = converter.check(replace(wrong, retrace=export.retrace), jax.jit(slope))
    assert any(not d.open for d in verdict.differences)
