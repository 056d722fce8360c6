"""Rewrite splits and constant indices as slices, and merge slices and concatenations."""

from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from jax import lax

from converter.ir import Node, Value, const, dims, ops
from converter.ir.axes import view_of
from converter.ir.moves import (
    has_strides,
    shortened_axes,
    view_of_concatenated_operand,
    view_of_operand,
)
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule
from converter.ir.scalars import scalar


def _canonicalize_slice(node: Node, editor: Editor) -> Value | None:
    """Drop a slice of the whole operand, or merge it with the slice or concatenation before it.

    Two slices are merged if both have no strides and shorten the same axes. A slice of a
    concatenation is replaced by a slice of one of its operands if this operand contains all
    elements. If the parameter ``strides`` is None, strides of 1 are added. Return None if nothing
    changes.
    """
    source, params = node.inputs[0], node.params
    if dims.is_same_shape(source.shape, node.out.shape):
        # A slice that has the shape of the operand is the operand itself.
        return source
    can_merge = source.node is not None and source.node.op in (ops.slice, ops.concatenate)
    if can_merge and not has_strides(node):
        view, inner = view_of_operand(view_of(node.out)), source.producer_if(ops.slice)
        if view is not None and (
            merged := view_of_operand(view)
            if _slices_same_axes(inner, node)
            else view_of_concatenated_operand(view)
        ):
            return editor.slice_region(merged.base, merged.starts, node.out.shape)
    if params["strides"] is None:
        full_params = {**params, "strides": (1,) * source.rank}
        return editor.add(ops.slice, [source], node.out.shape, node.out.dtype, full_params)
    return None


def _slices_same_axes(inner: Node | None, outer: Node) -> bool:
    """Return True if ``inner`` is a slice without strides that shortens the same axes as ``outer``.

    One slice can then replace both.
    """
    is_unstrided = inner is not None and not has_strides(inner)
    return inner is not None and is_unstrided and shortened_axes(inner) == shortened_axes(outer)


def _split(node: Node, editor: Editor) -> list[Value] | None:
    """Return the slices that are equal to the results of a split by sizes. Return None for other
    splits."""
    source, axis = node.inputs[0], node.params["axis"]
    if "sizes" not in node.params:
        return None
    ends = [0, *(dims.as_dim(end) for end in accumulate(node.params["sizes"]))]
    return [editor.slice(source, axis, *pair) for pair in pairwise(ends)]


def _unstack(node: Node, editor: Editor) -> list[Value]:
    """Return the slices of size one along an axis, reshaped without it."""
    source, axis = node.inputs[0], node.params["axis"] % node.inputs[0].rank
    shape = (*source.shape[:axis], *source.shape[axis + 1 :])
    parts = [editor.slice(source, axis, i, i + 1) for i in range(len(node.outputs))]
    return [editor.reshape(p, shape) for p in parts]


def _stack(node: Node, editor: Editor) -> Value:
    """Return the concatenation of the operands with a new axis of size one each."""
    axis = node.params["axis"] % node.out.rank
    shape = tuple(1 if i == axis else d for i, d in enumerate(node.out.shape))
    return editor.concatenate([editor.reshape(v, shape) for v in node.inputs], axis)


def _canonicalize_concatenate(node: Node, editor: Editor) -> Value | None:
    """Drop empty operands of a concatenation, and concatenate before a broadcast instead of after
    it.

    The latter needs neighbouring operands that are broadcast in the same way. Return None if
    nothing changes.
    """
    axis = node.params["dimension"]
    parts = [v for v in node.inputs if not dims.is_same_dim(v.shape[axis], 0)]
    if len(parts) == 1:
        return parts[0]
    merged = _merge_broadcasts(parts, axis, editor)
    if parts and len(merged) < len(node.inputs):
        return merged[0] if len(merged) == 1 else editor.concatenate(merged, axis)
    return None


def _merge_broadcasts(parts: list[Value], axis: int, editor: Editor) -> list[Value]:
    """Return the operands of a concatenation with neighbours merged that are broadcast in the same
    way.

    The arrays before the broadcasts are concatenated along ``axis``, and the result is broadcast
    once.
    """
    result: list[Value] = []
    for value in parts:
        previous = result[-1].producer_if(ops.broadcast_in_dim) if result else None
        node = value.producer_if(ops.broadcast_in_dim)
        if previous is not None and node is not None and _are_broadcast_alike(previous, node, axis):
            axes = node.params["broadcast_dimensions"]
            joined = editor.concatenate([previous.inputs[0], node.inputs[0]], axes.index(axis))
            size = dims.as_dim(previous.out.shape[axis] + value.shape[axis])
            shape = (*value.shape[:axis], size, *value.shape[axis + 1 :])
            result[-1] = editor.broadcast(joined, shape, axes)
        else:
            result.append(value)
    return result


