"""What stands between the softmax and the second product: nothing, or what hides weights again.

    where(shown, softmax(x), 0)        softmax(x) * shown

``shown`` is what ``x`` is filled by where it is not. So a row that is hidden throughout is zero.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from converter.fuse.attention.scores import FillMask, fills
from converter.fuse.match import Uses, only_reader, operand, operands, peel, through
from converter.ir import Value, ops
from converter.ir.axes import View, along


@dataclass(frozen=True)
class AttentionWeights:
    """A softmax along the axes of an operand of the second product.

    ``zeroed``, along the softmax's own axes, is where its results are replaced by zero, or
    multiplied (``times``) by zero, which leaves what is NaN.
    """

    softmax: View
    zeroed: FillMask | None = None
    times: bool = False


def weights(value: Value, uses: Uses) -> AttentionWeights | str | None:
    """Return the weights that an operand of a product is. Return the reason if there is a softmax
    and the operand is none, and None if there is no softmax."""
    view = _behind_moves(along(value))
    if view.op() is ops.softmax:
        return AttentionWeights(view) if only_reader(value, view.base, uses) else ELSEWHERE
    for index, zeroed in _zeroed(along(view.base)) if view.base.node is not None else ():
        softmax = operand(along(view.base), index, rounding=True)
        composed = view.of(softmax) if softmax.op() is ops.softmax else None
        if composed is not None:
            inner = view.node().inputs[index]
            alone = only_reader(value, view.base, uses) and only_reader(inner, softmax.base, uses)
            hiding = replace(zeroed, view=_along_axes_of(zeroed.view, softmax))
            return AttentionWeights(composed, hiding, view.op() is ops.mul) if alone else ELSEWHERE
    return None


ELSEWHERE = "the weights of the softmax are used elsewhere"


def _behind_moves(view: View) -> View:
    """Look through conversions and moves, also through those that split or merge axes."""
    while (inner := through(view, rounding=True)) is not None:
        view = inner
    return view


def _zeroed(view: View) -> Iterator[tuple[int, FillMask]]:
    """Yield the operands of which elements are set to zero, with the mask of these elements."""
    if view.op() is ops.select_n:
        yield from ((i, filled) for i, filled in fills(view) if filled.number == 0)
    for i, factor in enumerate(operands(view)) if view.op() is ops.mul else ():
        converted = factor.base.made_by(ops.convert_element_type)
        if converted is not None and (source := converted.inputs[0]).dtype == np.bool_:
            which = peel(factor._replace(base=source))
            yield 1 - i, FillMask(which, view.base.dtype, 0.0, False, source)


def _along_axes_of(view: View, other: View) -> View:
    """Return a view along the axes of the base of another view that has the same axes."""
    positions = {axis: i for i, axis in enumerate(other.axes) if axis is not None}
    return view.take(map(positions.get, range(other.base.rank)))
