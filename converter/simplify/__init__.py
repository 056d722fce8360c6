"""Local clean-up: forward what does nothing, evaluate what is known, merge equals, drop the dead.

It also settles on one spelling where JAX has several: ``reshape`` for every change of shape,
slices for ``split`` and for indexing by numbers, ``einsum`` (labelled axes, no transposes around
it) for ``dot_general``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from converter.graph import Graph, Node, Value, ops
from converter.graph.equals import merge_equals
from converter.graph.op import Op
from converter.graph.rewrite import Editor, Rule, drop_dead, sweep
from converter.simplify import arithmetic, empty, index, labels, parts, shapes
from converter.simplify.empty import fill_empty
from converter.simplify.known import fold

logger = logging.getLogger(__name__)

ROUNDS = 8  # each round only shrinks the graph; real networks settle in three

FORWARDS = tuple(op for op in ops.stated() if op.forwards)
FORMS = frozenset(
    {
        *(ops.squeeze, ops.expand_dims, ops.stack, ops.unstack, ops.dot_general, ops.scatter_sub),
        *FORWARDS,
    }
)
"""Operations that have another spelling, of which none is left."""


def simplify(graph: Graph) -> None:
    """Simplify in place."""
    fill_empty(graph)
    drop_dead(graph)
    for turn in range(ROUNDS):
        changed = sweep(graph, RULES).changed
        if turn and not changed:
            break  # what was folded and merged stays so until a rule changes something
        drop_dead(graph)
        folded, merged = fold(graph), merge_equals(graph)
        if not (changed or folded or merged):
            break
        drop_dead(graph)
    logger.info("simplified to %d nodes", len(graph.nodes))


def _forward(node: Node, _: Editor) -> Sequence[Value]:
    return node.inputs


RULES: dict[Op, Rule] = {
    **dict.fromkeys(FORWARDS, _forward),
    **shapes.RULES,
    **parts.RULES,
    **arithmetic.RULES,
    **labels.RULES,
    **index.RULES,
    **empty.RULES,
}
