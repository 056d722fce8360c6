"""Elementwise operations and formulas of them. `test_edges.py` has each operation on every
dtype."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.conformance import DEFAULT, JUDGES, Case

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
         ops={operator: 1 for _, operator in OPERATORS}, tags=DEFAULT),
    Case("steps", lambda x: (jnp.trunc(x), jnp.clip(x, -1, 0.5), jnp.heaviside(x, 0.5), x**3,
                             lax.round(x * 4, lax.RoundingMethod.AWAY_FROM_ZERO)), tags=DEFAULT),
    Case("reduce_precision", lambda x: [lax.reduce_precision(by * x, *bits)
         for by in (1, 1e-5) for bits in ((8, 7), (5, 10), (8, 23))], tags=DEFAULT),
    Case("polyval", lambda x: jnp.polyval(jnp.arange(4.0), x), tolerance=8,
         tags=DEFAULT | {"jvp", "vmap of grad"}),
]  # fmt: skip
PAIR = ((3, 4), (3, 4))
BINARY = [
    Case("formulas", lambda x, y: (jnp.mod(x, y), x // y), PAIR),
    Case("clamp arrays", lambda x, y: lax.clamp(y - 1, x, y + 1), PAIR,
         tags=DEFAULT | {"vmap of the last"}),
]  # fmt: skip

INTEGERS = [
    Case("and or xor not", lambda x, y: (x & y, x | y, x ^ y, ~x), (INTS, INTS), (17, 18, 26),
         tags=DEFAULT),
    Case("population_count", lambda x, y: (
        lax.population_count(x), lax.population_count(y * 77777)), (INTS, INTS), (18, 26),
         tags=DEFAULT),
    Case("clz", lambda x, y: (lax.clz(x), lax.clz(y * y * 999)), (INTS, INTS), (18, 26),
         tags=DEFAULT),
    Case("shift", lambda x, y: [shift(x, jnp.abs(y) * times) for times in (1, 8) for shift in (
        lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic)], (INTS, INTS),
         (18, 26), tags=DEFAULT),
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
         (((3, 4), np.bool_), ((3, 4), np.bool_)), (17, 23), tags=DEFAULT | {JUDGES}),
]  # fmt: skip
CONVERSIONS = [
    Case("bitcast", lambda x: lax.bitcast_convert_type(x, jnp.int32), opsets=(17, 26),
         tags=DEFAULT),
    Case("bitcast back", lambda x: lax.bitcast_convert_type(x, jnp.float32), (INTS,), (17, 26),
         tags=DEFAULT),
]  # fmt: skip
NUMBERS = np.array([0.0, -0.0, 1, -1.5, 3e-30, -2e20, INF, -INF], np.float32)
MADE_OF_BITS = [
    Case("frexp", jnp.frexp, [NUMBERS], (17,)),
    Case("ldexp", lambda x: jnp.ldexp(x, np.arange(-4, 100, 13)), [NUMBERS], (17,)),
    Case("signs", lambda x: (jnp.spacing(x), jnp.signbit(x), jnp.copysign(jnp.float32(2), x)),
         [NUMBERS], (17,), tags=DEFAULT),
]  # fmt: skip
SPECIAL_VALUES = [
    Case(name, fn, (EDGES,), tolerance=4)
    for name, fn in {
        "max": lambda x: (jnp.maximum(x, 0.25), jnp.maximum(x[:, None], x)),
        "min": lambda x: (jnp.minimum(x, 0.25), jnp.minimum(x[:, None], x)),
        "compare": lambda x: (x < x[:, None], x == x[:, None], x != x[:, None], x >= x[:, None]),
        "relu": jax.nn.relu,
        "exp": jnp.exp,
        "pow": lambda x: (x**0.5, x**2, x**-1, jnp.power(2.0, x)),
        "lgamma": lax.lgamma,
        "erf_inv": lambda x: lax.erf_inv(jnp.clip(x, -1, 1)),
    }.items()
]

PROGRAMS = [
    *FLOATS,
    *BINARY,
    *INTEGERS,
    *NARROW,
    *BOOLS,
    *CONVERSIONS,
    *MADE_OF_BITS,
    *SPECIAL_VALUES,
]
