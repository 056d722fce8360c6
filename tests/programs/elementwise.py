"""Elementwise operations and formulas of them. `primitives.py` has each operation on every
dtype."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.conformance import DEFAULT, JUDGES, SIGNS, Case

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
BITS_OF = {"float16": "16", "float32": "32", "float64": "64"}
BITS_RNG = np.random.default_rng(11)
BITCAST_TAGS = DEFAULT | {SIGNS}


def bit_patterns(bits: int) -> np.ndarray:
    """Return unsigned integers of this width: all of 16 bits, otherwise a selection.

    The selection has those around every power of two and random ones.
    """
    if bits == 16:
        return np.arange(1 << 16).astype(np.uint16)
    exponent, fraction = (12, 52) if bits == 64 else (9, 23)
    heads = np.arange(1 << exponent, dtype=np.uint64) << np.uint64(fraction)
    neighbours = (heads[:, None] + np.array([0, 1, 2**64 - 1, 2**22 + 5], np.uint64)).ravel()
    random_bits = BITS_RNG.integers(0, 2**64, 4000, np.uint64)
    return np.concatenate([neighbours, random_bits]).astype(f"uint{bits}")


def bitcast_rows(dtype: str, kind: str) -> Iterator[Case]:
    """Yield bitcasts from integers to floats and back. The bits of a NaN may differ."""
    integer = kind + BITS_OF[dtype]
    bits = bit_patterns(int(BITS_OF[dtype])).view(integer)

    def decoded(x):
        return lax.bitcast_convert_type(x, dtype)

    def encoded(x):
        bits = lax.bitcast_convert_type(x, integer)
        return jnp.where(jnp.isnan(x), 0, bits), jnp.isnan(lax.bitcast_convert_type(bits, dtype))

    for name, fn, x in (("to", decoded, bits), ("from", encoded, bits.view(dtype))):
        yield Case(f"bitcast {name} {dtype} of {integer}", fn, (x,), tolerance=0,
                   x64=dtype == "float64", tags=BITCAST_TAGS)  # fmt: skip


def neighbours(dtype: str) -> Case:
    """Return the neighbours of floats, of which some are the number itself."""
    x = bit_patterns(int(BITS_OF[dtype])).view(dtype)
    x = x[:: max(1, x.size // 9000)]
    y = BITS_RNG.permutation(x)
    y[::5] = x[::5]
    return Case(f"nextafter of {dtype}", lax.nextafter, (x, y), (17, 26), tolerance=0,
                tags=BITCAST_TAGS)  # fmt: skip


BITCASTS = [
    *(row for dtype in BITS_OF for kind in ("int", "uint") for row in bitcast_rows(dtype, kind)),
    *map(neighbours, ("float16", "float32")),
]
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
    *BITCASTS,
    *MADE_OF_BITS,
    *SPECIAL_VALUES,
]
