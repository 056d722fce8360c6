"""One spelling for halves: slices of the axis that is halved, not of an axis of two.

``x.reshape(…, n, 2)[…, 0]`` takes the even elements of x's axis, ``x.reshape(…, 2, n)[…, 0, :]``
its first half; rotary embeddings are written either way.
"""

from __future__ import annotations

from dataclasses import dataclass

from converter.fuse.match import Uses, proved
from converter.graph import Node, Value, dims, ops
from converter.graph.dims import Dim, Shape
from converter.graph.rewrite import Editor
from converter.graph.slices import cut_axes


@dataclass(frozen=True)
class Half:
    """``source``, as ``merged``, from ``start`` to ``stop`` along ``axis``: as ``single``, and its
    axes in that ``order``, what was sliced."""

    source: Value
    merged: Shape
    axis: int
    start: Dim
    stop: Dim
    stride: int
    single: Shape
    order: tuple[int, ...]


def prove(node: Node, _: Uses) -> Half | None:
    pairs = node.inputs[0]
    cut = cut_axes(node)
    if len(cut) != 1 or not dims.same_shape([v.shape[cut[0]] for v in (pairs, node.out)], (2, 1)):
        return None
    order = tuple(range(pairs.rank))
    if pairs.node is not None and pairs.node.op is ops.transpose:
        order = tuple(pairs.node.params["permutation"])
        pairs = pairs.node.inputs[0]
    if pairs.node is None or pairs.node.op is not ops.reshape:
        return None
    return _half(pairs, order, order[cut[0]], int(node.params["start_indices"][cut[0]]))


def _half(pairs: Value, order: tuple[int, ...], axis: int, second: int) -> Half | None:
    """Half of what is reshaped to ``pairs``, which counts halves along ``axis``."""
    assert pairs.node is not None
    source, shape = pairs.node.inputs[0], pairs.shape
    single = (*shape[:axis], 1, *shape[axis + 1 :])
    before, after = (_ends(source.shape, shape[i:]) for i in (axis, axis + 1))
    if before and after:
        return None  # an axis of two that the source has itself
    if axis > 0 and after:
        merged = _merged(shape, axis - 1)
        size = merged[axis - 1]
        return Half(source, merged, axis - 1, second, size, 2, single, order)
    last = axis == len(shape) - 2
    if last or (axis < len(shape) - 2 and _ends(source.shape, shape[axis + 2 :])):
        merged, width = _merged(shape, axis), shape[axis + 1]
        start = dims.as_dim(second * width)
        stop = dims.as_dim(start + width)
        return Half(source, merged, axis, start, stop, 1, single, order)
    return None


def _ends(source: Shape, rest: Shape) -> bool:
    """Whether an axis of the source ends where the axes ``rest`` of its reshape begin."""
    size = dims.product(rest)
    return any(dims.same(dims.product(source[i:]), size) for i in range(1, len(source) + 1))


def _merged(shape: Shape, axis: int) -> Shape:
    """A shape with the two axes from ``axis`` on as one."""
    return (*shape[:axis], dims.product(shape[axis : axis + 2]), *shape[axis + 2 :])


def build(_: Node, half: Half, editor: Editor) -> Value:
    merged = editor.reshape(half.source, half.merged)
    part = editor.slice(merged, half.axis, half.start, half.stop, half.stride)
    return editor.transpose(editor.reshape(part, half.single), half.order)


PAIRS = proved("pairs", (ops.slice,), prove, build)
