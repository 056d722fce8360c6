"""Elementwise operations: every dtype that matters, and the values where semantics differ."""

from __future__ import annotations

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

ONE_TO_ONE = {
    "abs": (jnp.abs, "Abs"),
    "ceil": (jnp.ceil, "Ceil"),
    "cos": (jnp.cos, "Cos"),
    "cosh": (jnp.cosh, "Cosh"),
    "asinh": (jnp.arcsinh, "Asinh"),
    "atan": (jnp.arctan, "Atan"),
    "erf": (jax.scipy.special.erf, "Erf"),
    "exp": (jnp.exp, "Exp"),
    "floor": (jnp.floor, "Floor"),
    "logistic": (jax.nn.sigmoid, "Sigmoid"),
    "neg": (jnp.negative, "Neg"),
    "round": (jnp.round, "Round"),
    "sign": (jnp.sign, "Sign"),
    "sin": (jnp.sin, "Sin"),
    "sinh": (jnp.sinh, "Sinh"),
    "tan": (jnp.tan, "Tan"),
    "tanh": (jnp.tanh, "Tanh"),
}
FLOATS = [Case(n, f, ops={op: 1}, tolerance=4) for n, (f, op) in ONE_TO_ONE.items()]
FLOATS += unary(
    {
        "acos": lambda x: jnp.arccos(jnp.tanh(x)),
        "acosh": lambda x: jnp.arccosh(1 + jnp.abs(x)),
        "asin": lambda x: jnp.arcsin(jnp.tanh(x)),
        "atanh": lambda x: jnp.arctanh(x / 8),
        "cbrt": jnp.cbrt,
        "cube": lambda x: x**3,
        "exp2": jnp.exp2,
        "expm1": jnp.expm1,
        "expm1 small": lambda x: jnp.expm1(x * 1e-6) * 1e6,
        "erfc": lambda x: lax.erfc(x),
        "erf_inv": lambda x: lax.erf_inv(jnp.tanh(x)),
        "integer_pow": lambda x: (x**5, x**-2, lax.integer_pow(x, 0), x**-1),
        "log": lambda x: jnp.log(jnp.abs(x)),
        "log1p": lambda x: jnp.log1p(jnp.abs(x)),
        "log1p small": lambda x: jnp.log1p(x * 1e-6) * 1e6,
        "reciprocal": lambda x: 1 / x,
        "round away": lambda x: lax.round(x * 4, lax.RoundingMethod.AWAY_FROM_ZERO),
        "rsqrt": lambda x: lax.rsqrt(jnp.abs(x)),
        "sqrt": lambda x: jnp.sqrt(jnp.abs(x)),
        "square": jnp.square,
        "trunc": jnp.trunc,
        "clip": lambda x: jnp.clip(x, -1, 0.5),
        "is_finite": jnp.isfinite,
        "reduce_precision": lambda x: (
            lax.reduce_precision(x, 8, 7),
            lax.reduce_precision(x, 5, 10),
            lax.reduce_precision(x, 8, 23),
        ),
        "logaddexp": lambda x: jnp.logaddexp(x, 2 * x),
        "sinc": jnp.sinc,
        "nan_to_num": jnp.nan_to_num,
        "hypot": lambda x: jnp.hypot(x, x + 1),
        "deg2rad": jnp.deg2rad,
        "gelu": jax.nn.gelu,
        "softplus": jax.nn.softplus,
        "heaviside": lambda x: jnp.heaviside(x, 0.5),
        "polyval": lambda x: jnp.polyval(jnp.arange(4.0), x),
    },
    tolerance=8,
)
FLOATS += unary(
    {"lgamma": lax.lgamma, "digamma": lax.digamma}, np.linspace(-4.3, 9.4, 31, dtype=np.float32),
    tolerance=16,
)  # fmt: skip

BINARY = unary(
    {
        "add": jnp.add,
        "sub": jnp.subtract,
        "mul": jnp.multiply,
        "div": jnp.divide,
        "max": jnp.maximum,
        "min": jnp.minimum,
        "pow": lambda x, y: jnp.abs(x) ** y,
        "rem": lax.rem,
        "mod": jnp.mod,
        "floor_divide": jnp.floor_divide,
        "atan2": jnp.arctan2,
        "compare": lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y, x == x),
        "where": lambda x, y: jnp.where(x > y, x, y * 2),
        "lerp": lambda x, y: x + 0.25 * (y - x),
        "broadcast": lambda x, y: x[:, None] * y[None] + y[0],
        "clamp arrays": lambda x, y: lax.clamp(y - 1, x, y + 1),
    },
    (3, 4),
    (3, 4),
    tolerance=4,
)

INTEGERS = unary(
    {
        "arithmetic": lambda x, y: (x + y, x - y, x * y, -x, jnp.abs(x), jnp.sign(x)),
        "truncating div": lambda x, y: lax.div(x, y * y + 1),
        "rem of dividend's sign": lambda x, y: lax.rem(x, y * y + 3),
        "floor div and mod": lambda x, y: (x // (y * y + 1), x % (y * y + 3)),
        "max min clip": lambda x, y: (jnp.maximum(x, y), jnp.minimum(x, y), jnp.clip(x, -2, 5)),
        "compare": lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y),
        "pow": lambda x, y: (x**3, x**6, jnp.power(x, jnp.abs(y))),
        "select": lambda x, y: (jnp.where(x > y, x, y), lax.select_n(jnp.clip(x, 0, 2), y, -y, x)),
        "overflow wraps": lambda x, y: (x * 2**30 * y + (2**31 - 1), (x + 5) * 123456789 * y),
    },
    INTS,
    INTS,
)
INTEGERS += unary(
    {"and or xor not": lambda x, y: (x & y, x | y, x ^ y, ~x)}, INTS, INTS, opsets=(17, 18, 26)
)
INTEGERS += unary(
    {
        "population_count": lambda x, y: (lax.population_count(x), lax.population_count(y * 77777)),
        "clz": lambda x, y: (lax.clz(x), lax.clz(y * y * 999)),
        "shift": lambda x, y: (
            lax.shift_left(x, jnp.abs(y)),
            lax.shift_right_logical(x, jnp.abs(y)),
            lax.shift_right_arithmetic(x, jnp.abs(y)),
            lax.shift_left(x, jnp.abs(y) * 8),
            lax.shift_right_arithmetic(x, jnp.abs(y) * 8),
        ),
    },
    INTS,
    INTS,
    opsets=(18, 26),
)

