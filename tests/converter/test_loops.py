"""Loop passes, which move work out of loop steps, compared with JAX.

A step keeps only the nodes that depend on the step before; the nodes that remain are counted.
"""

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
    """A function, its input shapes, and the number of nodes that remain in bodies of loops.

    The number is zero if no loop remains.
    """

    name: str
    fn: Callable[..., Any]
    remaining_nodes: int
    specs: Sequence[Any] = (X,)


def linear_state(x):
    def step(state, row):
        state = state * 0.5 + row
        return state, jax.nn.softmax(state @ MATRIX) * row.sum()

    return lax.scan(step, jnp.zeros(3), x)


def nonlinear_state(x):
    def step(state, row):
        state = jnp.tanh(state @ MATRIX + row)
        return state, jax.nn.softmax(state @ MATRIX) * row.sum()

    return lax.scan(step, jnp.zeros(3), x)


def counting_state(x):
    def step(state, row):
        n, total = state
        return (n + 2, total * 0.5 + row * n), n

    return lax.scan(step, (jnp.int32(3), jnp.zeros(3)), x, reverse=True)


def unread_state(x):
    def step(state, row):
        y, z, w = state
        return (y + row, z * y, w), None

    return lax.scan(step, (jnp.zeros(3), jnp.ones(3), x[0]), x)[0][::2]


def vmapped_while(x):
    return jax.vmap(
        lambda row: lax.while_loop(lambda s: s.max() < 9, lambda s: s * 1.5 + 1, jnp.abs(row))
    )(x)


def nested(x):
    def row_of(row):
        return lax.scan(lambda c, y: (c * 0.5 + y, c), 0.0, jnp.exp(row))[1]

    return lax.map(row_of, x)


def decaying_state(x, reverse=False):
    return lax.scan(lambda y, row: (y * 0.5 + row, y), x[0], x, reverse=reverse)


def whole_numbers(x):
    return lax.scan(lambda y, row: (y + row, y * 2), jnp.int32(3), jnp.int32(x[:, 0] * 9))


def backtrace(x):
    """Follow chosen indices backwards; they are known to be within bounds."""
    back = jnp.argmax(x[:, None] * MATRIX, -1)
    return lax.scan(lambda at, row: (row[at], at), jnp.argmax(x[0]), back, reverse=True)[1]


def search(x):
    """Advance an index that the loop's condition keeps below a size."""
    return lax.while_loop(lambda i: (i < 4) & (x[i, 0] < 0), lambda i: i + 1, 0)


def mapped(x):
    return lax.map(lambda row: jnp.tanh(row) @ MATRIX, x)


CASES = (
    LoopCase("map", mapped, 0),
    LoopCase("map of loops", nested, 2),
    LoopCase("after the loop", linear_state, 2),
    LoopCase("after a loop that is not linear", nonlinear_state, 3),
    LoopCase("a state that counts", counting_state, 2),
    LoopCase("a state that nobody reads", unread_state, 1),
    LoopCase("lanes", vmapped_while, 7),
    LoopCase("a state that is scaled", decaying_state, 2),
    LoopCase("from the last on", partial(decaying_state, reverse=True), 2),
    LoopCase("whole numbers that are added up, doubled after the loop", whole_numbers, 1),
    LoopCase("a path", backtrace, 2),
    LoopCase("a search", search, 6),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_steps_keep_only_what_depends_on_the_step_before(case, monkeypatch):
    for limit_name in ("MAX_UNROLLED_NODES", "MAX_NESTED_NODES"):
        monkeypatch.setattr(rules, limit_name, 0)
    inputs = [jnp.asarray(RNG.standard_normal(s), np.float32) for s in case.specs]
    expected = jax.tree.leaves(case.fn(*inputs))
    graph = trace(case.fn, [_struct(s) for s in case.specs])
    canonicalize(graph)
    for loop_pass in (batch_loops, shorten_loops, shorten_loops, shorten_loops):
        loop_pass(graph)
        canonicalize(graph)
    export = converter.to_onnx(case.fn, list(case.specs))
    verdict = converter.check(export.model, lambda *_: expected, inputs)
    assert verdict.passed, verdict.differences[0]
    loops = [n for n in graph.nodes if n.op is not ops.cond]
    bodies = [body for n in loops for inner in _with_inner(n) for body in inner.bodies.values()]
    assert sum(len(body.nodes) for body in bodies) == case.remaining_nodes, str(graph)


def _with_inner(node: Node) -> list[Node]:
    """Return a node and all nodes in its bodies."""
    return [node, *(inner for body in node.bodies.values() for inner in body.walk())]


@pytest.mark.parametrize(("additional_steps", "loops"), [(0, 0), (1, 1)])
def test_states_that_count_very_many_steps_stay(additional_steps, loops):
    """A counting state of very many steps is not replaced by a constant, which would be large.

    A loop that only maps needs no such constant, and is removed at any length.
    """

    def fn(x):
        return lax.scan(lambda n, row: (n + 2, row * n), jnp.int32(0), x)[1]

    length = rules.MAX_CONSTANT_STEPS + additional_steps
    assert converter.to_onnx(fn, [(length, 1)]).graph.count(ops.scan) == loops
    mapped = converter.to_onnx(lambda x: lax.map(jnp.sin, x), [(length, 1)])
    assert mapped.graph.count(ops.scan) == 0


def _struct(shape: tuple[int, ...]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, np.float32)


def test_batches_above_the_memory_limit_stay_in_the_loop():
    side = int((MAX_BATCH_BYTES / 4) ** 0.5) // 4
    wide = lambda x: lax.map(lambda row: (row[:, None] * row).sum(0), x)  # noqa: E731
    for length, count in ((8, 0), (32, 1)):
        export = converter.to_onnx(wide, [(length, side)])
        assert export.graph.count(ops.scan) == count
