"""Loop passes, which move work out of loop steps, compared with JAX.

A step keeps only the nodes that depend on the step before; the nodes that remain are counted.
"""

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
from tests.programs.control import LOOPS

RNG = np.random.default_rng(0)


REMAINING = {
    "map": 0,
    "map of loops": 2,
    "after the loop": 2,
    "after a loop that is not linear": 3,
    "a state that counts": 2,
    "a state that nobody reads": 1,
    "lanes": 7,
    "a state that is scaled": 2,
    "from the last on": 2,
    "integers that are added up": 1,
    "a path": 2,
    "a search": 6,
}
"""The number of nodes that remain in bodies of loops, by name; zero if no loop remains."""


@pytest.mark.parametrize("name", REMAINING)
def test_steps_keep_only_what_depends_on_the_step_before(name, monkeypatch):
    for limit_name in ("MAX_UNROLLED_NODES", "MAX_NESTED_NODES"):
        monkeypatch.setattr(rules, limit_name, 0)
    x, fn = RNG.standard_normal((5, 3), np.float32), LOOPS[name]
    graph = trace(fn, [jax.ShapeDtypeStruct(x.shape, x.dtype)])
    canonicalize(graph)
    for loop_pass in (batch_loops, shorten_loops, shorten_loops, shorten_loops):
        loop_pass(graph)
        canonicalize(graph)
    converter.to_onnx(fn, [x], verify=[x])
    loops = [n for n in graph.nodes if n.op is not ops.cond]
    bodies = [body for n in loops for inner in _with_inner(n) for body in inner.bodies.values()]
    assert sum(len(body.nodes) for body in bodies) == REMAINING[name], str(graph)


def _with_inner(node: Node) -> list[Node]:
    """Return a node and all nodes in its bodies."""
    return [node, *(inner for body in node.bodies.values() for inner in body.walk())]


@pytest.mark.parametrize(("length", "loops"), [(65_536, 0), (65_537, 1)])
def test_states_that_count_very_many_steps_stay(length, loops):
    """A counting state of very many steps is not replaced by a constant, which would be large.

    A loop that only maps needs no such constant, and is removed at any length.
    """

    def fn(x):
        return lax.scan(lambda n, row: (n + 2, row * n), jnp.int32(0), x)[1]

    assert converter.to_onnx(fn, [(length, 1)]).graph.count(ops.scan) == loops
    mapped = converter.to_onnx(lambda x: lax.map(jnp.sin, x), [(length, 1)])
    assert mapped.graph.count(ops.scan) == 0


def test_batches_above_the_memory_limit_stay_in_the_loop():
    side = int((MAX_BATCH_BYTES / 4) ** 0.5) // 4
    wide = lambda x: lax.map(lambda row: (row[:, None] * row).sum(0), x)  # noqa: E731
    for length, count in ((8, 0), (32, 1)):
        export = converter.to_onnx(wide, [(length, side)])
        assert export.graph.count(ops.scan) == count
