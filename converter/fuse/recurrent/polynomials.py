"""Sums of products of gates and states, whatever the order in which they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from converter.fuse.recurrent.selection import selected_operands
from converter.ir import ops
from converter.ir.axes import View
from converter.ir.op import Op
from converter.ir.scalars import scalar

Monomial: TypeAlias = frozenset[View]
Polynomial: TypeAlias = dict[Monomial, float]
"""The coefficient of each product of different factors."""

LARGEST = 8
"""Terms; a cell has three."""
DEEPEST = 6
"""Operations in operations; a cell has three."""


def polynomial(found: View, depth: int = 0) -> Polynomial | None:
    """What a value is, multiplied out; ``None`` if that has squares or is long."""
    number, op = scalar(found.base), found.op()
    if number is not None:
        return {frozenset(): float(number)}
    if (op not in _COMBINED and op is not ops.neg) or depth == DEEPEST:
        return {frozenset({found}): 1.0}
    parts = [polynomial(part, depth + 1) for part in selected_operands(found)]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if op is ops.neg:
        return _scaled(known[0], -1.0)
    result = _COMBINED[op](*known)
    return result if result is not None and len(result) <= LARGEST else None


def _scaled(terms: Polynomial, factor: float) -> Polynomial:
    return {monomial: factor * number for monomial, number in terms.items()}


def _sum(one: Polynomial, other: Polynomial) -> Polynomial:
    total = dict(one)
    for monomial, number in other.items():
        total[monomial] = total.get(monomial, 0.0) + number
    return {monomial: number for monomial, number in total.items() if number != 0}


def _difference(one: Polynomial, other: Polynomial) -> Polynomial:
    return _sum(one, _scaled(other, -1.0))


def _polynomials_product(one: Polynomial, other: Polynomial) -> Polynomial | None:
    result: Polynomial = {}
    for left, number in one.items():
        for right, factor in other.items():
            if left & right:
                return None
            result = _sum(result, {left | right: number * factor})
    return result


_COMBINED: dict[Op, Callable[[Polynomial, Polynomial], Polynomial | None]] = {
    ops.add: _sum,
    ops.sub: _difference,
    ops.mul: _polynomials_product,
}
