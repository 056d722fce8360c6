"""Rewrite scatters at known indices that together overwrite a part of an array as a concatenation.

    zeros.at[..., :n].set(a).at[..., n:].set(b)        = concatenate([a, b])
    zeros.at[..., ::2].set(a).at[..., 1::2].set(b)     = reshape(stack([a, b], -1))

Rotary embeddings are written in this way. Elements of the array that scatters overwrite are not
read.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from converter.ir import Node, Value, dims, ops
from converter.ir.axes import View, view_of
from converter.ir.dims import Dim
from converter.ir.moves import (
    emit_view,
    look_through,
    view_of_concatenated_operand,
)
from converter.ir.rewrite import Editor
from converter.ir.scalars import scalar
from converter.ir.windows import scatter_window


@dataclass(frozen=True)
class KnownUpdate:
    """Elements of an axis that a scatter overwrites.

    They are ``count`` elements from ``start`` on, each ``step`` after the one before. ``updates``
    is a view of the new values along the axes of the array.
    """

    axis: int
    start: int
    count: int
    step: int
    updates: View


Source: TypeAlias = View | tuple[View, View]
"""The elements of a part: a view along the axes of the array, or two whose elements alternate."""


@dataclass(frozen=True)
class Part:
    """Consecutive elements of an axis. ``size`` is their number.

    ``source`` is a view of their values along the axes of the array. If it is a pair of views,
    their elements alternate.
    """

    size: int
    source: Source


MAX_PARTS = 8


def join_updates(node: Node, editor: Editor) -> Value | None:
    """Rewrite a chain of scatters that overwrite parts of an array as the concatenation of the
    parts.

    ``node`` is the last scatter of the chain. It overwrites consecutive elements of an axis, or
    every second one, at constant indices.

    Return the concatenation, or the part if there is only one. Return None in these cases:

    - The indices are of another kind.
    - Joining does not pay off for the array that the scatter writes to (`_continues_chain`).
    - The size of the axis is symbolic.
    - The scatters overlap in a way that cannot be split into parts.
    - There are more than `MAX_PARTS` parts.
    - A part has elements of several operands of a concatenation.
    """
    update = known_update(node)
    if update is None or not dims.is_static(node.out.shape[update.axis]):
        return None
    parts = _find_parts(node.out, update.axis)
    if not _continues_chain(node, update) or parts is None or len(parts) > MAX_PARTS:
        return None
    if any(
        _spans_several_operands(piece.source) for piece in parts if isinstance(piece.source, View)
    ):
        return None
    shape, axis = node.out.shape, update.axis
    values = [_emit_part(editor, piece, shape, axis, node.out.dtype) for piece in parts]
    return values[0] if len(values) == 1 else editor.concatenate(values, axis)


def _continues_chain(node: Node, update: KnownUpdate) -> bool:
    """Return True if joining a scatter with the computation of its array saves an operation.

    The array must be one number everywhere, a concatenation along the axis of the update, a reshape
    that interleaves two arrays, or the result of a scatter along the same axis at constant indices.

    Arguments:
        node: the scatter.
        update: the elements that it overwrites.
    """
    source = node.inputs[0]
    inner = source.producer_if(ops.scatter)
    inner_update = None if inner is None else known_update(inner)
    joined = source.producer_if(ops.concatenate)
    return (
        scalar(source) is not None
        or _is_interleaved(source)
        or (joined is not None and joined.params["dimension"] == update.axis)
        or (inner_update is not None and inner_update.axis == update.axis)
    )


def _is_interleaved(value: Value) -> bool:
    """Return True for a reshape that interleaves two arrays.

    Its operand is their concatenation along an axis of size two.
    """
    merged = value.producer_if(ops.reshape)
    joined = None if merged is None else merged.inputs[0].producer_if(ops.concatenate)
    return joined is not None and dims.is_same_dim(joined.out.shape[joined.params["dimension"]], 2)


# ------------------------------------------------------------------------------------ one scatter


def known_update(node: Node) -> KnownUpdate | None:
    """Return the elements of an axis that a scatter with constant indices overwrites.

    Return None if the indices are not constant, if a window is not within the array, or if the
    elements are neither consecutive along one axis nor every second one.
    """
    x, indices, updates = node.inputs
    numbers, array = node.params["dimension_numbers"], indices.const
    if not isinstance(array, np.ndarray) or numbers.operand_batching_dims or 0 in array.shape:
        return None
    vectors = array.reshape(-1, array.shape[-1]).astype(np.int64) if array.ndim else array
    if not 0 < array.ndim <= 2 or vectors.shape[1] != len(numbers.scatter_dims_to_operand_dims):
        return None
    window = scatter_window(numbers, x.rank, updates.shape)
    partial = [i for i in range(x.rank) if not dims.is_same_dim(window[i], x.shape[i])]
    if len(partial) != 1 or not dims.all_static((window[partial[0]], x.shape[partial[0]])):
        return None
    (axis,) = partial
    columns = dict(zip(numbers.scatter_dims_to_operand_dims, vectors.T, strict=True))
    if axis not in columns or any(column.any() for a, column in columns.items() if a != axis):
        return None
    return _update_along_axis(node, axis, columns[axis], window[axis])


def _update_along_axis(node: Node, axis: int, column: np.ndarray, size: Dim) -> KnownUpdate | None:
    """Return the elements of an axis that a scatter overwrites, or None.

    Return None for several windows unless these are single elements, each 1 or 2 after the one
    before, and for windows that are not within the array.

    Arguments:
        node: the scatter.
        axis: the only axis along which windows are shorter than the array.
        column: the first position of each window along the axis.
        size: the size of a window along the axis.
    """
    x, _, updates = node.inputs
    numbers, start, count = node.params["dimension_numbers"], int(column[0]), len(column)
    steps = np.diff(column)
    step = int(steps[0]) if count > 1 else 1
    if count > 1 and not (dims.is_same_dim(size, 1) and step in (1, 2) and (steps == step).all()):
        return None
    length = count if count > 1 else int(size)
    if start < 0 or start + (length - 1) * step >= x.shape[axis]:
        return None
    window_axes = [i for i in range(x.rank) if i not in numbers.inserted_window_dims]
    axes: list[int | None] = [None] * x.rank
    for position, a in zip(numbers.update_window_dims, window_axes, strict=True):
        axes[a] = position
    if count > 1:
        (axes[axis],) = (i for i in range(updates.rank) if i not in numbers.update_window_dims)
    return KnownUpdate(axis, start, length, step, view_of(updates, axes))


# ------------------------------------------------------------------------------------------ parts


def _find_parts(value: Value, axis: int) -> list[Part] | None:
    """Return the parts of an array along an axis, in order.

    The parts are the updates of scatters at constant indices, and the elements of the original
    array that no scatter overwrites. An array that is not written by scatters is one part. Return
    None if scatters overlap in a way that cannot be split into parts.
    """
    size = int(value.shape[axis])
    node = value.producer_if(ops.scatter)
    update = None if node is None else known_update(node)
    if node is None or update is None or update.axis != axis:
        return [Part(size, view_of(value))]
    if update.step == 1:
        parts = _find_parts(node.inputs[0], axis)
        return _insert_part(parts, axis, update.start, Part(update.count, update.updates))
    return _alternating_parts(node, update)


def _alternating_parts(node: Node, update: KnownUpdate) -> list[Part] | None:
    """Return all parts of an array if a scatter overwrites every second element of it, or None.

    The elements between them must be overwritten by another such scatter, or be of one operand of a
    concatenation, or be one number.

    Arguments:
        node: the scatter that computes the array.
        update: the elements that it overwrites.
    """
    source, axis = node.inputs[0], update.axis
    start, count = update.start - update.start % 2, update.count
    is_first = update.start == start
    if start + 2 * count > source.shape[axis]:
        return None
    inner = source.producer_if(ops.scatter)
    other = None if inner is None else known_update(inner)
    if inner is not None and other is not None:
        expected = (axis, start + int(is_first), count, 2)
        if (other.axis, other.start, other.count, other.step) != expected:
            return None
        half, remaining = other.updates, inner.inputs[0]
    else:
        cut = view_of(source).slice_axis(axis, start + int(is_first), count, 2)
        if cut is None or not (scalar(source) is not None or _is_in_concatenation(cut)):
            return None
        half, remaining = cut, source
    halves = (update.updates, half) if is_first else (half, update.updates)
    return _insert_part(_find_parts(remaining, axis), axis, start, Part(2 * count, halves))


def _is_in_concatenation(view: View) -> bool:
    """Return True if all elements of a view are of one operand of a concatenation.

    Operations that only move elements may be in between.
    """
    return view_of_concatenated_operand(_origin(view)) is not None


def _spans_several_operands(view: View) -> bool:
    """Return True if a view has elements of several operands of a concatenation.

    A chain of many updates would otherwise become slices of concatenations of slices.
    """
    view = _origin(view)
    return view.op() is ops.concatenate and view_of_concatenated_operand(view) is None


def _origin(view: View) -> View:
    """Return the same elements as a view of the value before all operations that only move them."""
    return look_through(view, conversions="none", reach="elements")


def _insert_part(parts: list[Part] | None, axis: int, start: int, new: Part) -> list[Part] | None:
    """Return the parts with ``new`` in place of the elements from ``start`` on.

    Return None if ``parts`` is None, or if ``new`` overlaps with a part that cannot be cut there,
    such as one whose elements alternate.

    Arguments:
        parts: the parts of an array along ``axis``, in order.
        start: the position of the first replaced element in the array.
    """
    result: list[Part] = []
    end, offset = start + new.size, 0
    for piece in parts or ():
        size_before, size_after = start - offset, offset + piece.size - end
        if size_before > 0:
            result.append(
                piece if size_before >= piece.size else _cut_part(piece, axis, 0, size_before)
            )
        if size_before < piece.size and offset <= start:
            result.append(new)
        if size_after > 0:
            is_uncut = size_after >= piece.size
            result.append(
                piece if is_uncut else _cut_part(piece, axis, piece.size - size_after, size_after)
            )
        offset += piece.size
    sizes = [piece.size for piece in result]
    return None if parts is None or 0 in sizes else result


def _cut_part(piece: Part, axis: int, start: int, size: int) -> Part:
    """Return ``size`` elements along ``axis`` of the part ``piece``, from its element ``start`` on.

    If the elements of ``piece`` alternate between two views, or if no view expresses the cut
    elements, return a part of size zero. It means failure.
    """
    cut = piece.source.slice_axis(axis, start, size) if isinstance(piece.source, View) else None
    return Part(0, piece.source) if cut is None else Part(size, cut)


# ---------------------------------------------------------------------------------------- writing


def _emit_part(editor: Editor, piece: Part, shape: dims.Shape, axis: int, dtype: np.dtype) -> Value:
    """Emit the operations that compute a part of an array, and return its value.

    Alternating elements are concatenated on a new axis, which is merged with ``axis``.

    Arguments:
        editor: gets the new nodes.
        piece: the part.
        shape: the shape of the full array.
        axis: the axis along which the part is shorter.
        dtype: the dtype of the array.
    """
    part_shape = (*shape[:axis], piece.size, *shape[axis + 1 :])
    if isinstance(piece.source, View):
        return emit_view(
            editor, look_through(piece.source, conversions="none", reach="parts"), part_shape, dtype
        )
    count = piece.size // 2
    half = (*shape[:axis], count, *shape[axis + 1 :])
    single = (*shape[:axis], count, 1, *shape[axis + 1 :])
    halves = [
        emit_view(editor, look_through(source, conversions="none", reach="parts"), half, dtype)
        for source in piece.source
    ]
    broadcast_halves = [editor.broadcast(v, half, tuple(range(len(half)))) for v in halves]
    pairs = editor.concatenate([editor.reshape(v, single) for v in broadcast_halves], axis + 1)
    return editor.reshape(pairs, part_shape)
