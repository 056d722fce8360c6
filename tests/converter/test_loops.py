"""Loops do each step no more than what depends on the step before, and give the same."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from converter.canonicalize import canonicalize
from converter.frontend.trace import trace
from converter.ir import Node, ops
from converter.loops import batch_loops, rules, shorten_loops
from converter.loops.scan import MAX_BATCH_BYTES

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


def history(x):
    def step(seen, row):
        seen = seen * 0.5 + row
        return seen, jax.nn.softmax(seen @ MATRIX) * row.sum()

    return lax.scan(step, jnp.zeros(3), x)


def after(x):
    def step(seen, row):
        seen = jnp.tanh(seen @ MATRIX + row)
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


def lanes(x):
    return jax.vmap(
        lambda row: lax.while_loop(lambda s: s.max() < 9, lambda s: s * 1.5 + 1, jnp.abs(row))
    )(x)


def nested(x):
    def row_of(row):
        return lax.scan(lambda c, y: (c * 0.5 + y, c), 0.0, jnp.exp(row))[1]

    return lax.map(row_of, x)


def scaled(x, reverse=False):
    return lax.scan(lambda y, row: (y * 0.5 + row, y), x[0], x, reverse=reverse)


def whole_numbers(x):
    return lax.scan(lambda y, row: (y + row, y * 2), jnp.int32(3), jnp.int32(x[:, 0] * 9))


def path(x):
    """Backwards through what was chosen: indices that are known to be in range."""
    back = jnp.argmax(x[:, None] * MATRIX, -1)
    return lax.scan(lambda at, row: (row[at], at), jnp.argmax(x[0]), back, reverse=True)[1]


def found(x):
    """An index that a condition keeps below a size."""
    return lax.while_loop(lambda i: (i < 4) & (x[i, 0] < 0), lambda i: i + 1, 0)


def maps(x):
    return lax.map(lambda row: jnp.tanh(row) @ MATRIX, x)


CASES = (
    LoopCase("map", maps, 0),
    LoopCase("map of loops", nested, 2),
    LoopCase("after the loop", history, 2),
    LoopCase("after a loop that is not linear", after, 3),
    LoopCase("a state that counts", counted, 2),
    LoopCase("a state that nobody reads", unread, 1),
    LoopCase("lanes", lanes, 7),
    LoopCase("a state that is scaled", scaled, 2),
    LoopCase("from the last on", partial(scaled, reverse=True), 2),
    LoopCase("whole numbers that are added up, doubled after the loop", whole_numbers, 1),
    LoopCase("a path", path, 2),
    LoopCase("a search", found, 6),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_steps_do_what_depends_on_the_step_before(case, monkeypatch):
    for most in ("MAX_UNROLLED_NODES", "MAX_NESTED_NODES"):
        monkeypatch.setattr(rules, most, 0)
    inputs = [jnp.asarray(RNG.standard_normal(s), np.float32) for s in case.specs]
    wanted = jax.tree.leaves(case.fn(*inputs))
    graph = trace(case.fn, [_struct(s) for s in case.specs])
    canonicalize(graph)
    for turn in (batch_loops, shorten_loops, shorten_loops, shorten_loops):
        turn(graph)
        canonicalize(graph)
    export = converter.to_onnx(case.fn, list(case.specs))
    verdict = converter.check(export.model, lambda *_: wanted, inputs)
    assert verdict.passed, verdict.differences[0]
    loops = [n for n in graph.nodes if n.op is not ops.cond]
    bodies = [body for n in loops for inner in _with_inner(n) for body in inner.bodies.values()]
    assert sum(len(body.nodes) for body in bodies) == case.left, str(graph)


def _with_inner(node: Node) -> list[Node]:
    return [node, *(inner for body in node.bodies.values() for inner in body.walk())]


def newton(x, steps):
    return lax.fori_loop(0, steps, lambda _, y: 0.5 * (y + x / y), jnp.ones_like(x))


def test_short_loops_are_written_out_and_long_ones_are_not():
    for steps, loops in ((10, 0), (30, 1)):
        export = converter.to_onnx(partial(newton, steps=steps), [X])
        assert export.graph.count(ops.scan) == loops
    assert converter.check(export.model, partial(newton, steps=30), [np.ones(X, np.float32)]).passed


@pytest.mark.parametrize(("more", "loops"), [(0, 0), (1, 1)])
def test_what_counts_very_many_rounds_goes_on_counting(more, loops):
    """Its numbers would be in the file; what only maps has none, however long it is."""

    def fn(x):
        return lax.scan(lambda n, row: (n + 2, row * n), jnp.int32(0), x)[1]

    length = rules.MAX_CONSTANT_STEPS + more
    assert converter.to_onnx(fn, [(length, 1)]).graph.count(ops.scan) == loops
    mapped = converter.to_onnx(lambda x: lax.map(jnp.sin, x), [(length, 1)])
    assert mapped.graph.count(ops.scan) == 0


def _struct(shape: tuple[int, ...]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, np.float32)


def test_what_would_take_much_memory_stays_in_its_step():
    side = int((MAX_BATCH_BYTES / 4) ** 0.5) // 4
    wide = lambda x: lax.map(lambda row: (row[:, None] * row).sum(0), x)  # noqa: E731
    for length, count in ((8, 0), (32, 1)):
        export = converter.to_onnx(wide, [(length, side)])
        assert export.graph.count(ops.scan) == count


def test_a_length_with_a_name_is_left():
    export = converter.to_onnx(maps, [("n", 3)])
    x = RNG.standard_normal((4, 3)).astype(np.float32)
    assert export.graph.count(ops.scan) == 1
    assert converter.check(export.model, maps, [x]).passed
