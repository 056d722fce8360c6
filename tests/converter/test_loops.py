"""Loops do each step no more than what depends on the step before, and give the same."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from converter.canonicalize import canonicalize
from converter.frontend.trace import trace
from converter.ir import ops
from converter.ir.evaluation import evaluate
from converter.loops import batch_loops, shorten_loops, skip_lanes
from converter.loops.scan import MOST
from converter.verify.sessions import run

X = (5, 3)
RNG = np.random.default_rng(0)
MATRIX = jnp.asarray(RNG.standard_normal((3, 3)), jnp.float32)


@dataclass(frozen=True)
class LoopCase:
    """``left`` is how many nodes the bodies of loops have in the end; no loop has none."""

    name: str
    fn: Callable[..., Any]
    left: int
    specs: Sequence[Any] = (X,)


def entries(start: int, stop: int, index: Callable[[Any], Any] = lambda i: i) -> Callable[..., Any]:
    def fn(x):
        y = jnp.full_like(x, 7)
        return lax.fori_loop(start, stop, lambda i, y: y.at[index(i)].set(x[i] * 2), y)

    return fn


def columns(x):
    write = lax.dynamic_update_slice_in_dim
    return lax.fori_loop(
        0, 3, lambda i, y: write(y, jnp.sin(x[:, i])[:, None], i, axis=1), jnp.zeros_like(x)
    )


def read_and_written(x):
    return lax.fori_loop(1, 5, lambda i, y: y.at[i].set(y[i - 1] + x[i]), x)


def history(x):
    def step(seen, row):
        seen = seen * 0.5 + row
        return seen, jax.nn.softmax(seen @ MATRIX) * row.sum()

    return lax.scan(step, jnp.zeros(3), x)


def counted(x):
    def step(state, row):
        n, total = state
        return (n + 2, total * 0.5 + row * n), n

    return lax.scan(step, (jnp.int32(3), jnp.zeros(3)), x, reverse=True)


def unread(x):
    def step(state, row):
        y, z, w = state
        return (y + row, z * y, w), None

    return lax.scan(step, (jnp.zeros(3), jnp.ones(3), x[0]), x)[0][::2]


def while_invariant(x):
    def step(state):
        i, y, kept = state
        return i + 1, y * 0.5 + jnp.tanh(x).sum() + kept, kept

    return lax.while_loop(lambda s: s[0] < jnp.int32(x.max()) + 3, step, (0, x[0], x[1]))[1]


def lanes(x):
    return jax.vmap(
        lambda row: lax.while_loop(lambda s: s.max() < 9, lambda s: s * 1.5 + 1, jnp.abs(row))
    )(x)


def nested(x):
    def row_of(row):
        return lax.scan(lambda c, y: (c * 0.5 + y, c), 0.0, jnp.exp(row))[1]

    return lax.map(row_of, x)


def chosen(i):
    return jnp.array([0, 2, 2, 1, 4])[i]


def maps(x):
    return lax.map(lambda row: jnp.tanh(row) @ MATRIX, x)


CASES = (
    LoopCase("map", maps, 0),
    LoopCase("map of loops", nested, 2),
    LoopCase("entries", entries(0, 5), 0),
    LoopCase("some entries", entries(1, 4), 0),
    LoopCase("entries from the last on", entries(0, 5, lambda i: 4 - i), 0),
    LoopCase("columns", columns, 0),
    LoopCase("entries that others overwrite", entries(0, 5, chosen), 1),
    LoopCase("entries that are read", read_and_written, 4),
    LoopCase("after the loop", history, 2),
    LoopCase("a state that counts", counted, 2),
    LoopCase("a state that nobody reads", unread, 1),
    LoopCase("invariants", while_invariant, 5),
    LoopCase("lanes", lanes, 7),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_steps_do_what_depends_on_the_step_before(case):
    inputs = [jnp.asarray(RNG.standard_normal(s), np.float32) for s in case.specs]
    wanted = jax.tree.leaves(case.fn(*inputs))
    graph = trace(case.fn, [_struct(s) for s in case.specs])
    canonicalize(graph)
    for turn in (batch_loops, shorten_loops, shorten_loops, shorten_loops):
        turn(graph)
        canonicalize(graph)
        _assert_close(evaluate(graph, inputs), wanted)
    export = converter.to_onnx(case.fn, list(case.specs))
    verdict = converter.check(export.model, lambda *_: wanted, inputs)
    assert verdict.passed, verdict.differences[0]
    bodies = [body for n in graph.walk() for body in n.bodies.values()]
    assert sum(len(body.nodes) for body in bodies) == case.left, str(graph)


def grown(x):
    """Of zero it does not end."""
    once = lambda y: lax.while_loop(lambda s: abs(s) < 9, lambda s: s * 1.5, y)  # noqa: E731
    return jax.vmap(jax.vmap(once))(x)


def mixed(x):
    def step(state):
        y, live = state
        y = jnp.where(live, y + y.mean(), y)
        return y, y < 9

    return lax.while_loop(lambda state: state[1].any(), step, (x, x < 9))[0]


@pytest.mark.parametrize("case", [0, 2])
def test_lanes_that_nobody_reads_do_not_run(case):
    def fn(x):
        by_number = [jnp.full_like(x, 7), x, grown(x) * 2]
        return lax.select_n(jnp.where(x == 0, 0, case), *by_number) + jnp.where(x == 0, 1, grown(x))

    x = np.array([[0, 0.5, -1], [3, 0, 20]], np.float32)
    (got,) = run(converter.to_onnx(fn, [x]), [x]).values()
    wanted = np.where(x == 0, 8, fn(np.where(x == 0, 1, x)))
    _assert_close([got], [wanted])


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: (jnp.where(x > 0, y := grown(x), 1), y),
        lambda x: jnp.where(x > 0, (y := grown(x)) - y.sum(), 1),
        lambda x: jnp.where(grown(x) > 9.5, x, 1),
        lambda x: jnp.where((y := grown(x)) > 9.5, y, 1),
        lambda x: jnp.where(x > 0, mixed(x), 1),
    ],
    ids=["read", "summed", "chosen by", "of itself", "mixed"],
)
def test_lanes_that_somebody_reads_run(fn):
    graph = trace(fn, [_struct(X)])
    canonicalize(graph)
    assert not skip_lanes(graph)


def _struct(shape: tuple[int, ...]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, np.float32)


def _assert_close(got: Sequence[Any], wanted: Sequence[Any]) -> None:
    for ours, theirs in zip(got, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=2e-6)


def test_what_would_take_much_memory_stays_in_its_step():
    side = int((MOST / 4) ** 0.5) // 4
    wide = lambda x: lax.map(lambda row: (row[:, None] * row).sum(0), x)  # noqa: E731
    for length, count in ((8, 0), (32, 1)):
        export = converter.to_onnx(wide, [(length, side)])
        assert export.graph.count(ops.scan) == count


def test_a_length_with_a_name_is_left():
    export = converter.to_onnx(maps, [("n", 3)])
    x = RNG.standard_normal((4, 3)).astype(np.float32)
    assert export.graph.count(ops.scan) == 1
    assert converter.check(export.model, maps, [x]).passed
