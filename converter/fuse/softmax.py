"""``exp(x - max(x)) / sum(exp(x - max(x)))`` along one axis, in any layout."""

from __future__ import annotations

from converter.fuse.match import (
    NearMiss,
    Recogniser,
    View,
    materialise,
    operand,
    peel,
    reduction,
)
from converter.graph import Node, Value
from converter.rewrite import Editor


def _softmax(node: Node, editor: Editor, _: list[NearMiss]) -> Value | None:
    root = View(node.out, tuple(range(node.out.rank)))
    top, total = operand(root, 0), operand(root, 1)
    if top.op() != "exp":
        return None
    axes = reduction(total, top, "reduce_sum")
    if axes is None or len(axes) != 1:
        return None
    shifted = peel(View(top.node().inputs[0], top.axes))
    if shifted.op() != "sub":
        return None
    x, highest = operand(shifted, 0), operand(shifted, 1)
    if reduction(highest, x, "reduce_max") != axes or not x.complete():
        return None
    logits = materialise(editor, x, node.out.shape, node.out.dtype)
    return editor.add("softmax", [logits], node.out.shape, node.out.dtype, {"axis": axes[0]})


SOFTMAX = Recogniser(("div",), _softmax)
