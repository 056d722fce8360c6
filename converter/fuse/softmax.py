"""Softmax and its logarithm along one axis, in any layout.

    exp(s) / sum(exp(s)) = exp(log_softmax(x)) = softmax(x)
    s - log(sum(exp(s))) = log_softmax(x)

where ``s = x - max(x)``. The sum may leave out elements whose ``x`` is -inf, as JAX's softmax with
``where`` does: a row without other elements is NaN in both cases.
"""

import math
from functools import partial

from converter.fuse.factors import factors_of
from converter.fuse.match import (
    MatchContext,
    MatchedOperation,
    emit_matched_operation,
    operand,
    operands,
    recogniser_from,
)
from converter.fuse.reductions import match_reduction, reduction_axes
from converter.ir import Node, ops
from converter.ir.axes import View, view_of
from converter.ir.moves import look_through
from converter.ir.scalars import scalar


def match_softmax(node: Node, context: MatchContext) -> MatchedOperation | str | None:
    """Match a quotient of exponentials and their sum, or the exponential of a log softmax.

    Return the operand of the softmax, and its axis as the parameter ``axis``. Return a text, the
    reason for a near miss, if the sum is over several axes, or if the exponent is not x minus its
    maximum along the axis. Return None for other nodes.
    """
    if node.op is ops.exp:
        return _match_exp_of_log_softmax(operand(view_of(node.out), 0))
    top, total = (
        operands(view_of(node.out)) if node.op is ops.div else _match_quotient(node, context)
    )
    if top is None or total is None or top.op() is not ops.exp:
        return None
    axes = reduction_axes(total, top, ops.reduce_sum) or _visible_axes(total, top)
    if axes is None:
        return None
    if len(axes) != 1:
        return "it is over several axes at once"
    return _match_shifted(operand(top, 0), axes) or _shift_reason(operand(top, 0), axes)


def _shift_reason(exponent: View, axes: tuple[int, ...]) -> str:
    """Return the reason for a near miss of a softmax whose exponent is not ``x - max(x)`` over its
    axes.

    ``axes`` are the axes of the softmax.
    """
    if exponent.op() is ops.sub:
        x, highest = operands(exponent)
        shifted = reduction_axes(highest, x, ops.reduce_max)
        if shifted is not None and {*axes} < {*shifted}:
            return (
                "the maximum of several rows is subtracted, so that all exponentials of a row may "
                "be zero"
            )
    return "the largest number is not taken off first, so that exponentials may overflow"


def _match_exp_of_log_softmax(view: View) -> MatchedOperation | None:
    """Match a log softmax that is the operand of an exponential.

    Return the operand of the log softmax and its axis, or None for other views.
    """
    if view.op() is not ops.log_softmax or not view.has_all_base_axes():
        return None
    node = view.node()
    x = look_through(view._replace(base=node.inputs[0]))
    return (
        MatchedOperation(x, {"axis": view.axes.index(node.params["axis"])})
        if x.has_all_base_axes()
        else None
    )


def _match_quotient(node: Node, context: MatchContext) -> tuple[View | None, View | None]:
    """Return the only factor and the only divisor of a product with an exponential as an operand.

    Return (None, None) if there are more, if the coefficient is not 1, or if no operand of the node
    is an exponential.
    """
    if not any(v.producer_if(ops.exp) for v in node.inputs):
        return None, None
    parts = factors_of(node, context)
    is_quotient = len(parts.factors) == len(parts.divisors) == 1 and parts.coefficient == 1
    return (parts.factors[0], parts.divisors[0]) if is_quotient else (None, None)


def _visible_axes(total: View, top: View) -> tuple[int, ...] | None:
    """Return the axes over which ``total`` is the sum of the exponentials of visible elements.

    ``top`` are all exponentials. A mask sets the hidden elements to -inf before the exponential and
    their exponentials to zero before the sum. It must be the same mask. Return None if ``total`` is
    no such sum.
    """
    summed = match_reduction(total, ops.reduce_sum)
    shifted = operand(top, 0)
    x = operands(shifted)[0] if shifted.op() is ops.sub else None
    if summed is None or x is None or not (summed.view.op() is x.op() is ops.select_n):
        return None
    for i in (1, 2):
        zero, low = operand(summed.view, 3 - i), operand(x, 3 - i)
        axes = summed.operand(i).axes_of(top)
        is_same_mask = axes == summed.operand(0).axes_of(operand(x, 0))
        if axes and is_same_mask and scalar(zero.base) == 0 and scalar(low.base) == -math.inf:
            return axes
    return None


def match_log_softmax(node: Node, context: MatchContext) -> MatchedOperation | None:
    """Match ``s - log(sum(exp(s)))`` with ``s = x - max(x)``.

    Return x, and the axis of the maximum and the sum as the parameter ``axis``. Return None for
    other nodes.
    """
    shifted, logarithm = operands(view_of(node.out))
    if shifted.op() is not ops.sub or logarithm.op() is not ops.log:
        return None
    inner = match_reduction(operand(logarithm, 0), ops.reduce_sum)
    if inner is None or inner.view.op() is not ops.exp:
        return None
    return _match_shifted(shifted, inner.operand(0).axes_of(shifted))


def _match_shifted(shifted: View, axes: tuple[int, ...] | None) -> MatchedOperation | None:
    """Match ``x - max(x)`` along the only axis in ``axes``.

    Return x and the parameter ``axis``. Return None for other values, or if ``axes`` is None or has
    several axes.
    """
    if shifted.op() is not ops.sub or axes is None or len(axes) != 1:
        return None
    x, highest = operands(shifted)
    is_maximum = reduction_axes(highest, x, ops.reduce_max) == axes and x.has_all_base_axes()
    return MatchedOperation(x, {"axis": axes[0]}) if is_maximum else None


SOFTMAX = recogniser_from(
    "Softmax",
    (ops.div, ops.mul, ops.exp),
    match_softmax,
    partial(emit_matched_operation, ops.softmax),
)
LOG_SOFTMAX = recogniser_from(
    "LogSoftmax", (ops.sub,), match_log_softmax, partial(emit_matched_operation, ops.log_softmax)
)
