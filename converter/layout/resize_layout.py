"""Resizes in the layouts that runtimes have: [batch, channels, space…], with the space resized.

Optimisers move transposes through ``Resize`` by themselves, so that channels last cost nothing
extra; nearest neighbours are copied one by one: slices of many elements are better gathered.
"""

import numpy as np

from converter.ir import Node, Value, const, dims, ops
from converter.ir.dims import Dim
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule
from converter.layout.pooling import as_image, from_image

Kinds = tuple[tuple[str, bool], ...]

# Slices of at least as many elements are gathered: 0.07 ms against 0.36 ms for 256 of them.
GATHERED = 16


def _resize(node: Node, editor: Editor) -> Value:
    x, axes, sizes = node.inputs[0], list(node.params["axes"]), list(node.params["sizes"])
    kinds = node.params["kinds"]
    if kinds[0][0] == "nearest":
        while axes and _gathers(x, axes, sizes):
            axis, count = axes.pop(0), sizes.pop(0)
            places = (2 * np.arange(count) + 1) * x.shape[axis] // (2 * count)
            wide = tuple(count if i == axis else d for i, d in enumerate(x.shape))
            x = editor.add(ops.take, [x, const(places, np.int32)], wide, x.dtype, {"axis": axis})
    if not axes:
        return x
    shape = tuple(sizes[axes.index(i)] if i in axes else d for i, d in enumerate(x.shape))
    if len(axes) == 1:
        return _one_axis(editor, x, axes[0], shape, kinds)
    flat, order = as_image(editor, x, axes)
    image, space = (*flat.shape[:2], *sizes), tuple(range(2, flat.rank))
    return from_image(editor, _made(editor, flat, image, space, kinds), order, shape)


def _one_axis(editor: Editor, x: Value, axis: int, shape: dims.Shape, kinds: Kinds) -> Value:
    """One axis is an image one pixel high, or one whose width stays what it is."""
    before, after = dims.size_product(x.shape[:axis]), dims.size_product(x.shape[axis + 1 :])
    if dims.same(after, 1):
        *batch, channels = [1, *x.shape[:axis]]
        flat = (dims.size_product(batch), channels, 1, x.shape[axis])
        place = 3
    else:
        flat, place = (before, 1, x.shape[axis], after), 2
    wide = tuple(shape[axis] if i == place else d for i, d in enumerate(flat))
    made = _made(editor, editor.reshape(x, flat), wide, (place,), kinds)
    return editor.reshape(made, shape)


def axis_by_axis(node: Node, editor: Editor) -> Value | None:
    """Several axes one after the other, or the one of several that is resized as an image of it."""
    (x,), kinds = node.inputs, node.params["kinds"]
    for axis, size in zip(node.params["axes"], node.params["sizes"], strict=True):
        shape = tuple(size if i == axis else d for i, d in enumerate(x.shape))
        x = _one_axis(editor, x, axis, shape, kinds)
    return x


def _made(
    editor: Editor, x: Value, shape: dims.Shape, axes: tuple[int, ...], kinds: Kinds
) -> Value:
    params = {"axes": axes, "sizes": tuple(shape[i] for i in axes), "kinds": kinds}
    return editor.add(ops.resize, [x], shape, x.dtype, params)


def _gathers(x: Value, axes: list[int], sizes: list[Dim]) -> bool:
    """Neighbours along the first of the axes are better gathered than resized."""
    if not dims.all_static((x.shape[axes[0]], sizes[0])):
        return False
    inner = dims.size_product(x.shape[axes[-1] + 1 :])
    small = dims.is_static(inner) and inner < GATHERED
    together = len(axes) == 1 or (len(axes) == 2 and axes[1] == axes[0] + 1)
    return not (small and together)


RULES: dict[Op, Rule] = {ops.resize: _resize}