def _are_broadcast_alike(first: Node, second: Node, axis: int) -> bool:
    """Return True if the concatenation of two broadcasts is the broadcast of a concatenation.

    Both must map the same axes, among them ``axis``, whose size neither changes. Their operands
    must have the same sizes along the other axes.
    """
    axes = first.params["broadcast_dimensions"]
    if axes != second.params["broadcast_dimensions"] or axis not in axes:
        return False
    axis_index, nodes = axes.index(axis), (first, second)
    shapes = [(*s[:axis_index], *s[axis_index + 1 :]) for s in (n.inputs[0].shape for n in nodes)]
    keeps_size = all(
        dims.is_same_dim(n.inputs[0].shape[axis_index], n.out.shape[axis]) for n in nodes
    )
    return keeps_size and dims.is_same_shape(*shapes)


def _pad(node: Node, _: Editor) -> Value | None:
    """Return the operand of a pad without any padding, otherwise None."""
    empty = all(tuple(p) == (0, 0, 0) for p in node.params["padding_config"])
    return node.inputs[0] if empty else None


def match_interleaving(node: Node, editor: Editor) -> Value | None:
    """Match a sum or logical or of two arrays that are padded with zeros between their entries.

    ``lax.associative_scan`` interleaves arrays in this way. Return the interleaved array, which is
    computed without the sum, or None if there is no match. A negative zero keeps its sign, which it
    would lose in a sum with zero.
    """
    parts = [_spread_entries(v) for v in node.inputs]
    for first, second in (parts, parts[::-1]):
        if first is None or second is None or (first.low, second.low) != (0, 1):
            continue
        if first.axis == second.axis and dims.is_same_shape(*(v.shape for v in node.inputs)):
            return _interleave(first, second, node, editor)
    return None


@dataclass(frozen=True)
class SpreadEntries:
    """Entries of ``x`` along ``axis`` with one zero between neighbours, after ``low`` zeros."""

    x: Value
    axis: int
    low: int


def _spread_entries(value: Value) -> SpreadEntries | None:
    """Match a pad that inserts one zero between neighbouring entries of one axis.

    It may add at most one zero after the last entry. Return its operand with the axis. Return None
    for other values.
    """
    pad = value.producer_if(ops.pad)
    if pad is None or scalar(pad.inputs[1]) != 0:
        return None
    config = pad.params["padding_config"]
    axes = [i for i, edges in enumerate(config) if tuple(edges) != (0, 0, 0)]
    if len(axes) != 1 or config[axes[0]][2] != 1 or not dims.all_static(value.shape):
        return None
    low, high, _ = config[axes[0]]
    return SpreadEntries(pad.inputs[0], axes[0], low) if high in (0, 1) else None


def _interleave(first: SpreadEntries, second: SpreadEntries, node: Node, editor: Editor) -> Value:
    """Return the entries of two arrays alternately: first[0], second[0], first[1], …

    The arrays are stacked on a new axis after the axis of their entries, and the two axes are
    merged. If ``first`` has one entry more, ``second`` is padded with a zero entry, which is cut
    off at the end.

    Arguments:
        first: the array for the even positions.
        second: the array for the odd positions.
        node: the node to replace, whose shape the result gets.
        editor: gets the new nodes.
    """
    axis, x, y = first.axis, first.x, second.x
    if x.shape[axis] > y.shape[axis]:
        config = tuple((0, int(i == axis), 0) for i in range(x.rank))
        filler = const(0, y.dtype)
        y = editor.add(ops.pad, [y, filler], x.shape, y.dtype, {"padding_config": config})
    shape = (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :])
    pairs = editor.concatenate([editor.reshape(v, shape) for v in (x, y)], axis + 1)
    merged_shape = (*x.shape[:axis], 2 * x.shape[axis], *x.shape[axis + 1 :])
    return editor.slice(editor.reshape(pairs, merged_shape), axis, 0, node.out.shape[axis])


