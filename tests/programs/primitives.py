"""Every operation of `jax.lax` on every dtype, at its edges, and in bodies of loops and branches.

Numbers below the smallest normal number are left out, because XLA flushes them to zero on CPUs and
ONNX Runtime does not. For the same reason a result of that size may be zero on one side.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.arrays import Tolerance
from tests.conformance import DEFAULT, FLOAT32, HALVES, Case, within_units

FLOATS = ("float16", "bfloat16", "float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
ALL = ("bool", *SIGNED, *UNSIGNED, *FLOATS)

Table = Mapping[str, Callable[..., Any]]

UNARY: Table = {
    **{
        op.__name__: op
        for op in (
            *(lax.abs, lax.acos, lax.acosh, lax.asin, lax.asinh, lax.atan, lax.atanh, lax.cbrt),
            *(lax.ceil, lax.cos, lax.cosh, lax.digamma, lax.erf, lax.erf_inv, lax.erfc, lax.exp),
            *(lax.exp2, lax.expm1, lax.floor, lax.is_finite, lax.lgamma, lax.log, lax.log1p),
            *(lax.logistic, lax.neg, lax.rsqrt, lax.sign, lax.sin, lax.sinh, lax.sqrt),
            *(lax.square, lax.tan, lax.tanh, lax.bitwise_not, lax.clz, lax.population_count),
        )
    },
    "round to even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "round away": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "cube": lambda x: lax.integer_pow(x, 3),
    "inverse square": lambda x: lax.integer_pow(x, -2),
    **{f"to {dtype}": lambda x, dtype=dtype: x.astype(dtype) for dtype in ALL},
}
BINARY: Table = {
    op.__name__: op
    for op in (
        *(lax.add, lax.sub, lax.mul, lax.div, lax.rem, lax.max, lax.min, lax.pow, lax.atan2),
        *(lax.eq, lax.ne, lax.lt, lax.le, lax.gt, lax.ge),
        *(lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor),
        *(lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic),
    )
}

UNITS = 4
TOLERATED: dict[str, tuple[float, str]] = {
    "cosh": (32, "XLA adds logarithms: 23 units off the truth at 88"),
    "sinh": (32, "as cosh"),
    "exp2": (128, "XLA multiplies by log(2) first: 19 units off at 27, in float64 42 off at 300"),
    "expm1": (32, "ONNX Runtime's Tanh is 28 units off at the smallest normal number"),
    "tanh": (32, "as expm1"),
    "erfc": (16, "1 - erf(x) below 1, as XLA has it, by other polynomials"),
    "digamma": (16, "a difference of large terms near its zeros"),
    "logistic": (2, "ONNX Runtime's Sigmoid is off by 1e-7 of 1; exact if strict"),
    "pow": (64, "XLA's is exp(y log(x)), and its float64 is exact for few"),
    "cos": (8, "ONNX Runtime's float64"),
    "tan": (8, "ONNX Runtime's float64 sine and cosine"),
    "lgamma": (16, "a difference of large terms near its zeros: XLA's is 14 units off at -3.5"),
    # `test_special_functions.py` compares cube roots of files with numpy's.
    "cbrt": (128, "XLA's, without its fusion emitters, is 15 units off, in float64 75"),
}
"""By function: the allowed difference in units in the last place, and its reason.

