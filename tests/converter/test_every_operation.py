"""Every operation that has a rule, on every dtype that JAX takes for it, as JAX has it.

What works on each element alone is in ``test_edges``; here is the rest: what moves, chooses, sums,
loops, and what the converter writes itself. bfloat16 has hardly any kernels on a CPU.
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
from tests.converter.test_edges import edges, taken, units

DTYPES = tuple(dtype for dtype in test_edges.ALL if dtype != "bfloat16")
ROWS = np.array([2, 0, 2], np.int32)
UPDATES = slice(0, 3)
Table = dict[str, Callable[..., Any]]


def window(op: Any, start: Any, **how: Any) -> Callable[..., Any]:
    return lambda x: lax.reduce_window(x, x.dtype.type(start), op, (1, 3), (1, 2), "VALID", **how)


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
"""On the edges of the dtype, to the bit."""


def lowest(dtype: Any) -> Any:
    floating = jnp.issubdtype(dtype, jnp.floating)
    return dtype.type(-np.inf) if floating else jnp.iinfo(dtype).min


def twice(op: Callable[..., Any]) -> Callable[..., Any]:
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
    "reduce_prod": twice(lambda x, axis: jnp.prod(x, axis, dtype=x.dtype)),
    "reduce_sum": twice(lambda x, axis: jnp.sum(x, axis, dtype=x.dtype)),
    "resize": lambda x: jax.image.resize(x, (8, 12), "linear"),
    "rms_norm": lambda x: x * lax.rsqrt(jnp.mean(x * x, 1, keepdims=True) + 1),
    "scatter-add": lambda x: x.at[ROWS].add(x[UPDATES]),
    "scatter-mul": lambda x: x.at[ROWS].multiply(x[UPDATES]),
    "softmax": lambda x: jax.nn.softmax(x, 1),
    "sum_pool": window(lax.add, 0),
}
"""On small numbers, up to the rounding of sums."""

INDEXED = {"dynamic_slice", "dynamic_update_slice", "gather", "gather of elements"}
"""What takes an index too."""

OF_FLOATS = {"approx_top_k", "cumlogsumexp", "log_softmax", "max_pool_scatter", "softmax"}
"""What ONNX has for floats only, and is refused for others, or JAX itself warns of."""

ROUNDING = {"float16": 16.0, "float32": 64.0, "float64": 64.0}
"""Units in the last place of the largest number; of float16 JAX rounds every step."""


def matrix(dtype: str, *, small: bool) -> np.ndarray:
    """[4, 6] or more."""
    if small:
        numbers = np.array([1, 2, 0, 1, 3, 1, 2, 1, 1, 0, 2, 1, 3, 1, 2, 1, 0, 2, 1, 1, 3, 2, 1, 1])
        return (numbers if dtype[0] in "ub" else numbers * 0.75 - 1).reshape(4, 6).astype(dtype)
    numbers = edges(dtype)
    return np.resize(numbers, (4, max(6, -(-len(numbers) // 4))))


def known(table: Table, x: np.ndarray, *more: Any) -> Table:
    """The functions that JAX takes for the dtype, and that can be written for it."""
    left_out = set() if x.dtype.kind == "f" else OF_FLOATS
    return taken({name: fn for name, fn in table.items() if name not in left_out}, x, *more)


def scanned(fn: Callable[..., Any], *args: Any) -> Any:
    """Of two equal rounds the last."""
    rounds = jax.tree.map(lambda a: jnp.stack([a, a]), args)
    _, found = lax.scan(lambda carry, row: (carry, fn(*row)), 0, rounds)
    return jax.tree.map(lambda y: y[-1], found)


def looped(fn: Callable[..., Any], *args: Any) -> Any:
    """Two equal rounds; the state is made in the loop alone."""
    state = jax.tree.map(lambda y: jnp.zeros(y.shape, y.dtype), jax.eval_shape(fn, *args))
    return lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, fn(*args)), (0, state))[1]


def branched(fn: Callable[..., Any], *args: Any) -> Any:
    """In the branch that is taken, as an input shows; the other has zeros."""
    first = args[0].ravel()[0]
    other = jax.tree.map(lambda y: jnp.zeros(y.shape, y.dtype), jax.eval_shape(fn, *args))
    return lax.cond(first == first, lambda: fn(*args), lambda: other)


BODIES = {"scan": scanned, "while": looped, "cond": branched}


def assert_table(table: Table, dtype: str, small: bool, how: Callable[..., Any]) -> None:
    with jax.enable_x64(True):
        x, i = matrix(dtype, small=small), np.int32(1)
        functions = {**known(table, x), **known(table, x, i)}

        def each(x: Any, i: Any) -> list[Any]:
            return [f(x, i) if name in INDEXED else f(x) for name, f in functions.items()]

        fn = partial(how, each)
        export = converter.to_onnx(fn, [x, i], opset=min(24, NEWEST), strict=True)
        wanted = jax.jit(fn)(x, i)
        names = [
            name for name, y in zip(functions, wanted, strict=True) for _ in jax.tree.leaves(y)
        ]
        got = converter.run(export, [x, i]).values()
    wrong = []
    for name, a, b in zip(names, got, map(np.asarray, jax.tree.leaves(wanted)), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), name
        size = float(np.abs(b).max()) if small and b.dtype.kind == "f" else 0.0
        limit = ROUNDING[b.dtype.name] if size else 0
        if (units(a, b, size) > limit).any():
            wrong.append(f"{name}: {a} is not {b}")
    assert not wrong, "\n".join(wrong)


TABLES = {"chooses": (CHOOSING, False), "sums": (SUMMING, True)}


def in_bodies(*usual: tuple[str, str]) -> pytest.MarkDecorator:
    """Every dtype in every body; the usual ones are default tests."""
    rows = []
    for row in itertools.product(DTYPES, BODIES):
        marks = () if row in usual else pytest.mark.full
        rows.append(pytest.param(*row, marks=marks, id="-".join(row)))
    return pytest.mark.parametrize(("dtype", "body"), rows)


@pytest.mark.each("name", "dtype")
@in_bodies(("int8", "scan"), ("float16", "while"))
@pytest.mark.parametrize("name", TABLES)
def test_bodies(name, dtype, body):
    """What a runtime lacks a kernel for takes its detour in there too."""
    table, small = TABLES[name]
    assert_table(table, dtype, small, BODIES[body])


@in_bodies(("uint16", "cond"))
def test_elements_in_bodies(dtype, body):
    """The numbers that the operations give elsewhere, which `test_edges.py` compares with JAX's."""
    with jax.enable_x64(True):
        x = matrix(dtype, small=True)
        y = x[::-1, ::-1].copy()
        alone, pairs = taken(test_edges.UNARY, x), taken(test_edges.BINARY, x, y)

        def fn(x: Any, y: Any) -> list[Any]:
            return [f(x) for f in alone.values()] + [f(x, y) for f in pairs.values()]

        exports = [converter.to_onnx(partial(how, fn), [x, y]) for how in (call, BODIES[body])]
    wanted, got = (converter.run(export, [x, y]).values() for export in exports)
    for name, a, b in zip((*alone, *pairs), got, wanted, strict=True):
        np.testing.assert_array_equal(a, b, name)
