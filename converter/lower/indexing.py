"""Lower gathers, scatters and dynamic slices.

All indices are already within bounds (``legalize/bounds.py``).

The update of a cache along one axis is lowered to ``TensorScatter`` if the opset has this operator.
It copies the cache once, whereas slices around the update copy it twice. ``TensorScatter`` raises
an error if the update does not fit into the cache, so the index is clamped first, as in JAX. The
first axis of ``TensorScatter`` is a batch axis with one index for each entry. If there is a single
index, a batch of one is used.

A cache that grows is still lowered to ``Concat``. This takes 0.94 to 0.99 of the time of an
``Attention`` with inputs for the past keys and values. Other runtimes support only one output of
``Attention``.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from converter.ir import dims, ops
from converter.ir.dims import Dim, Shape
from converter.ir.ranges import known_range
from converter.ir.windows import scatter_window
from converter.lower.builder import Builder
from converter.lower.lowerings import lowers
from converter.lower.reduce import uncast_position
from converter.targets.schemas import SINCE

# These parameters are ignored, because the bounds pass has already applied them.
IN_BOUNDS = ("mode", "fill_value")

MIN_FLAT_ENTRIES = 256
"""Number of entries from which on two reshapes are worth their cost."""


@lowers(ops.take)
def _(b: Builder, x: ir.Value, indices: ir.Value, *, axis: int) -> ir.Value:
    """Lower a take along an axis. If many entries of a vector are taken, they are gathered as
    single elements.

    ``Gather`` copies each entry as a slice, which takes ten times as long in ONNX Runtime.
    """
    needs_cast, index_shape = b.operand(1).dtype not in (np.int32, np.int64), b.operand(1).shape
    indices = b.cast(indices, np.int64) if needs_cast else uncast_position(indices)
    if b.operand().rank != 1 or not dims.is_at_least(
        dims.size_product(index_shape), MIN_FLAT_ENTRIES
    ):
        return b.op("Gather", x, indices, axis=axis)
    flat_shape = (dims.size_product(index_shape),)
    entries = b.op("GatherElements", x, b.reshape(indices, index_shape, flat_shape), axis=0)
    return b.reshape(entries, flat_shape, index_shape)


# ----------------------------------------------------------------------------------------- gather


@lowers(ops.gather, ignores=IN_BOUNDS)
def _(
    b: Builder, x: ir.Value, indices: ir.Value, *, dimension_numbers: Any, slice_sizes: Shape
) -> ir.Value:
    """Lower a gather to ``GatherND`` on an operand [batching axes, indexed axes, other axes].

    If a window has more than one entry along an indexed axis, further index vectors are added for
    these entries. The result of ``GatherND`` is [batching axes, other axes of the indices, window
    axes, other axes of the operand].
    """
    n, rank = dimension_numbers, b.operand().rank
    shared, indexed_axes = n.operand_batching_dims, n.start_index_map
    long_window_axes = [d for d in indexed_axes if not dims.is_same_dim(slice_sizes[d], 1)]
    full_axes = [d for d in range(rank) if d not in (*shared, *indexed_axes)]
    partial_axes = [d for d in _partial_axes(slice_sizes, b.operand().shape) if d in full_axes]
    if partial_axes:
        # The window is smaller than the operand along some axes that are not indexed.
        ends = b.ints(tuple(slice_sizes[d] for d in partial_axes))
        x = b.op("Slice", x, b.ints([0] * len(partial_axes)), ends, b.ints(partial_axes))
    before = b.operand(1).rank - 1
    free = [i for i in range(before) if i not in n.start_indices_batching_dims]
    order = [*n.start_indices_batching_dims, *free]
    batch = tuple(b.operand(1).shape[i] for i in order)
    indices = b.transpose(b.cast(indices, np.int64), [*order, before])
    offsets = [
        (before + i, slice_sizes[d], indexed_axes.index(d)) for i, d in enumerate(long_window_axes)
    ]
    indices = _add_window_offsets(b, indices, batch, offsets, len(indexed_axes))
    x = b.transpose(x, [*shared, *indexed_axes, *full_axes])
    if indexed_axes:
        x = b.op("GatherND", x, indices, batch_dims=len(shared) or None)
    else:
        ones = (*batch[: len(shared)], *(1 for _ in free), *(slice_sizes[d] for d in full_axes))
        sizes = tuple(slice_sizes[d] for d in full_axes)
        x = b.expand(b.reshape(x, (*batch[: len(shared)], *sizes), ones), ones, (*batch, *sizes))
    computed = [
        *(("index", i) for i in order),
        *(("axis", d) for d in (*long_window_axes, *full_axes)),
    ]
    result_axes = _gather_result_axes(n, b.out.rank, rank, before)
    dropped_axes = [a for a in computed if a not in result_axes]
    x = b.transpose(
        x, [computed.index(a) for a in (*(a for a in result_axes if a in computed), *dropped_axes)]
    )
    result_sizes = [b.out.shape[i] for i, a in enumerate(result_axes) if a in computed]
    return b.reshape(x, (*result_sizes, *(1 for _ in dropped_axes)), b.out.shape)


def _gather_result_axes(n: Any, rank: int, operand_rank: int, before: int) -> list[tuple[str, int]]:
    """Return the source of each axis of a gather's result: ("index", axis) or ("axis", axis of the
    operand).

    ``n`` are JAX's dimension numbers, ``rank`` is that of the result, and ``before`` is the number
    of axes of the indices before the last.
    """
    removed_axes = (*n.collapsed_slice_dims, *n.operand_batching_dims)
    axes = iter(d for d in range(operand_rank) if d not in removed_axes)
    batch = iter(range(before))
    return [
        ("axis", next(axes)) if i in n.offset_dims else ("index", next(batch)) for i in range(rank)
    ]


def _partial_axes(sizes: Shape, shape: Shape) -> list[int]:
    """Return the axes along which the window (``sizes``) is smaller than the operand
    (``shape``)."""
    return [d for d in range(len(shape)) if not dims.is_same_dim(sizes[d], shape[d])]


def _add_window_offsets(
    b: Builder,
    indices: ir.Value,
    index_shape: Shape,
    offsets: Sequence[tuple[int, Dim, int]],
    columns: int,
) -> ir.Value:
    """Return the index vectors [index_shape…, columns] with the offsets of the windows added.

    ``columns`` is the length of an index vector. An offset (axis, size, column) adds 0 to size - 1
    along an axis of the result to one component of the vectors.
    """
    if not offsets:
        return indices
    rank = max(len(index_shape), 1 + max(axis for axis, _, _ in offsets))
    aligned = (*index_shape, *(1 for _ in range(rank - len(index_shape))), columns)
    indices = b.reshape(indices, (*index_shape, columns), aligned)
    constant_offsets = np.zeros((1,) * (rank + 1), np.int64)
    for axis, size, column in offsets:
        unit = np.eye(columns, dtype=np.int64)[column]
        if dims.is_static(size):
            constant_offsets = (
                constant_offsets + np.arange(size).reshape(-1, *(1,) * (rank - axis)) * unit
            )
        else:
            column_shape = (size, *(1 for _ in range(rank - axis)))
            step = b.op("Mul", b.reshape(b.range(size), (size,), column_shape), b.const(unit))
            indices = b.op("Add", indices, step)
    return b.op("Add", indices, b.const(constant_offsets)) if constant_offsets.any() else indices


# ---------------------------------------------------------------------------------------- scatter


@lowers(ops.scatter, ops.scatter_add, ops.scatter_mul, ignores=IN_BOUNDS)
@lowers(ops.scatter_max, ops.scatter_min, since=18, ignores=IN_BOUNDS)
def scatter(
    b: Builder, x: ir.Value, indices: ir.Value, updates: ir.Value, *, dimension_numbers: Any
) -> ir.Value:
    """Lower a scatter to ``ScatterND`` on an operand [indexed axes, other axes].

    Axes along which the window is smaller than the operand are also indexed.
    """
    n, shape, rank = dimension_numbers, b.operand().shape, b.operand().rank
    if not rank and b.operand(1).rank > 1:
        return _scatter_to_scalar(b, x, updates)
    reduction = _scatter_reduction(b)
    sizes = scatter_window(n, rank, b.operand(2).shape)
    shared, addressed_axes = n.operand_batching_dims, n.scatter_dims_to_operand_dims
    partial_axes = [d for d in _partial_axes(sizes, shape) if d not in (*shared, *addressed_axes)]
    index_shape = b.operand(1).shape[:-1]
    if index_shape and not (addressed_axes or shared or partial_axes):
        # There are several windows, and each of them covers the whole operand.
        partial_axes = [0]
    indexed_axes = [*addressed_axes, *shared, *partial_axes]
    full_axes = [d for d in range(rank) if d not in indexed_axes]
    window_axes = [d for d in (*addressed_axes, *partial_axes) if not dims.is_same_dim(sizes[d], 1)]
    before = len(index_shape)
    offsets = [(before + i, sizes[d], indexed_axes.index(d)) for i, d in enumerate(window_axes)]
    offsets += [
        (i, index_shape[i], indexed_axes.index(d))
        for i, d in zip(n.scatter_indices_batching_dims, shared, strict=True)
    ]
    updates = arrange_updates(b, updates, n, rank, [*window_axes, *full_axes], sizes)
    if not indexed_axes:
        # If no axis is indexed, there is one window, which is as large as the operand.
        return updates if reduction is None else b.op(reduction.capitalize(), x, updates)
    indices = _pad_index_vectors(
        b, b.cast(indices, np.int64), index_shape, len(addressed_axes), len(indexed_axes)
    )
    indices = _add_window_offsets(b, indices, index_shape, offsets, len(indexed_axes))
    order = [*indexed_axes, *full_axes]
    result = b.op("ScatterND", b.transpose(x, order), indices, updates, reduction=reduction)
    return b.transpose(result, [order.index(d) for d in range(rank)])


def _scatter_reduction(b: Builder) -> str | None:
    """Return the attribute ``reduction`` of ``ScatterND``: ``add``, ``mul``, ``max`` or ``min``, or
    None to overwrite.

    It is the end of the operation's name, such as ``scatter-add``.
    """
    return b.node.op.name.partition("-")[2] or None


def _scatter_to_scalar(b: Builder, x: ir.Value, updates: ir.Value) -> ir.Value:
    """Return a scalar ``x`` into which many updates are scattered, by a scatter into a vector of
    one entry."""
    index_shape = b.operand(2).shape
    zeros = b.expand(b.const(0, np.int64), (), (*index_shape, 1))
    vector = b.unsqueeze(x, [0])
    result = b.op("ScatterND", vector, zeros, updates, reduction=_scatter_reduction(b))
    return b.squeeze(result, [0])


def arrange_updates(
    b: Builder, updates: ir.Value, n: Any, rank: int, axes: Sequence[int], sizes: Shape
) -> ir.Value:
    """Return the updates of a scatter as [axes of the indices, then ``axes`` of the operand].

    ``n`` are JAX's dimension numbers, ``rank`` is that of the operand, and ``sizes`` contains the
    window's size along each of its axes. The other axes of the operand have windows of size one and
    are dropped.
    """
    value = b.operand(2)
    removed_axes = (*n.inserted_window_dims, *n.operand_batching_dims)
    window = dict(
        zip((d for d in range(rank) if d not in removed_axes), n.update_window_dims, strict=True)
    )
    index_axes = [i for i in range(value.rank) if i not in n.update_window_dims]
    ones = [i for d, i in window.items() if d not in axes]
    order = [*index_axes, *ones, *(window[d] for d in axes if d in window)]
    transposed = b.transpose(updates, order)
    arranged_shape = (*(value.shape[i] for i in index_axes), *(sizes[d] for d in axes))
    return b.reshape(transposed, tuple(value.shape[i] for i in order), arranged_shape)


def _pad_index_vectors(
    b: Builder, indices: ir.Value, index_shape: Shape, present: int, columns: int
) -> ir.Value:
    """Return index vectors of length ``columns``, with zeros after the ``present`` components."""
    if present == columns:
        return indices
    if present == 0:
        return b.expand(b.const(0, np.int64), (), (*index_shape, columns))
    pads = [0] * (2 * len(index_shape) + 1) + [columns - present]
    return b.op("Pad", indices, b.ints(pads), b.const(0, np.int64))


# --------------------------------------------------------------------------------- dynamic slices


@lowers(ops.dynamic_slice)
def _(b: Builder, x: ir.Value, *starts: ir.Value, slice_sizes: Shape) -> ir.Value:
    """Lower a dynamic slice to ``Slice``, with clamped starts, along the axes on which it is
    shorter than ``x``."""
    axes = _partial_axes(slice_sizes, b.operand().shape)
    if not axes:
        return x
    first = _clamp_starts(b, starts, axes, slice_sizes)
    after = b.op("Add", first, b.ints(tuple(slice_sizes[d] for d in axes)))
    return b.op("Slice", x, first, after, b.ints(axes))


def _clamp_starts(
    b: Builder, starts: Sequence[ir.Value], axes: Sequence[int], sizes: Shape
) -> ir.Value:
    """Return the starts along ``axes`` as one int64 vector, clamped so that the slice fits.

    ``starts`` has a scalar for each axis of the operand, ``sizes`` the size of the slice along
    each. Starts that are known to fit are not clamped.
    """
    single = [b.unsqueeze(b.cast(starts[d], np.int64), [0]) for d in axes]
    joined = b.op("Concat", *single, axis=0) if len(single) > 1 else single[0]
    limits = tuple(dims.as_dim(b.operand().shape[d] - sizes[d]) for d in axes)
    start_values = b.node.inputs[-len(starts) :]
    pairs = zip(axes, limits, strict=True)
    if all(
        dims.is_static(largest_start) and known_range(start_values[d]).within(0, largest_start)
        for d, largest_start in pairs
    ):
        return joined
    return b.op("Max", b.op("Min", joined, b.ints(limits)), b.ints([0]))


def _update_slice(
    b: Builder,
    x: ir.Value,
    update: ir.Value,
    *starts: ir.Value,
    emit_update: Callable[..., ir.Value],
) -> ir.Value:
    """Lower a dynamic update slice.

    ``starts`` has a scalar for each axis. If the update is as large as ``x``, it is the result. If
    it is smaller along one axis, ``emit_update(b, x, update, index [1], axis)`` emits the result.
    If it is smaller along several axes, it is scattered.
    """
    axes = _partial_axes(b.operand(1).shape, b.operand().shape)
    if not axes:
        return update
    first = _clamp_starts(b, starts, axes, b.operand(1).shape)
    if len(axes) > 1:
        return _scatter_window(b, x, update, first, axes)
    return emit_update(b, x, update, first, axes[0])


def _concatenate_around(
    b: Builder, x: ir.Value, update: ir.Value, first: ir.Value, axis: int
) -> ir.Value:
    """Write an update along one axis: concatenate the part before it, the update and the part after
    it.

    ``first`` [1] is the start. A single row along the first axis is scattered instead.
    """
    if axis == 0 and dims.is_same_dim(b.operand(1).shape[0], 1):
        return b.op("ScatterND", x, b.unsqueeze(first, [0]), update)
    after = b.op("Add", first, b.ints([b.operand(1).shape[axis]]))
    head = b.op("Slice", x, b.ints([0]), first, b.ints([axis]))
    tail = b.op("Slice", x, after, b.ints([np.iinfo(np.int64).max]), b.ints([axis]))
    return b.op("Concat", head, update, tail, axis=axis)


def _scatter_window(
    b: Builder, x: ir.Value, update: ir.Value, first: ir.Value, axes: Sequence[int]
) -> ir.Value:
    """Emit one ``ScatterND`` that writes an update along several axes.

    ``first`` has the start along each of ``axes``. The index vectors are the start plus all offsets
    within the update.
    """
    shape, sizes = b.operand(0).shape, b.operand(1).shape
    offsets = [(i, sizes[d], i) for i, d in enumerate(axes)]
    corner = b.reshape(first, (len(axes),), (*(1 for _ in axes), len(axes)))
    indices = _add_window_offsets(b, corner, (1,) * len(axes), offsets, len(axes))
    order = [*axes, *(d for d in range(len(shape)) if d not in axes)]
    result = b.op("ScatterND", b.transpose(x, order), indices, b.transpose(update, order))
    return b.transpose(result, [order.index(d) for d in range(len(shape))])


# ----------------------------------------------------------------------------------------- caches


@lowers(ops.scatter, since=SINCE["TensorScatter"], ignores=IN_BOUNDS)
def _(
    b: Builder, x: ir.Value, indices: ir.Value, updates: ir.Value, *, dimension_numbers: Any
) -> ir.Value:
    """Lower a scatter of one window, or of one window for each entry of the first axis, to
    ``TensorScatter``.

    The second form is the result of ``vmap`` over the update of a slice. Other scatters are lowered
    to ``ScatterND``. Along the first axis ``ScatterND`` is equally fast, but along other axes it
    needs transposes.
    """
    n, shape, index_shape = dimension_numbers, b.operand().shape, b.operand(1).shape[:-1]
    addressed_axes, batch_axes = n.scatter_dims_to_operand_dims, n.operand_batching_dims
    sizes = scatter_window(n, len(shape), b.operand(2).shape)
    full_axes = [d for d in range(len(shape)) if d not in batch_axes]
    covers_window = all(
        d in addressed_axes or dims.is_same_dim(sizes[d], shape[d]) for d in full_axes
    )
    if (
        len(addressed_axes) != 1
        or addressed_axes == (0,)
        or batch_axes != (0,) * len(index_shape)
        or not covers_window
    ):
        return scatter(b, x, indices, updates, dimension_numbers=n)
    updates = arrange_updates(b, updates, n, len(shape), full_axes, sizes)
    index = b.cast(b.reshape(indices, (*index_shape, 1), index_shape or (1,)), np.int64)
    if not batch_axes:
        return _update_cache(b, x, updates, index, addressed_axes[0])
    return b.op("TensorScatter", x, updates, index, axis=addressed_axes[0])


def _update_cache(
    b: Builder, x: ir.Value, update: ir.Value, index: ir.Value, axis: int
) -> ir.Value:
    """Emit a ``TensorScatter`` that writes ``update`` along ``axis`` from ``index`` [1] on, for the
    whole batch."""
    batch = b.out.shape[0]
    if axis and dims.is_static(batch):
        return b.op("TensorScatter", x, update, b.expand(index, (1,), (batch,)), axis=axis)
    x, update = (b.unsqueeze(v, [0]) for v in (x, update))
    return b.squeeze(b.op("TensorScatter", x, update, index, axis=axis + 1), [0])


lowers(ops.dynamic_update_slice)(partial(_update_slice, emit_update=_concatenate_around))
lowers(ops.dynamic_update_slice, since=SINCE["TensorScatter"])(
    partial(_update_slice, emit_update=_update_cache)
)