All other functions may differ by ``UNITS``.
"""

OF_ONE = frozenset({"logistic", "lgamma", "digamma"})
"""Functions whose small results may differ by units in the last place of 1."""


def edges(dtype: str) -> np.ndarray:
    """Return values of a dtype at which implementations may differ: [count]."""
    scalar_type = jnp.dtype(dtype)
    if scalar_type == np.bool_:
        return np.array([False, True])
    if jnp.issubdtype(scalar_type, jnp.integer):
        info = np.iinfo(scalar_type)
        small_values = [n for n in (-7, -2, -1, 0, 1, 2, 3, 7, 31, 100) if n >= info.min]
        extremes = [info.min, info.min + 1, info.max // 3, info.max // 2, info.max - 1, info.max]
        return np.array([*small_values, *extremes], scalar_type)
    limits = jnp.finfo(scalar_type)
    magnitudes = [
        0.0,
        1e-3,
        0.1,
        0.3,
        0.5,
        0.7,
        0.9,
        1,
        1.5,
        2.5,
        3,
        4.5,
        6,
        10,
        12,
        27,
        88,
        90,
        127.5,
    ]
    magnitudes += [
        128,
        255.9,
        300,
        1e4,
        32767.5,
        2.0**31,
        2.0**32,
        2.0**53,
        2.0**63,
        2.0**64,
        np.inf,
    ]
    magnitudes += [
        float(x) for x in (limits.max, limits.smallest_normal, limits.eps, 1 - limits.eps)
    ]
    with np.errstate(over="ignore"):
        return np.array([*magnitudes, *(-x for x in magnitudes), np.nan]).astype(scalar_type)


def supported_functions(table: Table, *args: np.ndarray) -> dict[str, Any]:
    """Return the functions of a table that JAX accepts for these operands."""
    supported = {}
    for name, fn in table.items():
        try:
            jax.eval_shape(fn, *args)
        except (TypeError, ValueError):
            continue
        supported[name] = fn
    return supported


# ---------------------------------------------------------------- operations on several elements

ROWS = np.array([2, 0, 2], np.int32)
UPDATES = slice(0, 3)


def window(op: Any, initial: Any, **options: Any) -> Callable[..., Any]:
    return lambda x: lax.reduce_window(
        x, x.dtype.type(initial), op, (1, 3), (1, 2), "VALID", **options
    )


CHOOSING: Table = {
    "argmax": lambda x: (jnp.argmax(x, 1), jnp.argmax(x)),
    "argmin": lambda x: (jnp.argmin(x, 0), jnp.argmin(x)),
    "bits": lambda x: lax.bitcast_convert_type(x, f"uint{8 * x.dtype.itemsize}"),
    "broadcast": lambda x: jnp.broadcast_to(x, (2, *x.shape)),
    "clip": lambda x: jnp.minimum(jnp.maximum(x, x.dtype.type(1)), x.dtype.type(3)),
    "concatenate": lambda x: jnp.concatenate([x, x[:1]], 0),
    "cond": lambda x: lax.cond(x[0, 0] == x[0, 0], lambda y: y[::-1], lambda y: y, x),
    "cummax": lambda x: lax.cummax(x, 1),
    "cummin": lambda x: lax.cummin(x, 0, reverse=True),
    "dynamic_slice": lambda x, i: lax.dynamic_slice(x, (i, i), (2, 3)),
    "dynamic_update_slice": lambda x, i: lax.dynamic_update_slice(x, x[:1, ::-1], (i, i)),
    "gather": lambda x, i: x.at[jnp.stack([i, i + 9])].get(mode="fill"),
    "gather of elements": lambda x, i: x[jnp.stack([i, i + 1]), jnp.stack([i + 2, i])],
    "counted": lambda x: jnp.where(lax.broadcasted_iota(np.int32, x.shape, 1) > 2, x, x[:, ::-1]),
    "max_pool": lambda x: lax.reduce_window(x, lowest(x.dtype), lax.max, (1, 3), (1, 2), "VALID"),
    "pad": lambda x: lax.pad(x, x.dtype.type(1), ((0, 1, 1), (-1, 2, 0))),
    "reduce_and": lambda x: jnp.all(x > 0, 1),
    "reduce_max": lambda x: (jnp.max(x, 1), jnp.max(x)),
    "reduce_min": lambda x: (jnp.min(x, 0), jnp.min(x)),
    "reduce_or": lambda x: jnp.any(x > 0, 0),
    "reduce_precision": lambda x: lax.reduce_precision(x, 8, 7),
    "reduce_xor": lambda x: lax.reduce_xor(x > 0, (1,)),
    "relu": jax.nn.relu,
    "reshape": lambda x: x.reshape(-1),
    "rev": lambda x: x[::-1],
    "scan": lambda x: lax.scan(lambda c, row: (row, c), x[0], x),
    "scatter": lambda x: x.at[ROWS[:2]].set(x[:2]),
    "scatter-max": lambda x: x.at[ROWS].max(x[UPDATES]),
    "scatter-min": lambda x: x.at[ROWS].min(x[UPDATES]),
    "searchsorted": lambda x: jnp.searchsorted(jnp.sort(x, 1)[0], x),
    "select_index": lambda x: x[:, 2],
    "select_n": lambda x: lax.select_n(x[:, ::-1] == x, x, x[::-1]),
    "slice": lambda x: x[1:3, ::2],
    "sort": lambda x: (jnp.sort(x, 1), jnp.argsort(x, 0)),
    "split": lambda x: [part * part for part in jnp.split(x, [1, 3], 1)],
    "take": lambda x: jnp.take(x, ROWS, 0),
    "tile": lambda x: jnp.tile(x, (2, 1)),
    "top_k": lambda x: lax.top_k(x, 2),
    "transpose": lambda x: x.T,
    "while": lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1][::-1]), (0, x)),
}
"""Operations that move or select elements.

