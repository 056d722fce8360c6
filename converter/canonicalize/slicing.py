"""Slices, and parts that are put together: slices for every cut, slices of what was joined."""

from __future__ import annotations

from typing import Any

from converter.ir import Node, Value, dims, ops
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule
from converter.ir.slices import cut_axes, has_strides


def _slicing_slice(node: Node, editor: Editor) -> Value | None:
    source = node.inputs[0]
    if dims.same_shape(source.shape, node.out.shape):
        return source  # no stride shortens nothing: a full slice of equal shape is the whole
    inner = source.node
    starts, limits = node.params["start_indices"], node.params["limit_indices"]
    if inner is not None and inner.op is ops.concatenate and not has_strides(node):
        return _slice_of_concatenate(node, editor, inner, starts, limits)
    if node.params["strides"] is None:
        kept = {"start_indices": starts, "limit_indices": limits, "strides": (1,) * source.rank}
        return editor.add(ops.slice, [source], node.out.shape, node.out.dtype, kept)
    if inner is not None and inner.op is ops.slice and _cuts_alike(inner, node):
        base = inner.params["start_indices"]
        kept = {
            "start_indices": tuple(dims.as_dim(a + b) for a, b in zip(starts, base, strict=True)),
            "limit_indices": tuple(dims.as_dim(a + b) for a, b in zip(limits, base, strict=True)),
            "strides": node.params["strides"],
        }
        return editor.add(ops.slice, inner.inputs, node.out.shape, node.out.dtype, kept)
    return None


def _cuts_alike(inner: Node, outer: Node) -> bool:
    """Both cut the same axes, so that one slice says what the two do; others keep their roles."""
    plain = not has_strides(inner) and not has_strides(outer)
    return plain and cut_axes(inner) == cut_axes(outer)


def _slice_of_concatenate(
    node: Node, editor: Editor, inner: Node, starts: Any, limits: Any
) -> Value | None:
    """A slice that lies within one part of a concatenation is a slice of that part."""
    axis, offset = inner.params["dimension"], 0
    if not all(dims.is_static(v.shape[axis]) for v in inner.inputs[:-1]):
        return None
    start, stop = starts[axis], limits[axis]
    for part in inner.inputs:
        end = dims.as_dim(offset + part.shape[axis])
        inside = dims.is_static(start) and start >= offset
        ends = dims.same(stop, end) or (
            dims.is_static(stop) and dims.is_static(end) and stop <= end
        )
        if inside and ends:
            kept = {
                "start_indices": tuple(
                    start - offset if i == axis else s for i, s in enumerate(starts)
                ),
                "limit_indices": tuple(
                    dims.as_dim(stop - offset) if i == axis else s for i, s in enumerate(limits)
                ),
                "strides": (1,) * part.rank,
            }
            if dims.same_shape(part.shape, node.out.shape):
                return part
            return editor.add(ops.slice, [part], node.out.shape, node.out.dtype, kept)
        offset = end
        if not dims.is_static(offset):
            return None
    return None


def _split(node: Node, editor: Editor) -> list[Value] | None:
    source, axis = node.inputs[0], node.params["axis"]
    if "sizes" not in node.params:
        return None
    parts, start = [], 0
    for size in node.params["sizes"]:
        stop = dims.as_dim(start + size)
        parts.append(editor.slice(source, axis, start, stop))
        start = stop
    return parts


def _unstack(node: Node, editor: Editor) -> list[Value]:
    source, axis = node.inputs[0], node.params["axis"] % node.inputs[0].rank
    shape = (*source.shape[:axis], *source.shape[axis + 1 :])
    parts = [editor.slice(source, axis, i, i + 1) for i in range(len(node.outputs))]
    return [editor.reshape(p, shape) for p in parts]


def _stack(node: Node, editor: Editor) -> Value:
    axis = node.params["axis"] % node.out.rank
    shape = tuple(1 if i == axis else d for i, d in enumerate(node.out.shape))
    return editor.concatenate([editor.reshape(v, shape) for v in node.inputs], axis)


def _slicing_concatenate(node: Node, editor: Editor) -> Value | None:
    axis = node.params["dimension"]
    parts = [v for v in node.inputs if not dims.same(v.shape[axis], 0)]
    if len(parts) == 1:
        return parts[0]
    merged = _merge_broadcasts(parts, axis, editor)
    if parts and len(merged) < len(node.inputs):
        return merged[0] if len(merged) == 1 else editor.concatenate(merged, axis)
    return None


def _merge_broadcasts(parts: list[Value], axis: int, editor: Editor) -> list[Value]:
    """Neighbours that are broadcast alike are joined first and broadcast once."""
    result: list[Value] = []
    for part in parts:
        above = result[-1].node if result else None
        node = part.node
        if above is not None and node is not None and _broadcast_alike(above, node, axis):
            axes = node.params["broadcast_dimensions"]
            joined = editor.concatenate([above.inputs[0], node.inputs[0]], axes.index(axis))
            size = dims.as_dim(above.out.shape[axis] + part.shape[axis])
            shape = (*part.shape[:axis], size, *part.shape[axis + 1 :])
            result[-1] = editor.broadcast(joined, shape, axes)
        else:
            result.append(part)
    return result


def _broadcast_alike(first: Node, second: Node, axis: int) -> bool:
    if not first.op == second.op is ops.broadcast_in_dim:
        return False
    axes = first.params["broadcast_dimensions"]
    if axes != second.params["broadcast_dimensions"] or axis not in axes:
        return False
    shapes = [
        [n.inputs[0].shape[axes.index(a)] for a in axes if a != axis] for n in (first, second)
    ]
    own = axes.index(axis)
    whole = all(dims.same(n.inputs[0].shape[own], n.out.shape[axis]) for n in (first, second))
    return whole and dims.same_shape(*shapes)


def _pad(node: Node, _: Editor) -> Value | None:
    empty = all(tuple(p) == (0, 0, 0) for p in node.params["padding_config"])
    return node.inputs[0] if empty else None


RULES: dict[Op, Rule] = {
    ops.slice: _slicing_slice,
    ops.split: _split,
    ops.stack: _stack,
    ops.unstack: _unstack,
    ops.concatenate: _slicing_concatenate,
    ops.pad: _pad,
}
