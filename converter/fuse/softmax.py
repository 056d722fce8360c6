"""Softmax and its logarithm in any layout, both along one axis, as ONNX has them.

    exp(s) / sum(exp(s)) = exp(log_softmax(x)) = softmax(x)
    s - log(sum(exp(s))) = log_softmax(x)

where ``s = x - max(x)``. Where ``x`` is -inf throughout ``hidden``, the sum may leave that out, as
JAX's softmax with ``where`` does: of a row that is hidden throughout all are NaN either way.
"""

import math
from functools import partial

from converter.fuse.match import (
    MatchedOperation,
    Uses,
    build_applied,
    operand,
    operands,
    peel,
    proved,
)
from converter.fuse.product_terms import product_of, reduced, reduction
from converter.ir import Node, ops
from converter.ir.axes import View, along
from converter.ir.scalars import scalar


def prove_softmax(node: Node, uses: Uses) -> MatchedOperation | str | None:
    if node.op is ops.exp:
        return _of_logarithm(operand(along(node.out), 0))
    top, total = operands(along(node.out)) if node.op is ops.div else _quotient(node, uses)
    if top is None or total is None or top.op() is not ops.exp:
        return None
    axes = reduction(total, top, ops.reduce_sum) or _shown_axes(total, top)
    if axes is None:
        return None
    if len(axes) != 1:
        return "it is over several axes at once"
    missing = "the largest number is not taken off first, so that exponentials may overflow"
    return _softmax_shifted(operand(top, 0), axes) or missing


def _of_logarithm(view: View) -> MatchedOperation | None:
    """exp(log_softmax(x))"""
    if view.op() is not ops.log_softmax or not view.complete():
        return None
    node = view.node()
    x = peel(view._replace(base=node.inputs[0]))
    return (
        MatchedOperation(x, {"axis": view.axes.index(node.params["axis"])})
        if x.complete()
        else None
    )


def _quotient(node: Node, uses: Uses) -> tuple[View | None, View | None]:
    """The two parts of a product that is one of a value with the inverse of another."""
    if not any(v.made_by(ops.exp) for v in node.inputs):
        return None, None
    parts = product_of(node, uses)
    alone = len(parts.factors) == len(parts.divisors) == 1 and parts.coefficient == 1
    return (parts.factors[0], parts.divisors[0]) if alone else (None, None)


def _shown_axes(total: View, top: View) -> tuple[int, ...] | None:
    """The axes over which it is the sum of all exponentials but those that are hidden, and zero."""
    summed = reduced(total, ops.reduce_sum)
    shifted = operand(top, 0)
    x = operands(shifted)[0] if shifted.op() is ops.sub else None
    if summed is None or x is None or not (summed.view.op() is x.op() is ops.select_n):
        return None
    for i in (1, 2):
        zero, low = operand(summed.view, 3 - i), operand(x, 3 - i)
        axes = summed.operand(i).axes_of(top)
        same = axes == summed.operand(0).axes_of(operand(x, 0))
        if axes and same and scalar(zero.base) == 0 and scalar(low.base) == -math.inf:
            return axes
    return None


def prove_log_softmax(node: Node, uses: Uses) -> MatchedOperation | None:
    shifted, logarithm = operands(along(node.out))
    if shifted.op() is not ops.sub or logarithm.op() is not ops.log:
        return None
    inner = reduced(operand(logarithm, 0), ops.reduce_sum)
    if inner is None or inner.view.op() is not ops.exp:
        return None
    return _softmax_shifted(shifted, inner.operand(0).axes_of(shifted))


def _softmax_shifted(shifted: View, axes: tuple[int, ...] | None) -> MatchedOperation | None:
    """x, if ``shifted`` is x less its largest value along the one axis."""
    if shifted.op() is not ops.sub or axes is None or len(axes) != 1:
        return None
    x, highest = operands(shifted)
    proper = reduction(highest, x, ops.reduce_max) == axes and x.complete()
    return MatchedOperation(x, {"axis": axes[0]}) if proper else None


SOFTMAX = proved(
    "Softmax", (ops.div, ops.mul, ops.exp), prove_softmax, partial(build_applied, ops.softmax)
)
LOG_SOFTMAX = proved(
    "LogSoftmax", (ops.sub,), prove_log_softmax, partial(build_applied, ops.log_softmax)
)
