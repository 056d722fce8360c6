"""Softmax, ``exp(x - max(x)) / sum(exp(x - max(x)))``, and its logarithm, in any layout.

Both along one axis, as ONNX has them.
"""

from __future__ import annotations

from converter.fuse.match import (
    NearMiss,
    Recogniser,
    View,
    materialise,
    operand,
    peel,
    reduced,
    reduction,
)
from converter.graph import Node, Value
from converter.graph.rewrite import Editor


def _softmax(node: Node, editor: Editor, _: list[NearMiss]) -> Value | None:
    root = View(node.out, tuple(range(node.out.rank)))
    top, total = operand(root, 0), operand(root, 1)
    if top.op() != "exp":
        return None
    axes = reduction(total, top, "reduce_sum")
    if axes is None or len(axes) != 1:
        return None
    shifted = peel(View(top.node().inputs[0], top.axes))
    return _named("softmax", node, editor, shifted, axes[0])


def _log_softmax(node: Node, editor: Editor, _: list[NearMiss]) -> Value | None:
    """``shifted - log(sum(exp(shifted)))`` where ``shifted = x - max(x)``."""
    root = View(node.out, tuple(range(node.out.rank)))
    shifted, logarithm = operand(root, 0), operand(root, 1)
    if shifted.op() != "sub" or logarithm.op() != "log":
        return None
    total = View(logarithm.node().inputs[0], logarithm.axes)
    inner = reduced(total, "reduce_sum")
    top = None if inner is None else peel(inner)
    if top is None or top.op() != "exp" or operand(top, 0).base is not shifted.base:
        return None
    exponentials = View(top.base, shifted.axes)
    axes = reduction(total, exponentials, "reduce_sum")
    if axes is None or len(axes) != 1:
        return None
    return _named("log_softmax", node, editor, shifted, axes[0])


def _named(op: str, node: Node, editor: Editor, shifted: View, axis: int) -> Value | None:
    """``op`` of x, if ``shifted`` is x less its largest value along the axis."""
    if shifted.op() != "sub":
        return None
    x, highest = operand(shifted, 0), operand(shifted, 1)
    if reduction(highest, x, "reduce_max") != (axis,) or not x.complete():
        return None
    logits = materialise(editor, x, node.out.shape, node.out.dtype)
    return editor.add(op, [logits], node.out.shape, node.out.dtype, {"axis": axis})


SOFTMAX = Recogniser(("div",), _softmax)
LOG_SOFTMAX = Recogniser(("sub",), _log_softmax)
