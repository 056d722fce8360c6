"""The softmax of attention, and the operations between it and the second product.

    where(visible, softmax(x), 0)        softmax(x) * visible

Both set weights to zero where a mask has filled ``x``, so that rows without visible scores are
zero.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from converter.fuse.attention.scores import FillMask, match_fills
from converter.fuse.match import (
    MatchContext,
    is_only_read_through,
    operand,
    operands,
)
from converter.ir import Value, ops
from converter.ir.axes import View, view_of
from converter.ir.moves import look_through


@dataclass(frozen=True)
class AttentionWeights:
    """A softmax along the axes of an operand of the second product.

    - `softmax`: the view of the softmax.
    - `zeroing_mask`: the mask, along the axes of the softmax, of the weights that are set to zero,
      or None.
    - `is_multiplied_by_zero`: whether these weights are multiplied by zero, which leaves NaN.
    """

    softmax: View
    zeroing_mask: FillMask | None = None
    is_multiplied_by_zero: bool = False


def match_weights(value: Value, context: MatchContext) -> AttentionWeights | str | None:
    """Match an operand of a product as weights of attention.

    The weights are a softmax, and some of them may be set to zero.

    Return the weights. Return a text, the reason for a near miss, if other nodes read the softmax
    or a value between it and the product too. Return None if there is no softmax.
    """
    view = look_through(view_of(value), conversions="rounding", reach="factors")
    if view.op() is ops.softmax:
        return (
            AttentionWeights(view) if is_only_read_through(value, view.base, context) else ELSEWHERE
        )
    for index, zeroed in _match_zeroed(view_of(view.base)) if view.base.node is not None else ():
        softmax = operand(view_of(view.base), index, conversions="rounding")
        composed = view.compose(softmax) if softmax.op() is ops.softmax else None
        if composed is not None:
            inner = view.node().inputs[index]
            is_alone = is_only_read_through(value, view.base, context)
            is_alone = is_alone and is_only_read_through(inner, softmax.base, context)
            hiding = replace(zeroed, view=_along_axes_of(zeroed.view, softmax))
            return (
                AttentionWeights(composed, hiding, view.op() is ops.mul) if is_alone else ELSEWHERE
            )
    return None


ELSEWHERE = "the weights of the softmax are used elsewhere"


def _match_zeroed(view: View) -> Iterator[tuple[int, FillMask]]:
    """Yield the index of an operand of which a node sets elements to zero, and the mask of these
    elements.

    ``view`` is a view of the node's result. The node is a selection with zero, or a product with a
    converted boolean array. Nothing is yielded for other nodes.
    """
    if view.op() is ops.select_n:
        yield from ((i, filled) for i, filled in match_fills(view) if filled.number == 0)
    for i, factor in enumerate(operands(view)) if view.op() is ops.mul else ():
        converted = factor.base.producer_if(ops.convert_element_type)
        if converted is not None and (source := converted.inputs[0]).dtype == np.bool_:
            condition = look_through(factor._replace(base=source))
            yield 1 - i, FillMask(condition, view.base.dtype, 0.0, False, source)


def _along_axes_of(view: View, other: View) -> View:
    """Return ``view`` along the axes of the base of ``other``.

    Both views have the same logical axes. The result does not vary along axes of the base that
    ``other`` does not have.
    """
    positions = {axis: i for i, axis in enumerate(other.axes) if axis is not None}
    return view.select_axes(map(positions.get, range(other.base.rank)))
