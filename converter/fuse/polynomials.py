"""Sums of products, in whatever spelling: as polynomials of what they are made of."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeAlias

from converter.fuse.match import through
from converter.ir import ops
from converter.ir.axes import View
from converter.ir.moves import descended
from converter.ir.scalars import scalar

Atom: TypeAlias = tuple[str, Any]
"""What is no sum or product: what it is called, and which of these."""

Monomial: TypeAlias = frozenset[Atom]

Polynomial: TypeAlias = "dict[Monomial, float]"
"""Coefficients by their monomials, the atoms of which are factors once."""

Leaf: TypeAlias = Callable[[View], Polynomial]
"""What something is that is no sum or product."""

ONE: Monomial = frozenset()
"""The monomial of a number."""

MOST = 64
"""Monomials of a polynomial that is looked at."""

DEEPEST = 24
"""Operations above one another that are looked at."""


def as_polynomial(view: View, leaf: Leaf, leaves: Collection[View] = ()) -> Polynomial | None:
    """Sums, differences and products of numbers and of leaves, multiplied out; None where that is
    too much. ``leaves`` are some of these although they are sums or products."""
    return _Expansion(leaf, leaves).of(view, DEEPEST)


def total(one: Polynomial, other: Polynomial, sign: float = 1.0) -> Polynomial:
    """The sum, or the difference, of two."""
    summed = dict(one)
    for monomial, number in other.items():
        summed[monomial] = summed.get(monomial, 0.0) + sign * number
    return {monomial: number for monomial, number in summed.items() if number}


def multiplied_out(one: Polynomial, other: Polynomial) -> Polynomial | None:
    """The product of two, if nothing is squared in it."""
    product: Polynomial = {}
    for a, x in one.items():
        for b, y in other.items():
            if a & b:
                return None
            product[a | b] = product.get(a | b, 0.0) + x * y
    return {monomial: number for monomial, number in product.items() if number}


def settled_view(view: View) -> View:
    """The same elements where they were computed, behind moves and conversions to wider floats."""
    while True:
        view = descended(view)
        wider = through(view) if view.op() is ops.convert_element_type else None
        if wider is None:
            return view
        view = wider


class _Expansion:
    def __init__(self, leaf: Leaf, leaves: Collection[View]) -> None:
        self.leaf, self.leaves = leaf, leaves
        self.seen: dict[View, Polynomial | None] = {}

    def of(self, view: View, depth: int) -> Polynomial | None:
        view = settled_view(view)
        if view not in self.seen:
            # Something that is read many times is multiplied out once.
            self.seen[view] = self._of(view, depth) if depth else None
        return self.seen[view]

    def _of(self, view: View, depth: int) -> Polynomial | None:
        if view in self.leaves:
            return self.leaf(view)
        number, op = scalar(view.base), view.op()
        if number is not None:
            return {ONE: float(number)} if number else {}
        if op is ops.neg:
            inner = self.of(view.operand(0), depth - 1)
            return None if inner is None else total({}, inner, -1.0)
        if op not in (ops.add, ops.sub, ops.mul):
            return self.leaf(view)
        one, other = (self.of(view.operand(index), depth - 1) for index in (0, 1))
        if one is None or other is None:
            return None
        size = len(one) * len(other) if op is ops.mul else len(one) + len(other)
        if size > MOST:
            return None
        return (
            multiplied_out(one, other)
            if op is ops.mul
            else total(one, other, 1 if op is ops.add else -1)
        )
