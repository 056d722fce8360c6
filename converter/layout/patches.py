"""Convolutions as matrix products with patches, where the runtime convolves no such numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from converter.ir import Value, dims, ops
from converter.ir.dims import Shape
from converter.ir.rewrite import Editor


def by_patches(
    editor: Editor,
    x: Value,
    w: Value,
    strides: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    shape: Shape,
) -> Value:
    """``x`` [batch, channels, space…], padded, with ``w`` [out, in / groups, space…].

    **Returns** a value of ``shape`` [batch, out, space…].
    """
    batch, _, *space = x.shape
    outs, ins, *kernel = w.shape
    places = math.prod(kernel)
    parted = editor.reshape(x, (batch, groups, ins, *space))
    parts = [
        _patches_shifted(editor, parted, place, kernel, strides, dilation)
        for place in itertools.product(*map(range, kernel))
    ]
    size = dims.size_product(shape[2:])
    flat = (batch, groups, places * ins, size)
    patches = editor.reshape(editor.concatenate(parts, 2), flat)
    grouped = editor.reshape(w, (groups, outs // groups, ins, places))
    turned = editor.transpose(grouped, (0, 1, 3, 2))
    weights = editor.reshape(turned, (groups, outs // groups, places * ins))
    sums = (batch, groups, outs // groups, size)
    return editor.reshape(editor.add(ops.matmul, [weights, patches], sums, x.dtype), shape)


def _patches_shifted(
    editor: Editor,
    x: Value,
    place: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
) -> Value:
    """What one element of the kernel meets, of [batch, groups, channels, space…]."""
    parts = zip(place, kernel, strides, dilation, strict=True)
    for axis, (i, size, stride, step) in enumerate(parts, 3):
        reach = dims.at_least_zero(dims.as_dim(x.shape[axis] - (size - 1) * step))
        x = editor.slice(x, axis, i * step, dims.as_dim(i * step + reach), stride)
    return x
