"""LayerNorm without scale and bias [Ba et al., arXiv:1607.06450].

    (x - mean(x)) * rsqrt(var(x) + epsilon) = layer_norm(x, 1, epsilon=epsilon)

where ``var(x)`` is ``mean((x - mean(x))^2)`` or ``mean(x^2) - mean(x)^2``, the means are over the
same one or more axes, the product may have further factors, and may be written as the difference of
two products (``fuse/centred.py``); the axes may be groups of others (``fuse/repeated.py``).
"""

from __future__ import annotations

from functools import partial

from converter.fuse import norm
from converter.fuse.centred import Centred, centred
from converter.fuse.match import Uses, operand, operands, pair, peel, proved
from converter.fuse.norm import Norm
from converter.fuse.reductions import Reduced, mean_of
from converter.fuse.repeated import opened
from converter.ir import Node, ops
from converter.ir.axes import View
from converter.ir.scalars import scalar


def prove_layer_norm(node: Node, uses: Uses) -> Norm | None:
    for written in centred(node, uses):
        found, shape = opened(written, node.out.shape, uses) or (written, None)
        axes = _normalised_axes(found, uses)
        if axes is not None:
            rest, epsilon = found.deviation.rest, found.deviation.epsilon
            factors = tuple(rest.factors)
            return Norm(found.x, axes, epsilon, factors, rest.coefficient, found.terms, shape)
    return None


def _normalised_axes(found: Centred, uses: Uses) -> tuple[int, ...] | None:
    """The axes over which a difference is centred, and the deviation is its own."""
    x, average = found.x, mean_of(found.average, uses)
    axes = None if average is None else average.times(found.weight).axes_of(x)
    if axes is None or not x.complete():
        return None
    spread = _unclipped(found.deviation.spread)
    proper = _is_variance(spread, x, axes, uses) or _is_moments(spread, x, axes, uses)
    return axes if proper else None


def _unclipped(view: View) -> View:
    """A variance is often clipped at zero; it cannot be negative here."""
    view = peel(view, rounding=True)
    for number, other in pair(view) if view.op() is ops.max else ():
        if scalar(number.base) == 0:
            return other
    return view


def _is_variance(view: View, x: View, axes: tuple[int, ...], uses: Uses) -> bool:
    """``mean((x - mean(x))^2)``"""
    found = mean_of(view, uses)
    squares = None if found is None else found.squares()
    if found is None or squares is None or not found.divides(x, axes):
        return False
    return _centres(squares, x, axes, uses)


def _centres(squares: Reduced, x: View, axes: tuple[int, ...], uses: Uses) -> bool:
    """What is squared is the same difference, perhaps written once more, in another precision."""
    if squares.view.op() is not ops.sub or squares.operand(0).axes_of(x) != axes:
        return False
    average = squares.operand(1).view
    again = mean_of(average.take(range(len(x.axes))), uses)
    lost = average.axes[len(x.axes) :]
    return again is not None and again.axes_of(x) == axes and all(a is None for a in lost)


def _is_moments(view: View, x: View, axes: tuple[int, ...], uses: Uses) -> bool:
    """``mean(x^2) - mean(x)^2``"""
    if view.op() is not ops.sub:
        return False
    left, right = operands(view)
    found = mean_of(left, uses)
    squares = None if found is None else found.squares()
    if found is None or squares is None or right.op() is not ops.square:
        return False
    average = mean_of(operand(right, 0), uses)
    proper = found.divides(x, axes) and squares.axes_of(x) == axes
    return proper and average is not None and average.axes_of(x) == axes


CORE = proved(
    "LayerNormalization",
    (ops.mul, ops.div, ops.add, ops.sub),
    prove_layer_norm,
    partial(norm.build_norm, ops.layer_norm),
)
