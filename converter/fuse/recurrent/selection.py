"""Parts of values along the logical axes of a recurrent cell, and sums of products of them.

The gates of a recurrent cell are often parts of one value. They are next to each other along one
axis, or the value has a separate axis for them. The logical axes are the axes of the cell's state,
followed by two additional axes: ``INNER`` and ``TIME``.
"""

from collections.abc import Callable
from typing import TypeAlias

from converter.fuse.match import operands
from converter.ir import ops
from converter.ir.axes import Factor, View, is_forward
from converter.ir.op import Op
from converter.ir.scalars import scalar

TIME, INNER = -1, -2
"""The logical axes of a loop's rounds, and of the elements that a product sums over."""


def exchange_feature_axis(view: View, feature: int) -> View:
    """Return the view with the axis ``feature`` and the axis that products sum over (``INNER``)
    exchanged."""
    axes = list(range(len(view.groups)))
    axes[feature], axes[INNER] = axes[INNER], axes[feature]
    return view.select_axes(axes)


def runs_backwards(view: View) -> bool:
    """Return True if the view runs through the rounds of the loop from the last to the first."""
    return any(not is_forward(f.stride) for f in view.groups[TIME])


def to_forward_order(view: View) -> View:
    """Return a view of the same elements that runs through the rounds of the loop from the first to
    the last. A view that goes back is reversed along ``TIME``; another one is returned unchanged.
    No node is emitted."""
    starts, groups = list(view.starts), list(view.groups)
    for axis, stride, size in groups[TIME] if runs_backwards(view) else ():
        starts[axis or 0] += stride * (size - 1)
        groups[TIME] = (Factor(axis, -stride, size),)
    return View(view.base, tuple(groups), tuple(starts))


# --------------------------------------------------------------------------------- sums of products


Monomial: TypeAlias = frozenset[View]
Polynomial: TypeAlias = dict[Monomial, float]
"""The coefficient of each product of different factors."""

MOST_TERMS = 8
"""Largest number of products in a polynomial; the new state of a cell has three."""
DEEPEST_POLYNOMIAL = 6
"""Largest depth of operations in a polynomial; the new state of a cell has three."""


def polynomial(view: View, depth: int = 0) -> Polynomial | None:
    """Return a value as a sum of products of views by expanding its sums, differences, products and
    negations.

    Return None if a product has the same factor twice, or if there are more than `MOST_TERMS`
    products. Operations at a depth of `DEEPEST_POLYNOMIAL` or more are not expanded. ``depth`` is
    the number of operations between the expanded value and this view.
    """
    number, op = scalar(view.base), view.op()
    if number is not None:
        return {frozenset(): float(number)}
    if op not in _COMBINED or depth == DEEPEST_POLYNOMIAL:
        return {frozenset({view}): 1.0}
    parts = [
        polynomial(part, depth + 1) for part in operands(view, conversions="none", reach="parts")
    ]
    terms = [part for part in parts if part is not None]
    if len(terms) < len(parts):
        return None
    result = _COMBINED[op](*terms)
    return result if result is not None and len(result) <= MOST_TERMS else None


def _sum(one: Polynomial, other: Polynomial, sign: float = 1.0) -> Polynomial:
    """Return ``one + sign * other``, without terms that cancel."""
    total = dict(one)
    for monomial, number in other.items():
        total[monomial] = total.get(monomial, 0.0) + sign * number
    return {monomial: number for monomial, number in total.items() if number != 0}


def _negative(terms: Polynomial) -> Polynomial:
    """Return the negative of a polynomial."""
    return _sum({}, terms, -1.0)


def _difference(one: Polynomial, other: Polynomial) -> Polynomial:
    """Return ``one - other``."""
    return _sum(one, other, -1.0)


def _polynomials_product(one: Polynomial, other: Polynomial) -> Polynomial | None:
    """Return the product of two polynomials, or None if a product has the same factor twice."""
    result: Polynomial = {}
    for left, number in one.items():
        for right, factor in other.items():
            if left & right:
                return None
            result = _sum(result, {left | right: number * factor})
    return result


_COMBINED: dict[Op, Callable[..., Polynomial | None]] = {
    ops.neg: _negative,
    ops.add: _sum,
    ops.sub: _difference,
    ops.mul: _polynomials_product,
}
