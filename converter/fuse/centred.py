"""Where something is centred and divided by a deviation, which is written in two ways.

    (x - mean) * s        and        x * s - mean * s + bias

``s`` is the inverse of a deviation, perhaps times a scale. Keras writes all of its
norms the second way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations

from converter.fuse.match import Uses, operands
from converter.fuse.norm import NormDeviation, NormTerm, divided_by_deviation, norm_deviations
from converter.fuse.product_terms import Product, product
from converter.ir import Node, ops
from converter.ir.axes import View, along


@dataclass(frozen=True)
class Centred:
    """``x - weight * average`` over the deviation, times its rest, and then the ``terms``."""

    x: View
    average: View
    weight: float
    deviation: NormDeviation
    terms: tuple[NormTerm, ...] = ()


def centred(node: Node, uses: Uses) -> Iterator[Centred]:
    """Every way to see a node as a centred value that is divided by a deviation."""
    return (_sum if node.op in _FLIPPED else _centred_product)(node, uses)


def _centred_product(node: Node, uses: Uses) -> Iterator[Centred]:
    """``(x - mean) * s``"""
    for deviation in norm_deviations(node, uses):
        for factor in deviation.rest.factors:
            if factor.op() is ops.sub:
                rest = Product(deviation.rest.coefficient, deviation.rest.without(factor))
                x, average = operands(factor)
                yield Centred(x, average, 1.0, replace(deviation, rest=rest))


def _sum(node: Node, uses: Uses) -> Iterator[Centred]:
    """``x * s - mean * s + bias``"""
    if not any(v.node is not None and v.node.op in _PRODUCTS for v in node.inputs):
        return  # most sums are of a bias
    terms = _terms(node, uses)
    scaled = [term for term in terms if term[1].op() in _PRODUCTS]
    if len(scaled) < 2:
        return
    for one, other in permutations(scaled, 2):
        rest = tuple(term for term in terms if term is not one and term is not other)
        yield from _difference(one, other, rest, node, uses)


_PRODUCTS = (ops.mul, ops.div, ops.neg)
_FLIPPED = {ops.add: ops.sub, ops.sub: ops.add}


def _terms(node: Node, uses: Uses) -> list[NormTerm]:
    """What is added and subtracted: the operands, and those of operands that are sums."""
    found: list[NormTerm] = []
    left, right = operands(along(node.out))
    for sign, view in ((ops.add, left), (node.op, right)):
        op = view.op()
        if op in _FLIPPED and uses.single_use(view.base):
            first, second = operands(view)
            inner = op if sign is ops.add else _FLIPPED[op]
            found += [(sign, first), (inner, second)]
        else:
            found.append((sign, view))
    return found


def _difference(
    one: NormTerm, other: NormTerm, terms: tuple[NormTerm, ...], node: Node, uses: Uses
) -> Iterator[Centred]:
    """``x * s - mean * s``, if the two have all but one factor each in common."""
    first, second = (_signed(term, uses) for term in (one, other))
    mine, others, shared = [], list(second.factors), list[View]()
    for factor in first.factors:  # each as often as both have it
        if factor in others:
            others.remove(factor)
            shared.append(factor)
        else:
            mine.append(factor)
    alike = first.divisors == second.divisors and first.coefficient != 0
    if not alike or len(mine) != 1 or len(others) != 1:
        return
    whole = Product(first.coefficient, [], list(first.divisors))
    for factor in shared:
        _multiply(whole, product(factor, uses))
    weight = -second.coefficient / first.coefficient
    for deviation in divided_by_deviation(whole, node.out.dtype):
        yield Centred(mine[0], others[0], weight, deviation, terms)


def _signed(term: NormTerm, uses: Uses) -> Product:
    sign, view = term
    parts = product(view, uses)
    parts.coefficient *= -1 if sign is ops.sub else 1
    return parts


def _multiply(parts: Product, more: Product) -> None:
    parts.coefficient *= more.coefficient
    parts.factors += more.factors
    parts.divisors += more.divisors
