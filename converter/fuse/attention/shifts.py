"""Remove shifts that do not change the result of a softmax.

    softmax(f(x - max(x))) = softmax(f(x))

where the maximum is constant along the axis of the softmax, and ``f`` multiplies by numbers, adds
terms and fills hidden elements with low numbers. A shift by the maximum of all visible elements of
one row changes only the rounding. An infinity or NaN in a maximum of several rows affects all of
these rows, and in a maximum of hidden elements it affects the visible ones. A strict conversion
therefore keeps such a shift. Otherwise the shift is removed and the report lists it.

Sources: TARFlow [Zhai et al., arXiv:2412.06329] subtracts the maximum of all scores of a head.
CogView [Ding et al., arXiv:2105.13290] subtracts the maximum of a row before the multiplication.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import jax.numpy as jnp
import numpy as np

from converter.fuse.attention.masks import VANISHING
from converter.fuse.attention.scores import match_fills
from converter.fuse.magnitudes import is_moderate
from converter.fuse.match import (
    MatchContext,
    Recogniser,
    operand,
    operands,
    recogniser_from,
)
from converter.fuse.reductions import reduction_axes
from converter.ir import Node, Value, dims, ops
from converter.ir.axes import View, view_of
from converter.ir.moves import UNCUT_MOVES, look_through_one
from converter.ir.rewrite import Editor
from converter.ir.scalars import scalar

Step = tuple[Node, int]
"""A node between a softmax and a shift, and the index of the operand that contains the shift."""


@dataclass(frozen=True)
class ShiftedLogits:
    """The operand of a softmax that contains a shift, which is the subtraction of a maximum.

    - `difference`: the node ``x - max(x)``.
    - `steps`: the nodes between the softmax and the difference, that next to the softmax first.
    - `is_exact`: whether the maximum is computed over a single row, along the axis of the softmax,
      and over no elements that a fill hides. An infinity or NaN in the maximum then makes this row
      NaN also without the shift.
    """

    difference: Node
    steps: tuple[Step, ...]
    is_exact: bool


DEVIATION = (
    "an infinite or NaN maximum of several rows or of hidden elements, which is subtracted before "
    "a softmax, does not count in the other rows and the visible elements"
)
STRICT = (
    "the conversion is strict, and an infinite or NaN maximum of several rows or of hidden "
    "elements makes other elements NaN in JAX"
)
NARROW = "in float16, scores may overflow before the maximum is subtracted, or afterwards"


def match_shift(
    node: Node, context: MatchContext, strict: bool = False
) -> ShiftedLogits | str | None:
    """Match a softmax with a shift in its operand that does not change the result.

    Return the shift, the reason for a near miss as a text, or None if there is no shift. With
    ``strict``, a shift by a maximum of several rows or of hidden elements is a near miss. In
    float16, a shift is a near miss unless it is exact and only moves and conversions follow it.
    """
    logits = next(_shifts(view_of(node.inputs[0]), node.params["axis"], (), context), None)
    if logits is None:
        return None
    is_narrow = float(jnp.finfo(node.out.dtype).max) < 1e38
    if is_narrow and not (logits.is_exact and all(n.op in UNCUT_MOVES for n, _ in logits.steps)):
        return NARROW
    return STRICT if strict and not logits.is_exact else logits


def _shifts(
    view: View, axis: int, steps: tuple[Step, ...], context: MatchContext
) -> Iterator[ShiftedLogits]:
    """Yield the shifts from which a view of logits is computed, the nearest first.

    ``axis`` is the axis of the softmax in the view. ``steps`` are the nodes from the softmax to the
    view. No other node may read the values in between.
    """
    node = view.base.node
    if node is None or view.axes[axis] is None or len(steps) > MOST_STEPS:
        return
    if node.op is ops.sub and (maximum := _subtracted_maximum(node)) is not None:
        axes, has_hidden = maximum
        row_axis = view.axes[axis]
        if row_axis in axes and (_keeps_order(steps) or _is_product(operand(view_of(node.out), 0))):
            has_hidden = has_hidden or any(n.op is ops.select_n for n, _ in steps)
            yield ShiftedLogits(node, steps, axes == (row_axis,) and not has_hidden)
    for index, inner in _operands_with_shifts(view, axis):
        if context.single_use(node.inputs[index]):
            yield from _shifts(inner, axis, (*steps, (node, index)), context)


MOST_STEPS = 16


def _keeps_order(steps: tuple[Step, ...]) -> bool:
    """Return True if all steps after the shift are moves, conversions, products and quotients."""
    return all(node.op in (*UNCUT_MOVES, ops.mul, ops.div) for node, _ in steps)


def _is_product(x: View) -> bool:
    """Return True for a matrix product (``einsum``), which may be multiplied or divided but not
    masked.

    In a row of masked scores, the shift would be so large that it absorbs all terms that are added
    later.
    """
    while x.op() in (ops.mul, ops.div):
        x = max(operands(x), key=lambda v: len(v.base.shape))
    return x.op() is ops.einsum


def _subtracted_maximum(node: Node) -> tuple[tuple[int, ...], bool] | None:
    """Return the axes of the maximum in ``x - max(x)``, and whether ``x`` hides elements of it.

    ``node`` is the difference. Guards around the maximum and fills of hidden elements in ``x`` are
    skipped. Return None for other differences.
    """
    x, highest = operands(view_of(node.out))
    if not dims.is_same_shape(node.inputs[0].shape, node.out.shape):
        return None
    while (guarded := _unguarded(highest)) is not None:
        highest = guarded
    has_hidden = False
    while (axes := reduction_axes(highest, x, ops.reduce_max)) is None:
        filled = match_fills(x) if x.op() is ops.select_n else []
        if not filled:
            return None
        x, has_hidden = operand(x, filled[0][0]), True
    return axes, has_hidden


def _unguarded(highest: View) -> View | None:
    """Return the maximum ``m`` of ``where(isfinite(m), m, number)`` or ``maximum(m, number)``.

    Rows whose maximum is not finite are NaN with and without the guard. Return None if the view has
    no such guard.
    """
    if highest.op() is ops.select_n and (filled := match_fills(highest)):
        index, fill = filled[0]
        return operand(highest, index) if np.isfinite(fill.number) else None
    if highest.op() is ops.max:
        for bound, other in (operands(highest), operands(highest)[::-1]):
            number = scalar(bound.base)
            if number is not None and np.isfinite(number):
                return other
    return None


def _operands_with_shifts(view: View, axis: int) -> Iterator[tuple[int, View]]:
    """Yield the operands of an operation that pass a shift on to its result, as pairs of index and
    view.

    The operation may be a move, a conversion, a sum, a difference, a product with a number, or a
    selection that fills with low numbers. ``axis`` is the axis of the softmax.
    """
    node = view.node()
    if (inner := look_through_one(view, reach="factors")) is not None:
        yield 0, inner
    elif node.op in (ops.add, ops.sub):
        yield from ((i, view.operand(i)) for i in range(2 if node.op is ops.add else 1))
    elif node.op in (ops.mul, ops.div):
        for i in (0, 1) if node.op is ops.mul else (0,):
            number = scalar(node.inputs[1 - i])
            if number is not None and is_moderate(np.asarray(number), allow_zero=False):
                yield i, view.operand(i)
    elif node.op is ops.select_n:
        yield from ((i, view.operand(i)) for i, f in match_fills(view) if f.number <= VANISHING)


def _emit_unshifted(
    node: Node, logits: ShiftedLogits, editor: Editor, *, inexact: list[Node]
) -> Value:
    """Emit the softmax ``node`` and the steps before it again without the shift.

    Return the new softmax. ``node`` is appended to ``inexact`` if the shift is not exact.
    """
    if not logits.is_exact:
        inexact.append(node)
    value = logits.difference.inputs[0]
    for step, index in ((node, 0), *logits.steps)[::-1]:
        value = editor.copy_with_operands(
            step, [value if i == index else v for i, v in enumerate(step.inputs)]
        )
    return value


def shift_recogniser(strict: bool, inexact: list[Node] | None = None) -> Recogniser:
    """Return a recogniser that drops shifts before a softmax.

    A shift is the subtraction of a maximum. With ``strict``, only exact shifts are dropped.
    Otherwise each softmax that loses another shift is appended to ``inexact``.
    """
    record = [] if inexact is None else inexact
    return recogniser_from(
        "Softmax",
        (ops.softmax,),
        partial(match_shift, strict=strict),
        partial(_emit_unshifted, inexact=record),
    )
