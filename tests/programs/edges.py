"""Values, constants and indices at the edges of their range.

Floats become integers, sums and products leave their dtype, and indices break their promise.
Integers are equal to those of JAX. Floats are equal in cases with `tolerance=0`, and elsewhere
agree up to rounding.
"""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.conformance import DEFAULT, EVERY_LEVEL, Case
from tests.programs.window import FORMS

EXACT = DEFAULT | {EVERY_LEVEL}
NAN, INF = np.nan, np.inf

# ------------------------------------------------------------------------------------ conversions

FLOATS_OUT_OF_RANGE = np.array(
    [
        *(1.2, -1, NAN, 0.5, 1e20, -INF, INF, 3e9, -3e9, 254.9, 448, 464, 465, 57344, 61440),
        *(240, 248, 1.0625, -1.5, -0.5, 0.5, 7.7, 15.9),
        *(np.random.default_rng(0).standard_normal(60) * 8),
    ]
)
NARROW = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "int4", "uint4")
"""Dtypes of eight or four bits. A number out of range becomes NaN or infinity in a float and the
extreme of an integer."""


def narrowed(dtype: str) -> Callable[..., Any]:
    return lambda x: x.astype(getattr(jnp, dtype)).astype(jnp.float32)


def narrowed_twice(first: str, second: str) -> Callable[..., Any]:
    return lambda x: narrowed(second)(x.astype(getattr(jnp, first)))


def conversions_of_constants(x):
    byte = jnp.array([300.0, -5.0, jnp.nan, jnp.inf, 77.9]).astype(jnp.uint8)
    words = jnp.array([3e9, -3e9, jnp.nan, -jnp.inf, 2.0**31]).astype(jnp.int32)
    return jnp.full((5,), 300.0).astype(jnp.uint8) + byte, words, x


with np.errstate(over="ignore"):
    CONVERSIONS = [
        # Before jax 0.10, XLA without its fusion emitters, as tests run it, rounds twice.
        *(Case(f"{source} to {target}", narrowed(target), (FLOATS_OUT_OF_RANGE.astype(source),),
               tolerance=0, tags=EXACT, since="0.10")
          for source in ("float32", "float16") for target in NARROW),
        *(Case(f"{source} to {target}", narrowed_twice(source, target), (FLOATS_OUT_OF_RANGE,),
               tolerance=0, tags=EXACT, since="0.10")
          for source, target in permutations(("float8_e5m2", "float8_e4m3fn"))),
        Case("conversion in range",
             lambda x: jnp.floor(jnp.clip(x.astype(jnp.float32), 0.0, 254.5)).astype(jnp.uint8),
             (np.arange(12, dtype=np.int32),), ops={"Where": 0, "IsNaN": 0}, tags=EXACT),
        Case("conversions of constants", conversions_of_constants, ((2,),), tags=DEFAULT),
    ]  # fmt: skip

# --------------------------------------------------------------------------------------- integers


def full_range(dtype: str) -> np.ndarray:
    """Return random integers of the full range of a dtype: [3, 7]."""
    info = np.iinfo(dtype)
    return np.random.default_rng(3).integers(info.min, info.max, (3, 7), dtype, endpoint=True)


def reductions(x):
    """Return a product and a sum of integers. ONNX Runtime adds and multiplies them in float64."""
    sums = () if x.dtype == np.int64 else (jnp.sum(x, (0, 1), dtype=x.dtype),)
    return jnp.prod(x, 1, dtype=x.dtype), *sums


def order(x):
    """Return results that depend on the order of numbers. ONNX Runtime cannot order uint64, and
    numbers from 2**63 on are negative in int64."""
    indices = lax.argmax(x, 1, np.int32), lax.argmin(x, 1, np.int32)
    return indices, x.max(1), x.min(1), lax.top_k(x, 3), jnp.sort(x, 1), jnp.maximum(x, x[::-1])


def of_uint32_parameters(w, x):
    """Return folded results. A runtime may need 64 bits for some of these operations."""
    extremes = jnp.max(w, 0), jnp.min(w, 1), jnp.argmax(w, 1), jnp.argmin(w, 0), jnp.cumsum(w, 1)
    sums = jnp.sort(w, 1), lax.top_k(w, 2)[0], jnp.sum(w, 1), w // jnp.uint32(3)
    return *extremes, *sums, x


LARGE_UINT64 = np.array([[1, 2**63, 7, 2**64 - 1], [2**63 - 1, 2**63 + 1, 0, 5]], np.uint64)
LARGE_UINT32 = np.array([[5, 2, 4294967295], [1, 4000000000, 3]], np.uint32)
DIVIDENDS = np.array([-(2**31), 5, 0, -7, 2**31 - 1, 12], np.int32)
BASES = np.array([1.5, -2.0, 3.0, 0.5], np.float32)
CONVOLVED = [60 * np.random.default_rng(3).standard_normal(s) for s in ((2, 4, 9, 7), (6, 2, 3, 5))]
ONLY_DIVISION = dict.fromkeys(
    (
        *("Abs", "Add", "And", "Cast", "Ceil", "Clip", "Equal", "Floor", "Greater", "Less", "Max"),
        *("Min", "Mul", "Neg", "Not", "Or", "Sign", "Sub", "Where", "Xor"),
    ),
    0,
)

