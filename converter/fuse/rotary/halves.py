"""Halves of a value along an axis, and two halves put together."""

from __future__ import annotations

from dataclasses import dataclass

from converter.fuse.match import whole
from converter.graph import Node, Value, dims, ops
from converter.graph.axes import View
from converter.graph.dims import Shape
from converter.graph.slices import cut_axes


@dataclass(frozen=True)
class Part:
    """One half of a value along an axis: the first or second half, or the even or odd elements."""

    base: Value
    axis: int
    second: bool
    interleaved: bool


def part(value: Value) -> Part | None:
    """The half that a slice takes, if it takes one."""
    node = value.node
    if node is None or node.op is not ops.slice:
        return None
    source = node.inputs[0]
    starts, limits = node.params["start_indices"], node.params["limit_indices"]
    strides = node.params["strides"] or (1,) * source.rank
    cut = cut_axes(node)
    if len(cut) != 1 or not dims.is_static(source.shape[cut[0]]):
        return None
    axis = cut[0]
    width, start, stride = source.shape[axis], starts[axis], strides[axis]
    if width % 2 or value.shape[axis] * 2 != width:
        return None
    if stride == 2 and start in (0, 1):
        return Part(source, axis, start == 1, True)
    if stride == 1 and (start, limits[axis]) in ((0, width // 2), (width // 2, width)):
        return Part(source, axis, start > 0, False)
    return None


@dataclass(frozen=True)
class Joined:
    """Two halves put together: one after the other, or taking turns."""

    node: Node  # the concatenation
    axes: tuple[int | None, ...]  # logical axis -> axis of the concatenation
    along: int  # the axis, of the concatenation, that counts the pairs or elements
    interleaved: bool


def stacked(node: Node) -> tuple[Joined, Shape] | None:
    """What takes turns along an axis of two, [..., n, 2, ...], which is reshaped to [..., 2n, ...]
    by who reads it so; and that shape."""
    if node.op is not ops.concatenate or len(node.inputs) != 2:
        return None
    last, shape = node.params["dimension"], node.out.shape
    if last == 0 or not dims.same(shape[last], 2):
        return None
    merged = (*shape[: last - 1], dims.as_dim(shape[last - 1] * 2), *shape[last + 1 :])
    axes = tuple(i if i < last else i + 1 for i in range(len(merged)))
    return Joined(node, axes, last - 1, True), merged


def joined(view: View) -> Joined | None:
    if view.op() is ops.concatenate and len(view.node().inputs) == 2:
        return Joined(view.node(), view.axes, view.node().params["dimension"], False)
    if view.op() is not ops.reshape:
        return None
    # [..., n, 2] -> [..., 2n] interleaves what is concatenated along the last axis
    node = view.node()
    pairs = node.inputs[0]
    inner = whole(pairs)
    if inner.op() is not ops.concatenate or len(inner.node().inputs) != 2 or pairs.rank < 2:
        return None
    merged = (*pairs.shape[:-2], dims.as_dim(pairs.shape[-2] * 2))
    last = inner.axes[-1] == inner.node().params["dimension"] and dims.same(pairs.shape[-1], 2)
    along = inner.axes[-2]
    if not last or along is None or not dims.same_shape(merged, node.out.shape):
        return None
    axes = tuple(None if a is None else inner.axes[a] for a in view.axes)
    return Joined(inner.node(), axes, along, True)
