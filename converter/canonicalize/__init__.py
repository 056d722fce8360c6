"""One spelling where JAX has several; constant folding, common subexpressions, dead code.

The one spelling is ``reshape`` for every change of shape, slices for ``split`` and for indexing by
numbers, ``einsum`` (labelled axes, no transposes around it) for ``dot_general``.
"""

from __future__ import annotations

import logging

from converter.canonicalize import identities, reshaping, slicing
from converter.canonicalize.constant_folding import fold_constants
from converter.canonicalize.identities import fill_empty
from converter.ir import Graph, ops
from converter.ir.equality import merge_equals
from converter.ir.op import Op
from converter.ir.rewrite import Rule, drop_dead, sweep

logger = logging.getLogger(__name__)

ROUNDS = 8  # each round only shrinks the graph; real networks settle in three

FORWARDS = tuple(op for op in ops.stated() if op.forwards)
_RENAMED = (ops.squeeze, ops.expand_dims, ops.stack, ops.unstack, ops.dot_general, ops.scatter_sub)
FORMS = frozenset({*_RENAMED, *FORWARDS})
"""Operations that have another spelling, of which none is left."""


def canonicalize(graph: Graph) -> None:
    fill_empty(graph)
    drop_dead(graph)
    for turn in range(ROUNDS):
        changed = sweep(graph, RULES)
        if turn and not changed:
            break  # what was folded and merged stays so until a rule changes something
        drop_dead(graph)
        folded, merged = fold_constants(graph), merge_equals(graph)
        if not (changed or folded or merged):
            break
        drop_dead(graph)
    logger.info("canonicalized to %d nodes", len(graph.nodes))


RULES: dict[Op, Rule] = {
    **dict.fromkeys(FORWARDS, lambda node, _: node.inputs),
    **reshaping.RULES,
    **slicing.RULES,
    **identities.RULES,
}
