"""Every spelling of an activation becomes its ONNX operator, which is compared with JAX.

The inputs include NaN, infinities, both zeros and the ends of the ranges of the formulas.
"""

import re
from importlib.metadata import version

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import converter
from converter.opsets import is_older
from tests.converter.test_edges import units

EDGES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-8, -1e-8, -3.0, 3.0, 6.0, 7.0, -2.9999]
EDGES += [-20.0, 88.0, 1e30, -1e30]
X = np.array([*EDGES, *np.linspace(-7, 7, 44)], np.float32).reshape(3, 20)
SLOPES = np.linspace(0.1, 0.5, 20, dtype=np.float32)
SPELLINGS = {
    "Clip": [
        jax.nn.relu6,
        lambda x: jnp.maximum(jnp.minimum(2.0, x), -1.5),
        lambda x: jnp.where(x > 2, 2, jnp.where(x < -1.5, -1.5, x)),
    ],
    "HardSigmoid": [
        jax.nn.hard_sigmoid,
        lambda x: jnp.clip(x / 6 + 0.5, 0, 1),
        lambda x: jnp.clip((x + 3) / 6, 0, 1),
        lambda x: jnp.clip(0.2 * x + 0.5, 0, 1),
    ],
    "HardSwish": [
        jax.nn.hard_swish,
        lambda x: x * (jax.nn.relu6(x + 3.0) * (1 / 6)),
        lambda x: jax.nn.hard_sigmoid(x) * x,
        lambda x: x * jnp.clip(x / 6 + 0.5, 0, 1),
    ],
    "Softplus": [
        jax.nn.softplus,
        lambda x: jnp.logaddexp(0.0, x),
        lambda x: jnp.log1p(jnp.exp(-jnp.abs(x))) + jnp.maximum(x, 0),
    ],
    "Mish": [
        jax.nn.mish,
        lambda x: jnp.tanh(jax.nn.softplus(x)) * x,
        lambda x: x * jnp.tanh(jnp.log1p(jnp.exp(x))),
    ],
    "Swish": [jax.nn.silu, lambda x: x * jax.nn.sigmoid(1.702 * x)],
    "Softsign": [jax.nn.soft_sign, lambda x: x / (1 + abs(x))],
    "LeakyRelu": [
        jax.nn.leaky_relu,
        lambda x: jnp.maximum(x, 0.2 * x),
        lambda x: jnp.where(x < 0, 0.2 * x, x),
        lambda x: jnp.maximum(x, 0) + 0.2 * jnp.minimum(x, 0),
        lambda x: jax.nn.relu(x) - 0.2 * jax.nn.relu(-x),
    ],
    "PRelu": [
        lambda x: jax.nn.relu(x) + -SLOPES * jax.nn.relu(-x),  # Keras' PReLU
        lambda x: jnp.where(x < 0, SLOPES * x, x),
    ],
    "Elu": [
        jax.nn.elu,
        lambda x: jax.nn.elu(x, 0.7),
        jax.nn.celu,
        lambda x: jnp.where(x > 0, x, 0.7 * jnp.expm1(x)),
        lambda x: jnp.where(x > 0, x, 0.7 * (jnp.exp(x) - 1)),
        lambda x: jax.nn.relu(x) + 0.7 * jnp.expm1(jnp.minimum(x, 0)),
    ],
    "Celu": [lambda x: jax.nn.celu(x, 0.7)],
    "Selu": [jax.nn.selu],
}
ACTIVATIONS = {op: forms[0] for op, forms in SPELLINGS.items() if op != "PRelu"}
"""One spelling of each activation that accepts values of any shape."""

INEXACT = ("Swish", "Elu", "Celu", "Selu", "HardSigmoid", "HardSwish")
"""Operators of ONNX Runtime whose absolute error is bounded, but not their relative error."""


def ops(export):
    """Return the types of the operators in the file, in order."""
    return [node.op_type for node in export.model.graph]


def convert_and_run(fn, x=X, **options):
    """Return the export of a function of `x`, its output, and the output of JAX."""
    export = converter.to_onnx(fn, [x], **options)
    (output,) = converter.run(export, [x]).values()
    return export, output, np.asarray(jax.jit(lambda x: fn(x))(x))


@pytest.mark.parametrize(("alpha", "celu_count"), [(1 / 17, 0), (1 / 16, 1), (16.0, 1), (17.0, 0)])
def test_celu_is_written_where_its_formula_is_precise(alpha, celu_count):
    """Celu is written for `alpha` from 1/16 to 16 only, where the rounding of its formula is small.

    A factor of sixteen costs `exp(x / alpha) - 1` about one decimal digit.
    """
    fn = lambda x: jax.nn.celu(x, alpha)  # noqa: E731
    assert ops(converter.to_onnx(fn, [X])).count("Celu") == celu_count