NARROW = [
    Case(
        f"{np.dtype(dtype).name} arithmetic",
        lambda x, y: (
            x + y,
            x * y,
            x - y * 3,
            -x,
            jnp.maximum(x, y),
            jnp.minimum(x, y),
            jnp.where(x > y, x, y),
            lax.div(x, jnp.maximum(y, 1)),
            lax.rem(x, jnp.maximum(y, 1)),
            x < y,
            x == y,
            jnp.clip(x, 1, 5),
            x**2,
        ),
        (((3, 5), dtype), ((3, 5), dtype)),
        opsets=(17, 23),
    )
    for dtype in (np.int8, np.uint8, np.int16, np.uint16, np.uint32)
]
BOOLS = unary(
    {
        "logic": lambda x, y: (x & y, x | y, x ^ y, ~x, jnp.logical_not(y)),
        "compare": lambda x, y: (x == y, x != y, x < y, x >= y),
        "arithmetic": lambda x, y: (x + y, x * y, jnp.maximum(x, y), jnp.minimum(x, y)),
        "select": lambda x, y: jnp.where(x, y, ~y),
        "convert": lambda x, y: (x.astype(jnp.float32), y.astype(jnp.int8)),
    },
    ((3, 4), np.bool_),
    ((3, 4), np.bool_),
    opsets=(17, 23),
)
CONVERSIONS = [
    Case("float to int truncates", lambda x: (x * 7).astype(jnp.int32)),
    Case("float to narrow int", lambda x: ((x * 7).astype(jnp.int8), (x * x).astype(jnp.uint8))),
    Case("nonzero is true", lambda x: (x.astype(bool), (x * 0).astype(bool))),
    Case("int to float", lambda x: (x.astype(jnp.float32), x.astype(jnp.float16)), (INTS,)),
    Case("narrowing wraps", lambda x: (x * 99).astype(jnp.int8).astype(jnp.uint32), (INTS,)),
    Case("int32 to uint32", lambda x: x.astype(jnp.uint32), (INTS,)),
    Case("float16", lambda x: x.astype(jnp.float16)),
    Case("bitcast", lambda x: lax.bitcast_convert_type(x, jnp.int32), opsets=(17, 26)),
    Case("bitcast back", lambda x: lax.bitcast_convert_type(x, jnp.float32), (INTS,), (17, 26)),
]
SPECIAL_VALUES = unary(
    {
        "max": lambda x: (jnp.maximum(x, 0.25), jnp.maximum(x[:, None], x)),
        "min": lambda x: (jnp.minimum(x, 0.25), jnp.minimum(x[:, None], x)),
        "clamp": lambda x: (lax.clamp(-1.0, x, 1.0), jnp.clip(x, -1, 1)),
        "sign": jnp.sign,
        "is": lambda x: (jnp.isnan(x), jnp.isinf(x), jnp.isfinite(x), jnp.isposinf(x)),
        "compare": lambda x: (x < x[:, None], x == x[:, None], x != x[:, None], x >= x[:, None]),
        "relu": jax.nn.relu,
        "sigmoid": jax.nn.sigmoid,
        "tanh": jnp.tanh,
        "exp": jnp.exp,
        "log": jnp.log,
        "sqrt": jnp.sqrt,
        "expm1": jnp.expm1,
        "log1p": jnp.log1p,
        "cbrt": jnp.cbrt,
        "round": lambda x: (jnp.round(x), lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO)),
        "floor": lambda x: (jnp.floor(x), jnp.ceil(x)),
        "pow": lambda x: (x**0.5, x**2, x**-1, jnp.power(2.0, x)),
        "softplus": jax.nn.softplus,
        "softmax": lambda x: jax.nn.softmax(x[3:]),
        "logaddexp": lambda x: jnp.logaddexp(x, 0.5),
        "erf": lax.erf,
        "lgamma": lax.lgamma,
        "erf_inv": lambda x: lax.erf_inv(jnp.clip(x, -1, 1)),
        "atan2": lambda x: jnp.arctan2(x[:, None], x),
        "where": lambda x: jnp.where(jnp.isnan(x), 0.0, x),
        "nan_to_num": jnp.nan_to_num,
        "rem": lambda x: lax.rem(x, jnp.float32(2)),
    },
    EDGES,
    tolerance=4,
)
HALVES = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, -2.5, 7.0], np.float32)
SPECIAL_VALUES += [
    Case("ties", lambda x: [lax.round(x, lax.RoundingMethod(m)) for m in (0, 1)], (HALVES,)),
]
HALF = unary(
    {
        "arithmetic": lambda x: (x + x, x * x - 1, x / 3, -x, jnp.maximum(x, 0)),
        "functions": lambda x: (jnp.exp(x), jnp.tanh(x), jax.nn.silu(x), jnp.sqrt(jnp.abs(x))),
        "reductions": lambda x: (x.sum(0), x.max(1), x.mean(), jax.nn.softmax(x)),
    },
    ((3, 4), np.float16),
)


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
