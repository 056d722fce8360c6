"""Rewrite equivalent operations in one form.

Canonicalization also folds constants, merges common subexpressions and removes dead code.

In canonical form every change of shape is a ``reshape``, every split and constant index is a slice,
and every contraction is an ``einsum`` (labelled axes, without transposes around it).
"""

import logging
from collections.abc import Container
from typing import Any

from converter.canonicalize import identities, reshaping, slicing
from converter.canonicalize.emptiness import fill_empty
from converter.ir import Graph, Value, const, ops
from converter.ir.equality import merge_common_subexpressions
from converter.ir.evaluation import MAX_GROWTH_BYTES, compute_array, is_computable, size_in_bytes
from converter.ir.op import Op
from converter.ir.origins import source_behind
from converter.ir.rewrite import Rule, drop_dead, sweep

logger = logging.getLogger(__name__)

# The limit is rarely reached: real networks need three rounds. Each round makes the graph smaller.
MAX_ROUNDS = 8

FORWARDING_OPS = tuple(op for op in ops.defined_ops() if op.forwards)
_REWRITTEN_OPS = (ops.squeeze, ops.stack, ops.unstack, ops.dot_general, ops.scatter_sub)
ELIMINATED_OPS = frozenset({*_REWRITTEN_OPS, *FORWARDING_OPS})
"""Operations that canonicalization eliminates."""


def canonicalize(graph: Graph) -> None:
    """Bring a graph into canonical form, in place.

    First, values without elements are replaced by constants. Each round then applies the rules,
    folds constants, merges equal nodes and removes dead nodes. The rounds end when nothing changes,
    or after `MAX_ROUNDS` rounds.
    """
    fill_empty(graph)
    drop_dead(graph)
    for round_index in range(MAX_ROUNDS):
        changed = sweep(graph, RULES)
        if round_index and not changed:
            # No rule has changed the graph since the last round, so there is nothing more to
            # fold or merge.
            break
        drop_dead(graph)
        folded, merged = fold_constants(graph), merge_common_subexpressions(graph)
        if not (changed or folded or merged):
            break
        drop_dead(graph)
    logger.info("canonicalized to %d nodes", len(graph.nodes))


RULES: dict[Op, Rule] = {
    **dict.fromkeys(FORWARDING_OPS, lambda node, _: node.inputs),
    **reshaping.RULES,
    **slicing.RULES,
    **identities.RULES,
}


# ------------------------------------------------------------------------------ constant folding

# The number of bytes by which an intermediate value may be larger than all of its sources together.
# For example, the intermediate values of a mask of 1 MiB are larger than the mask.
EXTRA_BYTES = 16 * MAX_GROWTH_BYTES


def fold_constants(graph: Graph) -> bool:
    """Replace values that depend only on constants by their numbers, in place.

    A value is replaced if its numbers take at most `MAX_GROWTH_BYTES` bytes, and if it is an output
    or an operand of a node that also depends on other values. Broadcasts stay in the graph; the
    value that is broadcast is replaced. Nodes that nothing reads any more stay in the graph, too.
    Return True if any value was replaced.
    """
    constants = find_computable(graph, ("const",))
    needed: dict[int, Value] = {}
    for value in values_read_outside(graph, constants) if constants else ():
        # Broadcasts are not folded; they stay in the graph.
        source = source_behind(value, (ops.broadcast_in_dim,))
        if id(source) in constants and size_in_bytes(source) <= MAX_GROWTH_BYTES:
            needed[id(source)] = source
    if not needed:
        return False
    memo: dict[int, Any] = {}
    table = {i: const(compute_array(value, lambda v: v.const, memo)) for i, value in needed.items()}
    graph.replace_operands(lambda v: table.get(id(v), v))
    return True


def find_computable(graph: Graph, kinds: Container[str]) -> set[int]:
    """Return the ids of node results that depend only on values of these kinds and can be
    evaluated.

    Results of control flow and calls, and values with named sizes, are excluded. So are values that
    are larger than all their sources together plus `EXTRA_BYTES`, and values that depend on
    excluded ones. Nodes in bodies are included.

    Arguments:
        graph: the graph.
        kinds: kinds of values (``Value.kind``), such as "const" or "param".
    """
    computable_ids: set[int] = set()
    # The sizes in bytes of the sources of each value, by the value's id.
    leaves: dict[int, dict[int, float]] = {}
    for node in graph.walk():
        if not all(v.kind in kinds or id(v) in computable_ids for v in node.inputs):
            continue
        source_sizes: dict[int, float] = {}
        for value in node.inputs:
            source_sizes |= leaves.get(id(value)) or {id(value): size_in_bytes(value)}
        leaves.update((id(value), source_sizes) for value in node.outputs)
        limit = sum(source_sizes.values()) + EXTRA_BYTES
        if is_computable(node) and all(size_in_bytes(v) <= limit for v in node.outputs):
            computable_ids.update(map(id, node.outputs))
    return computable_ids


def values_read_outside(graph: Graph, inner: Container[int]) -> list[Value]:
    """Return the values that nodes outside of a set read, and the outputs of the graph and its
    bodies.

    A node is outside of the set if none of its results belongs to it. The values that it reads may
    belong to the set. A value that is read several times is returned several times.

    Arguments:
        graph: the graph.
        inner: ids of the values of the set.
    """
    read = all_outputs(graph)
    for node in graph.walk():
        if not any(id(v) in inner for v in node.outputs):
            read.extend(node.inputs)
    return read


def all_outputs(graph: Graph) -> list[Value]:
    """Return the outputs of a graph, and of the bodies of its nodes."""
    bodies = [b for n in graph.walk() for b in n.bodies.values()]
    return [v for g in (graph, *bodies) for v in g.outputs]