INTEGERS = [
    *(Case(f"reductions of {dtype}", reductions, (full_range(dtype),), x64=True, tags=EXACT)
      for dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")),
    Case("order of uint64", order, (LARGE_UINT64,), x64=True, tags=EXACT),
    Case("parameters of uint32", of_uint32_parameters, ((2,),), params=LARGE_UINT32, tags=DEFAULT),
    # `tests/rules/` and `primitives.py` test divisions by other values.
    Case("division by constants", lambda x: (lax.div(x, jnp.int32(7)), lax.rem(x, jnp.int32(-3))),
         (DIVIDENDS,), ops={"Div": 1, "Mod": 1, **ONLY_DIVISION}, tags=EXACT),
    Case("comparisons with numbers out of range",
         lambda x: (jnp.where(jnp.abs(x) == -1, 2, x), jnp.where(jnp.abs(x) != -1, 2, x)),
         (DIVIDENDS.astype(np.float32),), ops={"Abs": 0, "Equal": 0, "Where": 0}, tags=EXACT),
    Case("division by -1 or more",
         lambda x, y: (lax.div(x, jnp.maximum(y, -1)), lax.rem(x, jnp.maximum(y, -1))),
         (DIVIDENDS, np.array([-1, -9, 3, -1, -1, 5], np.int32)), ops={"Neg": 1}, tags=EXACT),
    Case("division by -2 or less", lambda x, y: lax.div(x, jnp.minimum(y, -2)),
         (DIVIDENDS, np.array([-1, -9, 3, -1, -1, 5], np.int32)), ops={"Neg": 0, "Where": 0},
         tags=EXACT),
    Case("convolution of int32", FORMS["grouped"],
         [x.astype(np.int32) * np.int32(123457) for x in CONVOLVED], tags=EXACT),
    Case("convolution of int8 with wider sums",
         lambda x, w: lax.conv(x[:, :2], w, (1, 1), "SAME", preferred_element_type=np.int32),
         [x.astype(np.int8) for x in CONVOLVED], tags=EXACT),
    Case("power of uint8", lax.pow, (BASES, np.array([0, 1, 2, 255], np.uint8)), tags=DEFAULT),
    Case("power of int16", lax.pow, (BASES, np.array([3, 2, -1, -300], np.int16)), tags=DEFAULT),
]  # fmt: skip

# ---------------------------------------------------------------------------------------- indices

TABLE = np.arange(1, 36, dtype=np.float32).reshape(5, 7)
INDICES = np.array([-30, -3, 0, 4, 5, 8, -6], np.int32)
IN_BOUNDS = np.array([4, 0, 3, 3, 1], np.int32)
CONSTANT_INDICES = ([7], [5, 6, 7], [-7, 2], [[-9, 4], [5, 0]])


def gather_promised(x, i):
    return x.at[i].get(mode="promise_in_bounds")


def is_within(i):
    return (i >= 0) & (i < 5)


def gathered_twice(x, i):
    return jnp.where(is_within(i), gather_promised(x[0], gather_promised(x[0], i).astype(int)), 0)


def gathered_in_loop(x, i):
    """Gather in the loop that masks the gathered rows."""

    def step(carry, k):
        return jnp.where(is_within(k), carry + gather_promised(x, k), carry), carry

    return lax.scan(step, jnp.zeros(7), i)


def gathered_before_loop(x, i):
    """Gather before the loop that masks the gathered rows."""

    def step(carry, row):
        return jnp.where(is_within(row[0]), carry + row[1], carry), None

    return lax.scan(step, jnp.zeros(7), (i, gather_promised(x, i)))[0]


def gathered_in_branches(x, i):
    """Gather in branches, and mask the result after them."""
    branches = (lambda: gather_promised(x[:, 1], i)), (lambda: gather_promised(x[:, 2], i))
    return jnp.where(is_within(i), lax.cond(x[0, 0] > 0, *branches), 0)


MASKED: dict[str, Callable[..., Any]] = {
    "two indices": lambda x, i: jnp.where(is_within(i), x[i, i], 0),
    "broadcast": lambda x, i: jnp.where(is_within(i)[:, None], 2 * gather_promised(x, i) + 1, 0),
    "summed": lambda x, i: jnp.where(is_within(i), gather_promised(x, i).sum(1), 0),
    "gather of gather": gathered_twice,
    "loop": gathered_in_loop,
    "before the loop": gathered_before_loop,
    "branches": gathered_in_branches,
}
"""Functions of a table and of indices out of bounds, whose gathers are masked afterwards."""


@jax.jit
def promised(x, i):
    mode = {"mode": "promise_in_bounds"}
    return gather_promised(x, i), x.at[i].set(3.5, **mode), x.at[i, i].add(2.0, **mode)


def clipped_and_masked(x, i):
    return jnp.where(i[:, None] > 3, gather_promised(x, jnp.clip(i, 0, 4)), 0)


def written_at_constants(x, y):
    target_rows, mode = x.at[jnp.array([1, 9])], {"mode": "promise_in_bounds"}
    return target_rows.set(y, **mode), target_rows.add(y, **mode), target_rows.max(y, **mode)


INDEXED = [
    *(Case(f"masked gather, {name}", fn, (TABLE, INDICES), tolerance=0, tags=EXACT)
      for name, fn in MASKED.items()),
    Case("promises broken", promised, (TABLE, INDICES), tolerance=0, strict=True, tags=DEFAULT),
    # No Clip is added if no mask follows, or if the indices are known to be within bounds.
    Case("promise kept", gather_promised, (TABLE, IN_BOUNDS), ops={"Clip": 0}, tags=DEFAULT),
    Case("clipped promise", clipped_and_masked, (TABLE, INDICES), ops={"Clip": 0}, tags=DEFAULT),
    Case("read at constant indices", lambda x: [x[jnp.array(i)] for i in CONSTANT_INDICES],
         (TABLE,), tolerance=0, tags=EXACT),
    Case("written at constant indices", written_at_constants, (TABLE, -TABLE[:2] - 1), tolerance=0,
         tags=EXACT),
]  # fmt: skip

# ---------------------------------------------------------------------- NaN, infinities, overflow

OVERFLOWING = np.array([[1e30, 1], [1e-30, 1e-30], [INF, 1], [NAN, 0]], np.float32)
SCALES = ((1e30, 0), (1e-30, 1e-30), (1e30, 1e30), (1.0, 0.0))
"""Weights and scales. Scaled weights may overflow or become zero where scaled products do not."""


def scaled(p, x):
    return (x @ p["w"]) * p["s"]


def scaled_weights(weight: float, scale: float) -> dict[str, np.ndarray]:
    return {"w": np.full((2, 3), weight, np.float32), "s": np.full(3, scale, np.float32)}


def signed_nan(dtype: str) -> np.ndarray:
    """Return two rows with NaN of both signs: [2, 12]."""
    row = np.array([1, -NAN, INF, 0.0, -0.0, NAN, -INF, 2, -3, 1, -0.0, 0.0])
    return np.stack([row, np.copysign(row, -row)]).astype(dtype)


SPECIAL = [
    *(Case(f"weight {weight} scaled by {scale}", scaled, (OVERFLOWING,),
           params=scaled_weights(weight, scale), tolerance=0, strict=True, tags=DEFAULT)
      for weight, scale in SCALES),
    # `top_k` orders a NaN with its sign bit set below all numbers; opset 26 reads that bit.
    *(Case(f"top_k of {dtype}", lambda x: lax.top_k(x, 9), (signed_nan(dtype),), (26,), tolerance=0,
           strict=True, x64=dtype == "float64", tags=EXACT)
      for dtype in ("float16", "bfloat16", "float32", "float64")),
]  # fmt: skip

# --------------------------------------------------------------------------------------- matrices

RNG = np.random.default_rng(11)


def positive(size: int) -> np.ndarray:
    x = RNG.standard_normal((size, size))
    return x @ x.T + np.eye(size)


def decompositions(x):
    return jnp.linalg.eigvalsh(x), jnp.linalg.svdvals(x), jnp.linalg.cholesky(x)


def full_decompositions(x):
    """Return full matrices. Of a matrix without columns, the left singular vectors remain."""
    return jnp.linalg.svd(x), jnp.linalg.qr(x, "complete"), jnp.linalg.eigh(x.mT @ x)


UPPER_TRIANGLE = np.triu(RNG.standard_normal((6, 6)), 1) + np.tril(positive(6))
NOT_POSITIVE = np.stack([positive(5), -np.eye(5), np.diag([1.0, 2, 0, 1, 1])])
SINGULAR = np.stack([np.ones((5, 5)), np.zeros((5, 5)), np.diag([1.0, 2, 0, 4, 0])])


def of_matrix(name: str, fn: Callable[..., Any], x: np.ndarray, tolerance: float = 0) -> Case:
    return Case(name, fn, (x.astype(np.float32),), tolerance=tolerance, tags=DEFAULT)


MATRICES = [
    of_matrix("cholesky of the lower triangle", lax.linalg.cholesky_p.bind, UPPER_TRIANGLE, 0.25),
    of_matrix("cholesky of no positive matrix", lambda x: jnp.isnan(jnp.linalg.cholesky(x)),
              NOT_POSITIVE),
    of_matrix("lu of singular", lambda x: (lax.linalg.lu(x), jnp.linalg.det(x)), SINGULAR[:2]),
    of_matrix("inverse of singular", jnp.linalg.inv, SINGULAR),
    of_matrix("decompositions of NaN", decompositions, np.full((3, 5, 5), NAN)),
    of_matrix("qr down to subnormals", lambda x: jnp.isnan(jnp.linalg.qr(x + 1j)[0]),
              np.ones((40, 40))),
    of_matrix("decompositions without columns", full_decompositions, np.zeros((2, 3, 0))),
]  # fmt: skip

PROGRAMS = [*CONVERSIONS, *INTEGERS, *INDEXED, *SPECIAL, *MATRICES]
