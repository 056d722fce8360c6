"""Parts of values along the logical axes of a cell, where they were computed; sums of products.

The gates of a recurrent cell are parts of one value, side by side, one behind the other or in rows
of their own. Logical axes are those of the cell's state, and behind them two more.
"""

from collections.abc import Callable
from typing import TypeAlias

from converter.ir import ops
from converter.ir.axes import Factor, View, is_forward
from converter.ir.moves import descended
from converter.ir.op import Op
from converter.ir.scalars import scalar

TIME, INNER = -1, -2
"""The axis of a loop's rounds, and that over which a product sums."""


def selected_operands(view: View) -> list[View]:
    """The operands of the elementwise node that makes the base, descended."""
    return [descended(view.operand(i)) for i in range(len(view.node().inputs))]


def turned_selection(view: View, feature: int) -> View:
    """The same with the axis of features for the inner one, and the other way round."""
    axes = list(range(len(view.groups)))
    axes[feature], axes[INNER] = axes[INNER], axes[feature]
    return view.take(axes)


def goes_back(view: View) -> bool:
    """Whether the loop's rounds are counted from the end."""
    return any(not is_forward(f.stride) for f in view.groups[TIME])


def forwards(view: View) -> View:
    """The same with the loop's rounds counted from their start."""
    starts, groups = list(view.starts), list(view.groups)
    for axis, stride, size in groups[TIME] if goes_back(view) else ():
        starts[axis or 0] += stride * (size - 1)
        groups[TIME] = (Factor(axis, -stride, size),)
    return View(view.base, tuple(groups), tuple(starts))


# --------------------------------------------------------------------------------- sums of products


Monomial: TypeAlias = frozenset[View]
Polynomial: TypeAlias = dict[Monomial, float]
"""The coefficient of each product of different factors."""

MOST_TERMS = 8
"""Terms; a cell has three."""
DEEPEST_POLYNOMIAL = 6
"""Operations in operations; a cell has three."""


def polynomial(view: View, depth: int = 0) -> Polynomial | None:
    """Multiply a value out; ``None`` if that has squares or is long."""
    number, op = scalar(view.base), view.op()
    if number is not None:
        return {frozenset(): float(number)}
    if op not in _COMBINED or depth == DEEPEST_POLYNOMIAL:
        return {frozenset({view}): 1.0}
    parts = [polynomial(part, depth + 1) for part in selected_operands(view)]
    terms = [part for part in parts if part is not None]
    if len(terms) < len(parts):
        return None
    result = _COMBINED[op](*terms)
    return result if result is not None and len(result) <= MOST_TERMS else None


def _sum(one: Polynomial, other: Polynomial, sign: float = 1.0) -> Polynomial:
    total = dict(one)
    for monomial, number in other.items():
        total[monomial] = total.get(monomial, 0.0) + sign * number
    return {monomial: number for monomial, number in total.items() if number != 0}


def _negative(terms: Polynomial) -> Polynomial:
    return _sum({}, terms, -1.0)


def _difference(one: Polynomial, other: Polynomial) -> Polynomial:
    return _sum(one, other, -1.0)


def _polynomials_product(one: Polynomial, other: Polynomial) -> Polynomial | None:
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
