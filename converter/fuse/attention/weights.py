"""The softmax of attention, and the operations between it and the second product.

    where(visible, softmax(x), 0)        softmax(x) * visible

Both set weights to zero where a mask has filled ``x``, so that rows without visible scores are
zero.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from converter.fuse.attention.scores import FillMask, match_fills
from converter.fuse.match import Uses, only_reader, operand, operands, peel, through
from converter.ir import Value, ops
from converter.ir.axes import View, along


@dataclass(frozen=True)
class AttentionWeights:
    """A softmax along the axes of an operand of the second product.

    - `softmax`: the view of the softmax.
    - `zeroed`: the mask, along the axes of the softmax, of the weights that are set to zero, or
      None.
    - `times`: whether these weights are multiplied by zero, which leaves NaN.
    """

    softmax: View
    zeroed: FillMask | None = None
    times: bool = False


def match_weights(value: Value, uses: Uses) -> AttentionWeights | str | None:
    """Match an operand of a product as weights of attention: a softmax, perhaps with weights set to
    zero.

    Return the weights. Return a text, the reason for a near miss, if there is a softmax that other
    nodes read too. Return None if there is no softmax.
    """
    view = _behind_moves(along(value))
    if view.op() is ops.softmax:
        return AttentionWeights(view) if only_reader(value, view.base, uses) else ELSEWHERE
    for index, zeroed in _match_zeroed(along(view.base)) if view.base.node is not None else ():
        softmax = operand(along(view.base), index, rounding=True)
        composed = view.of(softmax) if softmax.op() is ops.softmax else None
        if composed is not None:
            inner = view.node().inputs[index]
            is_alone = only_reader(value, view.base, uses)
            is_alone = is_alone and only_reader(inner, softmax.base, uses)
            hiding = replace(zeroed, view=_along_axes_of(zeroed.view, softmax))
            return (
                AttentionWeights(composed, hiding, view.op() is ops.mul) if is_alone else ELSEWHERE
            )
    return None


ELSEWHERE = "the weights of the softmax are used elsewhere"


def _behind_moves(view: View) -> View:
    """Return the same elements as a view of an earlier value, before conversions of floats and
    moves.

    Reshapes that split or merge axes are removed too.
    """
    while (inner := through(view, rounding=True)) is not None:
        view = inner
    return view


def _match_zeroed(view: View) -> Iterator[tuple[int, FillMask]]:
    """Yield the operands of which a node sets elements to zero, as pairs of index and mask.

    The node is a selection with zero, or a product with a converted boolean array.
    """
    if view.op() is ops.select_n:
        yield from ((i, filled) for i, filled in match_fills(view) if filled.number == 0)
    for i, factor in enumerate(operands(view)) if view.op() is ops.mul else ():
        converted = factor.base.made_by(ops.convert_element_type)
        if converted is not None and (source := converted.inputs[0]).dtype == np.bool_:
            condition = peel(factor._replace(base=source))
            yield 1 - i, FillMask(condition, view.base.dtype, 0.0, False, source)


def _along_axes_of(view: View, other: View) -> View:
    """Return a view along the axes of the base of ``other``, which has the same logical axes."""
    positions = {axis: i for i, axis in enumerate(other.axes) if axis is not None}
    return view.take(map(positions.get, range(other.base.rank)))