# --------------------------------------------------------------------------- indexing by numbers


def _gather_to_slice(node: Node, editor: Editor) -> Value | None:
    """Rewrite a gather with constant indices as a slice: ``x[:, 1]``, ``x[..., 4:]``, ``x[...,
    ::2]``.

    These are gathers in jnp if a size is named. Return None if the indices are not constant, not
    within bounds, or not at equal distances along one axis.
    """
    x, indices = node.inputs
    numbers, sizes = node.params["dimension_numbers"], node.params["slice_sizes"]
    array = indices.const
    is_constant = isinstance(array, np.ndarray) and not numbers.operand_batching_dims
    if not is_constant or array.ndim > 2 or 0 in array.shape:
        return None
    columns = dict(zip(numbers.start_index_map, array.reshape(-1, array.shape[-1]).T, strict=True))
    steps = {axis: _constant_step(column) for axis, column in columns.items()}
    varying_axes = [axis for axis, step in steps.items() if step != 0]
    if None in steps.values() or not _is_within_bounds(node, columns):
        return None
    if array.ndim == 2 and not (
        len(varying_axes) <= 1 and _keeps_axis_position(node, varying_axes)
    ):
        return None
    starts = tuple(int(columns[i][0]) if i in columns else 0 for i in range(x.rank))
    last_indices = [int(columns[i][-1]) if i in columns else 0 for i in range(x.rank)]
    limits = tuple(dims.as_dim(at + size) for at, size in zip(last_indices, sizes, strict=True))
    strides = tuple(steps.get(i) or 1 for i in range(x.rank))
    shape = tuple(len(columns[i]) if i in varying_axes else size for i, size in enumerate(sizes))
    params = {"start_indices": starts, "limit_indices": limits, "strides": strides}
    return editor.reshape(editor.add(ops.slice, [x], shape, x.dtype, params), node.out.shape)


def _constant_step(column: np.ndarray) -> int | None:
    """Return the positive difference between consecutive numbers, if it is always the same.

    Return 0 if all numbers are equal or if there is only one, and None for other numbers.
    """
    steps = np.diff(column.astype(np.int64))
    if not steps.size or not steps.any():
        return 0
    return int(steps[0]) if steps[0] > 0 and (steps == steps[0]).all() else None


def _is_within_bounds(node: Node, columns: dict[int, np.ndarray]) -> bool:
    """Return True if all slices that a gather with constant indices reads lie within its operand.

    No index may be negative. An index plus the size of the slice may be at most the size of the
    operand along that axis. If one of these sizes is a named dimension, they are not compared, and
    the gather must promise that its indices are within bounds (mode ``promise_in_bounds``).

    ``columns`` contains the indices along each indexed axis of the operand, by axis.
    """
    if any(column.min() < 0 for column in columns.values()):
        return False
    mode = lax.GatherScatterMode.from_any(node.params["mode"])
    promised = mode == lax.GatherScatterMode.PROMISE_IN_BOUNDS
    shape, sizes = node.inputs[0].shape, node.params["slice_sizes"]
    return all(
        column.max() + sizes[i] <= shape[i] if dims.all_static((shape[i], sizes[i])) else promised
        for i, column in columns.items()
    )


def _keeps_axis_position(node: Node, varying_axes: list[int]) -> bool:
    """Return True if a gather keeps the position of the axis along which its indices differ.

    The position is that among the other axes. ``varying_axes`` contains this axis, or no axis.
    Return False if there is none, or if each index reads more than one element along it. An axis of
    size one that the gather keeps for these elements is ignored.
    """
    numbers, sizes = node.params["dimension_numbers"], node.params["slice_sizes"]
    if not varying_axes or sizes[varying_axes[0]] != 1:
        return False
    kept_axes = iter([i for i in range(len(sizes)) if i not in numbers.collapsed_slice_dims])
    order = [next(kept_axes) if i in numbers.offset_dims else None for i in range(node.out.rank)]
    axes = [varying_axes[0] if i is None else i for i in order if i != varying_axes[0]]
    return axes == sorted(axes)


RULES: dict[Op, Rule] = {
    ops.slice: _canonicalize_slice,
    ops.split: _split,
    ops.stack: _stack,
    ops.unstack: _unstack,
    ops.concatenate: _canonicalize_concatenate,
    ops.pad: _pad,
    ops.gather: _gather_to_slice,
}
