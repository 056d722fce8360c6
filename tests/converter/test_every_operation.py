"""Every operation that has a rule, inside bodies of loops and branches, compared with JAX.

Each runs on every dtype that JAX accepts for it. ``test_edges`` has the elementwise operations
outside of bodies; here are operations that move, select or sum elements, loops, and composites of
the converter. bfloat16 is left out, because ONNX Runtime has hardly any kernels for it on a CPU.
"""

import itertools
from collections.abc import Callable
from functools import partial
from operator import call
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from tests.conformance import NEWEST
from tests.converter import test_edges
from tests.converter.test_edges import edges, supported_functions, units

DTYPES = tuple(dtype for dtype in test_edges.ALL if dtype != "bfloat16")
ROWS = np.array([2, 0, 2], np.int32)
UPDATES = slice(0, 3)
Table = dict[str, Callable[..., Any]]


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

They run on small numbers, and agree up to the rounding of sums.
"""

INDEXED = {"dynamic_slice", "dynamic_update_slice", "gather", "gather of elements"}
"""Operations that take an index as the second operand."""

OF_FLOATS = {"approx_top_k", "cumlogsumexp", "log_softmax", "max_pool_scatter", "softmax"}
"""Operations that run on floats only.

For other dtypes ONNX has no operator and the conversion is refused, or JAX itself warns.
"""

ROUNDING = {"float16": 16.0, "float32": 64.0, "float64": 64.0}
"""By dtype: the allowed difference, in units in the last place of the largest number.

In float16 JAX rounds every step.
"""


def matrix(dtype: str, *, small: bool) -> np.ndarray:
    """Return a matrix of small numbers, [4, 6], or of the edges of the dtype, [4, 6 or more]."""
    if small:
        values = np.array([1, 2, 0, 1, 3, 1, 2, 1, 1, 0, 2, 1, 3, 1, 2, 1, 0, 2, 1, 1, 3, 2, 1, 1])
        return (values if dtype[0] in "ub" else values * 0.75 - 1).reshape(4, 6).astype(dtype)
    values = edges(dtype)
    return np.resize(values, (4, max(6, -(-len(values) // 4))))


def convertible_functions(table: Table, x: np.ndarray, *indices: Any) -> Table:
    """Return the functions of a table that JAX accepts for these operands and files can compute."""
    excluded = set() if x.dtype.kind == "f" else OF_FLOATS
    return supported_functions(
        {name: fn for name, fn in table.items() if name not in excluded}, x, *indices
    )


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


def assert_table(table: Table, dtype: str, small: bool, wrap_in_body: Callable[..., Any]) -> None:
    """Assert that one strict file of the table's functions, in a body, agrees with JAX.

    ``small`` chooses small numbers as operands in place of the edges of the dtype.
    """
    with jax.enable_x64(True):
        x, i = matrix(dtype, small=small), np.int32(1)
        functions = {**convertible_functions(table, x), **convertible_functions(table, x, i)}

        def apply_all(x: Any, i: Any) -> list[Any]:
            return [f(x, i) if name in INDEXED else f(x) for name, f in functions.items()]

        fn = partial(wrap_in_body, apply_all)
        export = converter.to_onnx(fn, [x, i], opset=min(24, NEWEST), strict=True)
        expected = jax.jit(fn)(x, i)
        names = [
            name for name, y in zip(functions, expected, strict=True) for _ in jax.tree.leaves(y)
        ]
        actual_values = converter.run(export, [x, i]).values()
    wrong = []
    for name, a, b in zip(
        names, actual_values, map(np.asarray, jax.tree.leaves(expected)), strict=True
    ):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), name
        scale = float(np.abs(b).max()) if small and b.dtype.kind == "f" else 0.0
        limit = ROUNDING[b.dtype.name] if scale else 0
        if (units(a, b, scale) > limit).any():
            wrong.append(f"{name}: {a} is not {b}")
    assert not wrong, "\n".join(wrong)


TABLES = {"chooses": (CHOOSING, False), "sums": (SUMMING, True)}


def parametrize_bodies(*default_rows: tuple[str, str]) -> pytest.MarkDecorator:
    """Return a mark with every dtype in every body; only these rows are in the default tier."""
    rows = []
    for row in itertools.product(DTYPES, BODIES):
        marks = () if row in default_rows else pytest.mark.full
        rows.append(pytest.param(*row, marks=marks, id="-".join(row)))
    return pytest.mark.parametrize(("dtype", "body"), rows)


@pytest.mark.each("name", "dtype")
@parametrize_bodies(("int8", "scan"), ("float16", "while"))
@pytest.mark.parametrize("name", TABLES)
def test_operations_in_bodies_agree_with_jax(name, dtype, body):
    """Dtype fallbacks and other replacements of missing kernels happen in bodies too."""
    table, small = TABLES[name]
    assert_table(table, dtype, small, BODIES[body])


@parametrize_bodies(("uint16", "cond"))
def test_elementwise_operations_in_bodies_give_the_same_numbers(dtype, body):
    """Elementwise operations give the same numbers in a body as outside of one.

    `test_edges.py` compares the latter with JAX.
    """
    with jax.enable_x64(True):
        x = matrix(dtype, small=True)
        y = x[::-1, ::-1].copy()
        unary, binary = (
            supported_functions(test_edges.UNARY, x),
            supported_functions(test_edges.BINARY, x, y),
        )

        def fn(x: Any, y: Any) -> list[Any]:
            return [f(x) for f in unary.values()] + [f(x, y) for f in binary.values()]

        exports = [
            converter.to_onnx(partial(wrap_in_body, fn), [x, y])
            for wrap_in_body in (call, BODIES[body])
        ]
    expected, actual_values = (converter.run(export, [x, y]).values() for export in exports)
    for name, a, b in zip((*unary, *binary), actual_values, expected, strict=True):
        np.testing.assert_array_equal(a, b, name)