They run on the edges of the dtype, and every bit must agree.
"""


def lowest(dtype: Any) -> Any:
    floating = jnp.issubdtype(dtype, jnp.floating)
    return dtype.type(-np.inf) if floating else jnp.iinfo(dtype).min


def along_both_axes(op: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: (op(x, 1), op(x, 0))


SUMMING: Table = {
    "approx_top_k": lambda x: lax.approx_max_k(x, 2),
    "cumlogsumexp": lambda x: lax.cumlogsumexp(x, 1),
    "cumprod": lambda x: lax.cumprod(x, 1),
    "cumsum": lambda x: lax.cumsum(x, 1),
    "layer_norm": lambda x: (x - x.mean(1, keepdims=True)) / jnp.sqrt(x.var(1, keepdims=True) + 1),
    "log_softmax": lambda x: jax.nn.log_softmax(x, 1),
    "matmul": lambda x: x @ x.T,
    "max_pool_scatter": lambda x: jax.grad(lambda x: window(lax.max, -np.inf)(x).sum())(x),
    "reduce_prod": along_both_axes(lambda x, axis: jnp.prod(x, axis, dtype=x.dtype)),
    "reduce_sum": along_both_axes(lambda x, axis: jnp.sum(x, axis, dtype=x.dtype)),
    "resize": lambda x: jax.image.resize(x, (8, 12), "linear"),
    "rms_norm": lambda x: x * lax.rsqrt(jnp.mean(x * x, 1, keepdims=True) + 1),
    "scatter-add": lambda x: x.at[ROWS].add(x[UPDATES]),
    "scatter-mul": lambda x: x.at[ROWS].multiply(x[UPDATES]),
    "softmax": lambda x: jax.nn.softmax(x, 1),
    "sum_pool": window(lax.add, 0),
}
"""Operations that sum or multiply elements.

They run on small numbers.
"""

INDEXED = {"dynamic_slice", "dynamic_update_slice", "gather", "gather of elements"}
"""Operations that take an index as the second operand."""

OF_FLOATS = {"approx_top_k", "cumlogsumexp", "log_softmax", "max_pool_scatter", "softmax"}
"""Operations that run on floats only.

For other dtypes ONNX has no operator and the conversion is refused, or JAX itself warns.
"""


def matrix(dtype: str, *, small: bool) -> np.ndarray:
    """Return a matrix of small numbers, [4, 6], or of the edges of the dtype, [4, 6 or more]."""
    if small:
        values = np.array([1, 2, 0, 1, 3, 1, 2, 1, 1, 0, 2, 1, 3, 1, 2, 1, 0, 2, 1, 1, 3, 2, 1, 1])
        return (values if dtype[0] in "ub" else values * 0.75 - 1).reshape(4, 6).astype(dtype)
    values = edges(dtype)
    return np.resize(values, (4, max(6, -(-len(values) // 4))))


def in_scan(fn: Callable[..., Any], *args: Any) -> Any:
    """Return the function's results of the last of two equal steps of a scan."""
    rounds = jax.tree.map(lambda a: jnp.stack([a, a]), args)
    _, results = lax.scan(lambda carry, row: (carry, fn(*row)), 0, rounds)
    return jax.tree.map(lambda y: y[-1], results)


def in_while(fn: Callable[..., Any], *args: Any) -> Any:
    """Return the function's results of the last of two equal turns of a while loop.

    The initial state is zeros, so the results are computed in the loop alone.
    """
    state = jax.tree.map(lambda y: jnp.zeros(y.shape, y.dtype), jax.eval_shape(fn, *args))
    return lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, fn(*args)), (0, state))[1]