@pytest.mark.parametrize(
    ("op", "fn", "reason"),
    [
        ("Celu", lambda x: jax.nn.celu(x, 20.0), "alpha is 20, and Celu is used only for alpha"),
        ("Elu", lambda x: jax.nn.elu(x, 1e9), r"alpha is 1e\+09, and Elu is used only for numbers"),
        (
            "LeakyRelu",
            lambda x: jnp.maximum(x, 2 * x),
            "slope is 2, and LeakyRelu is used only for one slope between 0 and 1",
        ),
        (
            "LeakyRelu",
            lambda x: jnp.where(x < 0, SLOPES * 1e9 * x, x),
            "slope is an array, and LeakyRelu is used only for numbers",
        ),
    ],
)
def test_refused_numbers_are_a_near_miss(op, fn, reason):
    report = converter.to_onnx(fn, [X]).report
    (miss,) = report.near_misses
    assert miss.pattern == op and re.match(reason, miss.reason)
    assert "test_activations.py" in miss.line and not report.fused


def test_slopes_without_a_value_are_a_near_miss():
    model = jax.eval_shape(lambda: eqx.nn.PReLU(SLOPES))
    (miss,) = converter.to_onnx(model, [X]).report.near_misses
    assert str(miss) == "LeakyRelu: slope is made from a parameter that has no value yet"


def test_products_with_computed_slopes_are_no_near_miss():
    """A product with a value that is computed from the input is not an activation."""
    for fn in (lambda x: jnp.where(x < 0, x.mean(-1, keepdims=True) * x, x), jax.nn.relu):
        assert converter.to_onnx(fn, [X]).report.near_misses == []


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
@pytest.mark.parametrize("op", [op for op in SPELLINGS if op not in ("Clip", "PRelu")])
def test_activations_in_other_dtypes_are_near_misses(op, dtype):
    fn = SPELLINGS[op][0]
    with jax.enable_x64(True):
        spec = jax.ShapeDtypeStruct(X.shape, dtype)
        report = converter.to_onnx(lambda x: fn(x), [spec], opset=24).report
    (miss,) = report.near_misses
    assert miss.pattern == op and "test_activations.py" in miss.line
    assert miss.reason == f"the dtype is {dtype}, and {op} is used only for float32 and float16"


def test_activations_of_newer_opsets_are_no_near_misses():
    """An activation without an operator at the opset is not reported, whatever its dtype."""
    spec = jax.ShapeDtypeStruct(X.shape, "bfloat16")
    assert converter.to_onnx(lambda x: jax.nn.silu(x), [spec], opset=23).report.near_misses == []


NEEDS_PRELU_OF_INFINITY = pytest.mark.skipif(
    is_older(version("onnxruntime"), "1.27"),
    reason="before 1.27, PRelu of infinity is NaN",
)


@pytest.mark.parametrize(
    ("op", "form"),
    [
        pytest.param(op, i, marks=[NEEDS_PRELU_OF_INFINITY] * (op == "PRelu"))
        for op, forms in SPELLINGS.items()
        for i in range(len(forms))
    ],
)
def test_spelling_becomes_the_operator_and_matches_jax(op, form):
    export, actual, expected = convert_and_run(SPELLINGS[op][form], opset=24)
    assert ops(export) == [op]
    size = np.nan_to_num(np.abs(X), posinf=0)  # x * sigmoid(x) multiplies the sigmoid's error
    tolerance = 1e-7 * np.maximum(size, 4) if op in INEXACT else 1e-37
    is_near = np.isclose(actual, expected, rtol=2e-6, atol=tolerance, equal_nan=True)
    assert is_near.all(), (X[~is_near], actual[~is_near], expected[~is_near])


@pytest.mark.parametrize("op", SPELLINGS)
def test_float16_spelling_becomes_the_operator(op):
    fn, x = SPELLINGS[op][0], X[1:].astype(np.float16)
    export = converter.to_onnx(fn, [x], opset=24)
    assert op in ops(export)
    assert converter.check(export, fn, [x]).passed


@pytest.mark.parametrize("op", INEXACT)
def test_inexact_operators_are_reported_or_avoided_if_strict(op):
    fn = SPELLINGS[op][0]
    assert len(converter.to_onnx(fn, [X], opset=24).report.deviations) == 1
    strict_export, actual, expected = convert_and_run(fn, opset=24, strict=True)
    assert op not in ops(strict_export)
    assert strict_export.report.deviations == []
    assert units(actual, expected).max() <= 4


@NEEDS_PRELU_OF_INFINITY
def test_slopes_that_are_parameters_stay_parameters():
    export, actual, expected = convert_and_run(eqx.nn.PReLU(jnp.linspace(-0.5, 2, 20)))
    assert ops(export) == ["PRelu"]
    assert list(export.model.graph.initializers) == ["negative_slope"]
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.each()
@pytest.mark.parametrize("opset", [17, 20, 25, 26])
def test_every_opset_has_a_kernel(opset):
    for op, (fn, *_) in SPELLINGS.items():
        _, actual, expected = convert_and_run(fn, opset=opset)
        np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=4e-7, err_msg=op)


def test_older_opsets_and_integers_use_other_operators():
    assert "Softplus" in ops(converter.to_onnx(lambda x: jnp.logaddexp(x, 0.1), [X]))
    assert ops(converter.to_onnx(jax.nn.mish, [X], opset=17)) == ["Softplus", "Tanh", "Mul"]
    for opset in (23, 25, 26):
        assert ops(converter.to_onnx(jax.nn.silu, [X], opset=opset)) == ["Sigmoid", "Mul"]
    assert "Clip" not in ops(converter.to_onnx(jax.nn.relu6, [((3, 4), "int32")]))
