"""LayerNorm without scale and bias [Ba et al., arXiv:1607.06450].

    (x - mean(x)) * rsqrt(var(x) + epsilon) = layer_norm(x, 1, epsilon=epsilon)

where ``var(x)`` is ``mean((x - mean(x))^2)`` or ``mean(x^2) - mean(x)^2``, the means are over the
same one or more axes, and the product may have further factors.
"""

from __future__ import annotations

from functools import partial

from converter.fuse import norm
from converter.fuse.match import Uses, View, operand, operands, pair, peel, proved
from converter.fuse.norm import Deviation, Norm, deviations
from converter.fuse.reductions import Reduced, mean
from converter.graph import Node
from converter.graph.constants import scalar


def prove(node: Node, uses: Uses) -> Norm | None:
    for deviation in deviations(node, uses):
        for centred in deviation.rest.factors:
            axes = _normalised_axes(centred, deviation, uses) if centred.op() == "sub" else None
            if axes is not None:
                rest = deviation.rest.without(centred)
                number = deviation.rest.coefficient
                return Norm(operand(centred, 0), axes, deviation.epsilon, tuple(rest), number)
    return None


def _normalised_axes(centred: View, deviation: Deviation, uses: Uses) -> tuple[int, ...] | None:
    """The axes over which a difference is centred, and the deviation is its own."""
    x, average = operands(centred)
    taken = mean(average, uses)
    axes = None if taken is None else taken.axes_of(x)
    if axes is None or not x.complete():
        return None
    spread = _unclipped(deviation.spread)
    proper = _is_variance(spread, centred, axes, uses) or _is_moments(spread, centred, axes, uses)
    return axes if proper else None


def _unclipped(view: View) -> View:
    """A variance is often clipped at zero; it cannot be negative here."""
    view = peel(view, rounding=True)
    for number, other in pair(view) if view.op() == "max" else ():
        if scalar(number.base) == 0:
            return other
    return view


def _is_variance(view: View, centred: View, axes: tuple[int, ...], uses: Uses) -> bool:
    """``mean((x - mean(x))^2)``"""
    x, found = operand(centred, 0), mean(view, uses)
    squares = None if found is None else found.squares()
    if found is None or squares is None or not found.divides(x, axes):
        return False
    return squares.axes_of(centred) == axes or _centres(squares, x, axes, uses)


def _centres(squares: Reduced, x: View, axes: tuple[int, ...], uses: Uses) -> bool:
    """The same difference written a second time, perhaps in another precision."""
    if squares.view.op() != "sub" or squares.operand(0).axes_of(x) != axes:
        return False
    average = squares.operand(1).view
    again = mean(View(average.base, average.axes[: len(x.axes)]), uses)
    lost = average.axes[len(x.axes) :]
    return again is not None and again.axes_of(x) == axes and all(a is None for a in lost)


def _is_moments(view: View, centred: View, axes: tuple[int, ...], uses: Uses) -> bool:
    """``mean(x^2) - mean(x)^2``"""
    if view.op() != "sub":
        return False
    (x, average), (left, right) = operands(centred), operands(view)
    found = mean(left, uses)
    squares = None if found is None else found.squares()
    if found is None or squares is None or right.op() != "square":
        return False
    proper = found.divides(x, axes) and squares.axes_of(x) == axes
    return proper and operand(right, 0) == average


CORE = proved("LayerNormalization", ("mul", "div"), prove, partial(norm.build, "layer_norm"))
