"""Every spelling of an activation becomes its ONNX operator, which is compared with JAX.

The inputs include NaN, infinities, both zeros and the ends of the ranges of the formulas.
"""

import inspect
from importlib.metadata import version

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from converter.fuse import gelu
from converter.ir import ops
from converter.opsets import is_older
from converter.targets.schemas import operator_name
from tests.arrays import FLUSHED, count_units

EDGES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-8, -1e-8, -3.0, 3.0, 6.0, 7.0, -2.9999]
EDGES += [-20.0, 88.0, 1e30, -1e30]
X = np.array([*EDGES, *np.linspace(-7, 7, 44)], np.float32).reshape(3, 20)
SLOPES = np.linspace(0.1, 0.5, 20, dtype=np.float32)
TABLE = {op: row for op, row in ops.ACTIVATIONS.items() if row.forms}


def parameter_names(form):
    """Return the names of the formula's arguments besides `x`."""
    return [name for name in inspect.signature(form.formula).parameters if name != "x"]


def with_numbers(form, numbers):
    """Return the form's formula as a function of `x`, with these numbers or arrays by name."""
    values = [numbers[name] for name in parameter_names(form)]
    return lambda x: form.formula(x, *values)


SPELLINGS = {
    operator_name(op): [*row.examples, *(with_numbers(form, row.numbers) for form in row.forms)]
    for op, row in TABLE.items()
} | {
    "PRelu": [
        with_numbers(form, {"slope": SLOPES})
        for form in TABLE[ops.leaky_relu].forms
        if form.condition.accepts(slope=None)
    ]
}
"""By operator: functions of libraries and of users, and all forms of the table."""

REFUSED = [
    (operator_name(op), form)
    for op, row in TABLE.items()
    for form in row.forms
    if parameter_names(form) and form.condition.text and op is not ops.hard_sigmoid
]
"""Forms whose refused numbers are reported. A hard sigmoid with refused numbers is still a clip."""

ACTIVATIONS = {
    operator_name(op): row.examples[0] for op, row in ops.ACTIVATIONS.items() if op.structure
}
"""An example of each activation that accepts values of any shape."""


def near_gelu(name):
    """Return a near miss of GELU of the table as a function of `x`."""
    return lambda x: ops.ACTIVATIONS[ops.gelu].near_misses[name](x, SLOPES)


INEXACT = [operator_name(op) for op, row in TABLE.items() if row.is_inexact]
"""Operators of ONNX Runtime whose absolute error is bounded, but not their relative error."""


def operators(export):
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
    assert operators(converter.to_onnx(fn, [X])).count("Celu") == celu_count


@pytest.mark.parametrize(("op", "form"), REFUSED)
def test_refused_numbers_are_a_near_miss(op, form):
    names, refused = parameter_names(form), form.condition.refused
    fn = with_numbers(form, dict.fromkeys(names, refused))
    report = converter.to_onnx(fn, [X], opset=24).report
    (miss,) = report.near_misses
    numbers = " and ".join(f"{name} is {refused:g}" for name in names)
    assert str(miss) == f"{op}: {numbers}, and {op} is used only {form.condition.text}"
    assert not report.fused