def in_cond(fn: Callable[..., Any], *args: Any) -> Any:
    """Return the function's results from the branch of a conditional that runs.

    The condition depends on an input, and the other branch returns zeros.
    """
    first = args[0].ravel()[0]
    other = jax.tree.map(lambda y: jnp.zeros(y.shape, y.dtype), jax.eval_shape(fn, *args))
    return lax.cond(first == first, lambda: fn(*args), lambda: other)


BODIES = {"scan": in_scan, "while": in_while, "cond": in_cond}


# ------------------------------------------------------------------------------------------- rows

BY_DEFAULT = ("float32", "float64", "int32")
"""Dtypes whose elementwise operations the default tier runs. ONNX Runtime has few kernels of
float64, for which files have formulas."""
BODIES_BY_DEFAULT = {("int8", "scan"), ("float16", "while")}

WIDER = dict.fromkeys(HALVES, frozenset({FLOAT32}))


def call_supported(table: Table, *args: Any) -> dict[str, Any]:
    """Return the results of the functions of a table that JAX accepts for these operands."""
    return {name: fn(*args) for name, fn in supported_functions(table, *args).items()}


def by_limit(table: Table, dtype: str) -> Iterator[tuple[Tolerance, Table]]:
    """Yield the parts of a table whose functions have the same limit. Functions of integers and
    Booleans have one limit, because all but their results in floats are exact."""
    limits: dict[Tolerance, dict[str, Callable[..., Any]]] = {}
    for name, fn in table.items():
        limit, smallest = UNITS, 0.0
        if dtype in FLOATS:
            limit, smallest = max(TOLERATED.get(name, (0, ""))[0], UNITS), 1.0 * (name in OF_ONE)
        limits.setdefault(within_units(limit, smallest), {})[name] = fn
    yield from limits.items()


def elementwise_rows(name: str, table: Table, dtype: str, *operands: np.ndarray) -> Iterator[Case]:
    tags = (DEFAULT if dtype in BY_DEFAULT else frozenset()) | WIDER.get(dtype, frozenset())
    for units, part in by_limit(table, dtype):
        row_name = f"{name} of {dtype}, {units.units} units" + " of one" * (units.magnitude == 1)
        yield Case(row_name, partial(call_supported, part), operands, units=units, x64=True,
                   tags=tags)  # fmt: skip


def call_table(table: Table, x: Any, i: Any) -> dict[str, Any]:
    """Return the results of the functions of a table for an array, or for an array and an index."""
    plain, indexed = (
        {name: fn for name, fn in table.items() if (name in INDEXED) == is_indexed}
        for is_indexed in (False, True)
    )
    return call_supported(plain, x) | call_supported(indexed, x, i)


def of_dtype(table: Table, dtype: str) -> Table:
    """Return the functions of a table that files can compute on this dtype."""
    excluded = set() if np.dtype(dtype).kind == "f" else OF_FLOATS
    return {name: fn for name, fn in table.items() if name not in excluded}


def body_row(name: str, table: Table, tolerance: float, dtype: str, body: str) -> Case:
    fn = partial(call_table, of_dtype(table, dtype))
    operands = matrix(dtype, small=tolerance > 0), np.array(1, np.int32)
    tags = DEFAULT if (dtype, body) in BODIES_BY_DEFAULT else frozenset()
    return Case(f"{name} of {dtype} in {body}", partial(BODIES[body], fn), operands, (24,),
                tolerance=tolerance, strict=True, x64=True, tags=tags)  # fmt: skip


def pairs(dtype: str) -> list[np.ndarray]:
    """Return two arrays that have every pair of edges."""
    return [x.ravel() for x in np.meshgrid(edges(dtype), edges(dtype), indexing="ij")]


PROGRAMS = [
    *(row for d in ALL for row in elementwise_rows("unary functions", UNARY, d, edges(d))),
    *(row for d in ALL for row in elementwise_rows("binary functions", BINARY, d, *pairs(d))),
    *(body_row(*table, dtype, body) for dtype in ALL if dtype != "bfloat16" for body in BODIES
      for table in (("selections", CHOOSING, 0), ("sums", SUMMING, 1))),
]  # fmt: skip
