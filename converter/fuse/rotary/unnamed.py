"""Structures that look like a rotation and are not recognised: halves of a value that are swapped.

Either the swapped halves are concatenated, multiplied, and added to a multiple of the value; or
both halves are multiplied crosswise, like real and imaginary parts.
"""

from collections.abc import Iterator

from converter.fuse.factors import read_factors
from converter.fuse.match import (
    UNKNOWN,
    MatchContext,
    iter_elementwise_ancestors,
    operand,
    operands,
)
from converter.fuse.rotary.halves import match_joined_halves, unite_halves
from converter.ir import Graph, Node, Value, ops
from converter.ir.axes import View, view_of
from converter.ir.moves import look_through

UNSIGNED_HALVES = "the halves change places without a sign, which the tables would have to have"
CROSSED = "its halves are not put together in a way that is known"


def find_rotary_look_alikes(graph: Graph, context: MatchContext) -> Iterator[tuple[Node, str]]:
    """Yield nodes that look like a part of a rotation but were not replaced, each with the
    reason."""
    nodes = [*graph.walk()]
    crossed = {key for node in nodes if node.op is ops.add for key in _factor_sets(node, context)}
    swapped: dict[int, bool] = {}
    for node in nodes:
        if node.op is ops.concatenate and (signed := _swap_negates_half(node)) is not None:
            swapped[id(node)] = signed
            if signed:
                yield node, UNKNOWN
        elif node.op in (ops.add, ops.sub):
            for inner in _find_unsigned_swaps(node, swapped):
                yield inner, UNSIGNED_HALVES
            if node.op is ops.sub and any(key in crossed for key in _crossings(node, context)):
                yield node, CROSSED


def _swap_negates_half(node: Node) -> bool | None:
    """Match a concatenation that swaps the halves of a value, and may negate them.

    Return True if one of the halves is negated. Return False if none or both are. Return None if
    the node swaps no halves.
    """
    join = match_joined_halves(view_of(node.out)) if len(node.inputs) == 2 else None
    if join is None:
        return None
    parts = [join.first, join.second]
    first, second = (operand(v, 0) if v.op() is ops.neg else v for v in parts)
    if unite_halves(second, first, join.axis, join.interleaved) is None:
        return None
    return len([v for v in parts if v.op() is ops.neg]) == 1


def _find_unsigned_swaps(node: Node, swapped: dict[int, bool]) -> Iterator[Node]:
    """Yield concatenations of swapped halves of a value that are added to a multiple of the same
    value.

    ``node`` is the sum or difference. ``swapped`` has the result of `_swap_negates_half` by the id
    of a concatenation. Only concatenations with False are yielded.
    """
    terms = [term for v in node.inputs if (term := v.producer_if(ops.mul)) is not None]
    for one, other in (terms, terms[::-1]) if len(terms) == 2 else ():
        factors = [_source(view.base) for view in operands(view_of(other.out))]
        for inner in iter_elementwise_ancestors(one):
            halves = () if swapped.get(id(inner), True) else inner.inputs
            if any(_source(half) in factors for half in halves):
                yield inner


def _source(value: Value) -> Value:
    """Return the earliest value from which all elements of a value are only moved."""
    return look_through(view_of(value), conversions="none", reach="elements").base


Key = frozenset[frozenset[View]]
"""The factors of both terms of a sum of two products, without an order."""


def _factor_sets(node: Node, context: MatchContext) -> Iterator[Key]:
    """Yield the factors of both terms of a sum or difference of products, as one unordered key.

    Nothing is yielded for other nodes.
    """
    factors = _factor_pairs(node, context)
    if factors is not None:
        yield frozenset(map(frozenset, factors))


def _crossings(node: Node, context: MatchContext) -> Iterator[Key]:
    """Yield the factors of ``b * c + a * s`` for a node ``a * c - b * s``.

    ``a`` and ``b`` must be parts of one value.
    """
    first, second = _factor_pairs(node, context) or ((), ())
    for a, c in (first, first[::-1]) if first else ():
        for b, s in (second, second[::-1]):
            if a.base is not b.base and _source(a.base) is _source(b.base):
                yield frozenset({frozenset({b, c}), frozenset({a, s})})


def _factor_pairs(
    node: Node, context: MatchContext
) -> tuple[tuple[View, ...], tuple[View, ...]] | None:
    """Return the two factors of both terms of a sum or difference, or None if they are no such
    products."""
    terms = operands(view_of(node.out))
    if any(term.op() is not ops.mul for term in terms):
        return None
    first, second = (read_factors(term, context).factors for term in terms)
    return (first, second) if len(first) == len(second) == 2 else None