@pytest.mark.parametrize(
    ("op", "fn", "reason"),
    [
        ("Celu", lambda x: jax.nn.celu(x, 20.0), "alpha is 20, and Celu is used only for alpha"),
        (
            "LeakyRelu",
            lambda x: jnp.where(x < 0, SLOPES * 1e9 * x, x),
            "slope is an array, and LeakyRelu is used only for numbers",
        ),
        *(
            ("Gelu", near_gelu(f"gelu, another {number}"), gelu.OTHER_NUMBERS)
            for number in ("root", "half", "one", "cube")
        ),
        ("Gelu", lambda x: 0.4 * x * lax.erfc(-x / 2**0.5), gelu.OTHER_NUMBERS),
        ("Gelu", near_gelu("gelu, a summand that cancels"), gelu.CANCELS),
    ],
)
def test_near_misses_name_the_line_of_the_user(op, fn, reason):
    report = converter.to_onnx(lambda x: fn(x), [X]).report
    (miss,) = report.near_misses
    assert miss.pattern == op and miss.reason.startswith(reason)
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
@pytest.mark.parametrize("op", [op for op in SPELLINGS if op not in ("Clip", "PRelu", "Gelu")])
def test_activations_in_other_dtypes_are_near_misses(op, dtype):
    fn = SPELLINGS[op][0]
    with jax.enable_x64(True):
        spec = jax.ShapeDtypeStruct(X.shape, dtype)
        report = converter.to_onnx(lambda x: fn(x), [spec], opset=24).report
    (miss,) = report.near_misses
    assert miss.pattern == op and "test_activations.py" in miss.line
    assert miss.reason == f"the dtype is {dtype}, and {op} is used only for float32 and float16"


def test_gelu_in_float64_is_a_near_miss():
    """ONNX Runtime has a Gelu of bfloat16, but none of float64."""
    with jax.enable_x64(True):
        spec = jax.ShapeDtypeStruct(X.shape, "float64")
        (miss,) = converter.to_onnx(lambda x: jax.nn.gelu(x), [spec]).report.near_misses
    assert str(miss) == "Gelu: the runtime has no Gelu of float64"


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
    assert operators(export) == [op]
    size = np.nan_to_num(np.abs(X), posinf=0)  # x * sigmoid(x) multiplies the sigmoid's error
    tolerance = 1e-7 * np.maximum(size, 4) if op in ("Gelu", *INEXACT) else 1e-37
    is_near = np.isclose(actual, expected, rtol=2e-6, atol=tolerance, equal_nan=True)
    assert is_near.all(), (X[~is_near], actual[~is_near], expected[~is_near])


@pytest.mark.parametrize("op", SPELLINGS)
def test_float16_spelling_becomes_the_operator(op):
    fn, x = SPELLINGS[op][0], X[1:].astype(np.float16)
    export = converter.to_onnx(fn, [x], opset=24)
    assert op in operators(export)
    assert converter.check(export, fn, [x]).passed


@pytest.mark.parametrize("op", INEXACT)
def test_inexact_operators_are_reported_or_avoided_if_strict(op):
    fn = SPELLINGS[op][0]
    assert len(converter.to_onnx(fn, [X], opset=24).report.deviations) == 1
    strict_export, actual, expected = convert_and_run(fn, opset=24, strict=True)
    assert op not in operators(strict_export)
    assert strict_export.report.deviations == []
    assert count_units(actual, expected, FLUSHED).max() <= 4


@NEEDS_PRELU_OF_INFINITY
def test_slopes_that_are_parameters_stay_parameters():
    export, actual, expected = convert_and_run(eqx.nn.PReLU(jnp.linspace(-0.5, 2, 20)))
    assert operators(export) == ["PRelu"]
    assert list(export.model.graph.initializers) == ["negative_slope"]
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.each()
@pytest.mark.parametrize("opset", [17, 20, 25, 26])
def test_every_opset_has_a_kernel(opset):
    for op, (fn, *_) in SPELLINGS.items():
        _, actual, expected = convert_and_run(fn, opset=opset)
        np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=4e-7, err_msg=op)


def test_older_opsets_and_integers_use_other_operators():
    assert "Softplus" in operators(converter.to_onnx(lambda x: jnp.logaddexp(x, 0.1), [X]))
    assert operators(converter.to_onnx(jax.nn.mish, [X], opset=17)) == ["Softplus", "Tanh", "Mul"]
    for opset in (23, 25, 26):
        assert operators(converter.to_onnx(jax.nn.silu, [X], opset=opset)) == ["Sigmoid", "Mul"]
    assert "Clip" not in operators(converter.to_onnx(jax.nn.relu6, [((3, 4), "int32")]))
