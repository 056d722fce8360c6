"""Windows of named sizes."""

from __future__ import annotations

from converter.ir import Node, dims, ops
from converter.ir.rewrite import Editor

REDUCED = {
    ops.reduce_window_sum: ops.reduce_sum,
    ops.reduce_window_max: ops.reduce_max,
    ops.reduce_window_min: ops.reduce_min,
}
"""What a window over a whole axis is."""


def over_whole_axes(node: Node, editor: Editor) -> Node | None:
    """A window as long as an axis of named length sees all of it: a reduction, and the window of
    one element over what is left. None where another window has a named size.
    """
    x, p = node.inputs[0], node.params
    sizes, strides = list(p["window_dimensions"]), list(p["window_strides"])
    axes = tuple(axis for axis, size in enumerate(sizes) if dims.is_symbolic(size))
    for axis in axes:
        plain = (p["padding"][axis], p["base_dilation"][axis], p["window_dilation"][axis])
        if not dims.same(sizes[axis], x.shape[axis]) or plain != ((0, 0), 1, 1):
            return None
        sizes[axis] = strides[axis] = 1
    left = tuple(d for axis, d in enumerate(x.shape) if axis not in axes)
    total = editor.add(REDUCED[node.op], [x], left, x.dtype, {"axes": axes})
    kept = editor.reshape(total, tuple(1 if i in axes else d for i, d in enumerate(x.shape)))
    changes = {"window_dimensions": tuple(sizes), "window_strides": tuple(strides)}
    return editor.like(node, [kept], **changes).node
