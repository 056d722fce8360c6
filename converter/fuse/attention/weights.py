"""What stands between the softmax and the second product: nothing, or what hides weights again.

    where(shown, softmax(x), 0)        softmax(x) * shown

``shown`` is what ``x`` is filled by where it is not. So a row that is hidden throughout is zero.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from converter.fuse.attention.scores import FillMask, fills
from converter.fuse.match import Uses, only_reader, operand, operands, peel
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
    """Weights that an operand of a product is, or why it is none although there is a softmax."""
    view = peel(along(value), rounding=True)
    if view.op() is ops.softmax:
        return AttentionWeights(view) if only_reader(value, view.base, uses) else ELSEWHERE
    for index, zeroed in _zeroed(view):
        softmax = operand(view, index, rounding=True)
        if softmax.op() is ops.softmax:
            inner = view.node().inputs[index]
            alone = only_reader(value, view.base, uses) and only_reader(inner, softmax.base, uses)
            own = replace(zeroed, view=_along_own(zeroed.view, softmax))
            return AttentionWeights(softmax, own, view.op() is ops.mul) if alone else ELSEWHERE
    return None


ELSEWHERE = "the weights of the softmax are used elsewhere"


def _zeroed(view: View) -> Iterator[tuple[int, FillMask]]:
    """The operands of which some elements are set to zero, and which."""
    if view.op() is ops.select_n:
        yield from ((i, filled) for i, filled in fills(view) if filled.number == 0)
    for i, factor in enumerate(operands(view)) if view.op() is ops.mul else ():
        converted = factor.base.made_by(ops.convert_element_type)
        if converted is not None and (source := converted.inputs[0]).dtype == np.bool_:
            which = peel(factor._replace(base=source))
            yield 1 - i, FillMask(which, view.base.dtype, 0.0, False, source)


def _along_own(view: View, of: View) -> View:
    """A view along the axes of the base of another, which has the same axes."""
    places = {a: i for i, a in enumerate(of.axes) if a is not None}
    return view.take(map(places.get, range(of.base.rank)))
