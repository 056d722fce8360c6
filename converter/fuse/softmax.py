"""Softmax and its logarithm in any layout, both along one axis, as ONNX has them.

    exp(s) / sum(exp(s)) = softmax(x)        s - log(sum(exp(s))) = log_softmax(x)

where ``s = x - max(x)``.
"""

from functools import partial

from converter.fuse.match import Applied, Uses, build_applied, operand, operands, proved
from converter.fuse.product_terms import reduced, reduction
from converter.ir import Node, ops
from converter.ir.axes import View, along


def prove_softmax(node: Node, uses: Uses) -> Applied | str | None:
    top, total = operands(along(node.out))
    axes = reduction(total, top, ops.reduce_sum) if top.op() is ops.exp else None
    if axes is None:
        return None
    if len(axes) != 1:
        return "it is over several axes at once"
    missing = "the largest number is not taken off first, so that exponentials may overflow"
    return _softmax_shifted(operand(top, 0), axes) or missing


def prove_log_softmax(node: Node, uses: Uses) -> Applied | None:
    shifted, logarithm = operands(along(node.out))
    if shifted.op() is not ops.sub or logarithm.op() is not ops.log:
        return None
    inner = reduced(operand(logarithm, 0), ops.reduce_sum)
    if inner is None or inner.view.op() is not ops.exp:
        return None
    return _softmax_shifted(shifted, inner.operand(0).axes_of(shifted))


def _softmax_shifted(shifted: View, axes: tuple[int, ...] | None) -> Applied | None:
    """x, if ``shifted`` is x less its largest value along the one axis."""
    if shifted.op() is not ops.sub or axes is None or len(axes) != 1:
        return None
    x, highest = operands(shifted)
    proper = reduction(highest, x, ops.reduce_max) == axes and x.complete()
    return Applied(x, {"axis": axes[0]}) if proper else None


SOFTMAX = proved("Softmax", (ops.div,), prove_softmax, partial(build_applied, ops.softmax))
LOG_SOFTMAX = proved(
    "LogSoftmax", (ops.sub,), prove_log_softmax, partial(build_applied, ops.log_softmax)
)
