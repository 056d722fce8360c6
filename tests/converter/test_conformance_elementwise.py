"""Elementwise operations and formulas of them; `test_edges.py` has each on every dtype."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from converter.verify.sessions import run
from tests.conformance import Case, assert_exports, cases, unary, wrapped_cases

NAN, INF = np.nan, np.inf
EDGES = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-8, -1e30], np.float32)
INTS = ((3, 5), np.int32)

OPERATORS = (
    *((jnp.abs, "Abs"), (jnp.ceil, "Ceil"), (jnp.cos, "Cos"), (jnp.cosh, "Cosh")),
    *((jnp.arcsinh, "Asinh"), (jnp.arctan, "Atan"), (lax.erf, "Erf"), (jnp.exp, "Exp")),
    *((jnp.floor, "Floor"), (jax.nn.sigmoid, "Sigmoid"), (jnp.negative, "Neg")),
    *((jnp.round, "Round"), (jnp.sign, "Sign"), (jnp.sin, "Sin"), (jnp.sinh, "Sinh")),
    *((jnp.tan, "Tan"), (jnp.tanh, "Tanh")),
)
FLOATS = [
    Case("one to one", lambda x: [fn(x) for fn, _ in OPERATORS], tolerance=4,
         ops={operator: 1 for _, operator in OPERATORS}),
    Case("small", lambda x: (jnp.expm1(x * 1e-6) * 1e6, jnp.log1p(x * 1e-6) * 1e6), tolerance=8),
    Case("inverses", lambda x: (jnp.arccos(jnp.tanh(x)), jnp.arcsin(jnp.tanh(x)), 1 / x,
                                jnp.arccosh(1 + jnp.abs(x)), jnp.arctanh(x / 8)), tolerance=8),
    Case("one number", lambda x: -jax.nn.gelu(x), ((),), tolerance=8),
    Case("powers", lambda x: (x**5, x**-2, lax.integer_pow(x, 0), x**-1, jnp.square(x)),
         tolerance=8),
    Case("roots", lambda x: (jnp.cbrt(x), jnp.square(x), jnp.exp2(x)), tolerance=8),
    Case("steps", lambda x: (jnp.trunc(x), jnp.clip(x, -1, 0.5), jnp.heaviside(x, 0.5), x**3,
                             lax.round(x * 4, lax.RoundingMethod.AWAY_FROM_ZERO))),
    Case("reduce_precision", lambda x: [lax.reduce_precision(x, *bits) for bits in (
        (8, 7), (5, 10), (8, 23))]),
    Case("functions of jax.numpy", lambda x: (
        jnp.logaddexp(x, 2 * x), jnp.sinc(x), jnp.nan_to_num(x), jnp.hypot(x, x + 1),
        jnp.deg2rad(x), jax.nn.gelu(x), jax.nn.softplus(x)), tolerance=8),
    Case("polyval", lambda x: jnp.polyval(jnp.arange(4.0), x), tolerance=8),
    Case("lgamma, digamma", lambda x: (lax.lgamma(x), lax.digamma(x)),
         (np.linspace(-4.3, 9.4, 31, dtype=np.float32),), tolerance=16),
]  # fmt: skip
PAIR = ((3, 4), (3, 4))
BINARY = [
    Case("arithmetic", lambda x, y: (x + y, x - y, x * y, x / y, lax.rem(x, y), jnp.mod(x, y),
                                     x // y, jnp.abs(x) ** y, jnp.arctan2(x, y)), PAIR,
         tolerance=4),
    Case("choices", lambda x, y: (jnp.maximum(x, y), jnp.minimum(x, y), x < y, x <= y, x > y,
                                  x >= y, x == y, x != y, jnp.where(x > y, x, y * 2)), PAIR),
    Case("broadcast", lambda x, y: (x[:, None] * y[None] + y[0], x + 0.25 * (y - x)), PAIR),
    Case("clamp arrays", lambda x, y: lax.clamp(y - 1, x, y + 1), PAIR),
]  # fmt: skip

INTEGERS = [
    Case("signs", lambda x, y: (x - y, -x, jnp.abs(x), jnp.sign(x), lax.div(x, y * y + 1),
                                lax.rem(x, y * y + 3), x // (y * y + 1), x % (y * y + 3)),
         (INTS, INTS)),
    Case("pow", lambda x, y: (x**3, x**6, jnp.power(x, jnp.abs(y))), (INTS, INTS)),
    Case("select", lambda x, y: (jnp.where(x > y, x, y), lax.select_n(jnp.clip(x, 0, 2), y, -y, x)),
         (INTS, INTS)),
    Case("overflow wraps", lambda x, y: (
        x * 2**30 * y + (2**31 - 1), (x + 5) * 123456789 * y), (INTS, INTS)),
    Case("and or xor not", lambda x, y: (x & y, x | y, x ^ y, ~x), (INTS, INTS), (17, 18, 26)),
    Case("population_count", lambda x, y: (
        lax.population_count(x), lax.population_count(y * 77777)), (INTS, INTS), (18, 26)),
    Case("clz", lambda x, y: (lax.clz(x), lax.clz(y * y * 999)), (INTS, INTS), (18, 26)),
    Case("shift", lambda x, y: [shift(x, jnp.abs(y) * times) for times in (1, 8) for shift in (
        lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic)], (INTS, INTS),
         (18, 26)),
]  # fmt: skip
NARROW = [
    Case(f"{np.dtype(dtype).name} arithmetic", lambda x, y: (
        x + y, x * y, x - y * 3, -x, jnp.maximum(x, y), jnp.minimum(x, y), jnp.where(x > y, x, y),
        lax.div(x, jnp.maximum(y, 1)), lax.rem(x, jnp.maximum(y, 1)), x < y, x == y,
        jnp.clip(x, 1, 5), x**2), (((3, 5), dtype), ((3, 5), dtype)), (17, 23))
    for dtype in (np.int8, np.uint8, np.uint32)
]  # fmt: skip
BOOLS = [
    Case("booleans", lambda x, y: (
        x & y, x | y, x ^ y, ~x, x == y, x != y, x < y, x >= y, x + y, x * y, jnp.maximum(x, y),
        jnp.minimum(x, y), jnp.where(x, y, ~y), x.astype(jnp.float32), y.astype(jnp.int8)),
         (((3, 4), np.bool_), ((3, 4), np.bool_)), (17, 23)),
]  # fmt: skip
CONVERSIONS = [
    Case("float to int truncates", lambda x: ((x * 7).astype(jnp.int32), (x * 7).astype(jnp.int8),
                                              (x * x).astype(jnp.uint8), x.astype(jnp.float16))),
    Case("nonzero is true", lambda x: (x.astype(bool), (x * 0).astype(bool))),
    Case("narrowing wraps", lambda x: ((x * 99).astype(jnp.int8).astype(jnp.uint32),
                                       x.astype(jnp.uint32), x.astype(jnp.float16)), (INTS,)),
    Case("bitcast", lambda x: lax.bitcast_convert_type(x, jnp.int32), opsets=(17, 26)),
    Case("bitcast back", lambda x: lax.bitcast_convert_type(x, jnp.float32), (INTS,), (17, 26)),
]  # fmt: skip
HALVES = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, -2.5, 7.0], np.float32)
SPECIAL_VALUES = unary(
    {
        "max": lambda x: (jnp.maximum(x, 0.25), jnp.maximum(x[:, None], x)),
        "min": lambda x: (jnp.minimum(x, 0.25), jnp.minimum(x[:, None], x)),
        "clamp": lambda x: (lax.clamp(-1.0, x, 1.0), jnp.clip(x, -1, 1)),
        "is": lambda x: (jnp.isnan(x), jnp.isinf(x), jnp.isfinite(x), jnp.isposinf(x)),
        "compare": lambda x: (x < x[:, None], x == x[:, None], x != x[:, None], x >= x[:, None]),
        "relu": jax.nn.relu,
        "exp": jnp.exp,
        "smooth": lambda x: (jax.nn.sigmoid(x), jnp.tanh(x), lax.erf(x)),
        "round": lambda x: (jnp.sign(x), jnp.floor(x), jnp.ceil(x), jnp.round(x)),
        "roots": lambda x: (jnp.log(x), jnp.sqrt(x), jnp.log1p(x), jnp.expm1(x), jnp.cbrt(x)),
        "pow": lambda x: (x**0.5, x**2, x**-1, jnp.power(2.0, x)),
        "softplus": lambda x: (jax.nn.softplus(x), jnp.logaddexp(x, 0.5), jax.nn.softmax(x[3:])),
        "lgamma": lax.lgamma,
        "erf_inv": lambda x: lax.erf_inv(jnp.clip(x, -1, 1)),
        "where": lambda x: (jnp.where(jnp.isnan(x), 0.0, x), jnp.nan_to_num(x)),
        "pairs": lambda x: (jnp.arctan2(x[:, None], x), lax.rem(x, jnp.float32(2))),
    },
    EDGES,
    tolerance=4,
)
SPECIAL_VALUES += [
    Case("ties", lambda x: [lax.round(x, lax.RoundingMethod(m)) for m in (0, 1)], (HALVES,)),
]
HALF = [
    Case("half", lambda x: (
        x + x, x * x - 1, x / 3, -x, jnp.maximum(x, 0), jnp.exp(x), jnp.tanh(x), jax.nn.silu(x),
        x.sum(0), x.max(1), x.mean(), jax.nn.softmax(x)), (((3, 4), np.float16),)),
]  # fmt: skip


@cases([*FLOATS, *BINARY, *INTEGERS, *NARROW, *BOOLS, *CONVERSIONS, *SPECIAL_VALUES, *HALF])
def test_elementwise(case, opset):
    assert_exports(case, opset)


def test_more_than_32_bits():
    """ONNX Runtime's own Sign errs there before 1.32, and floor division is made of it."""
    numbers = np.array([3 << 40, -(3 << 31), (1 << 32) - 1, -(1 << 33), 7, -7, 0])

    def fn(x):
        return jnp.sign(x), x // (1 << 20), jnp.abs(x)

    with jax.enable_x64(True):
        got = run(converter.to_onnx(fn, [((7,), np.int64)]), [numbers])
        for one, other in zip(got.values(), fn(numbers), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.sampled(4)
@wrapped_cases(
    [
        Case("where", lambda x, y: jnp.where(x > 0, x * y, jnp.tanh(y)), ((3, 4), (3, 4))),
        Case("mixed rank", lambda x, y: x * y + jnp.sum(y), ((3, 4), (4,))),
        Case("clamp", lambda x, y: lax.clamp(y, x, y + 1), ((2, 4), (2, 4))),
    ]
)
def test_transformed(case):
    assert_exports(case)


@pytest.mark.parametrize(
    ("fn", "opset", "message"),
    [
        (lax.population_count, 17, "'population_count' .*int32.*: it needs opset 18 or newer"),
        (lambda x: lax.bitcast_convert_type(x, jnp.uint8), 25, "only at the same width"),
        (lambda x: jnp.linalg.eigvals(jnp.outer(x, x) * 1j), 23, "'eig of complex .* iterations"),
    ],
)
def test_unsupported_says_what_it_needs(fn, opset, message):
    with pytest.raises(converter.Unsupported, match=message):
        converter.to_onnx(fn, [((3,), np.int32)], opset=opset)
