"""Apply JAX's rules for out-of-bounds indices, so that all indices are within bounds afterwards.

``clip`` moves a window inside the operand. ``fill_or_drop`` reads a fill value for a gather out of
bounds, and drops a scatter out of bounds. ONNX has neither of these modes, and in ONNX negative
indices count from the end.

With ``promise_in_bounds`` the result is undefined if an index is out of bounds. XLA then clips the
indices of a gather and drops the updates of a scatter. In a strict conversion this pass does the
same. Otherwise it does so in three cases: the indices are known, a window is larger than one entry,
or the program itself expects indices out of bounds (``promises``). In all other cases the promise
is accepted and listed in the report.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
from jax import lax

from converter.ir import Graph, Node, Value, const, dims, ops
from converter.ir.dims import Dim, Shape
from converter.ir.op import Op
from converter.ir.ranges import known_range
from converter.ir.rewrite import Editor, Rule
from converter.ir.windows import find_indexed_axes, scatter_window
from converter.layout.convolution import pad_space
from converter.legalize.promises import unreliable_promises

Mode = lax.GatherScatterMode

PromiseTest: TypeAlias = Callable[[Node, tuple[int, ...], list[Dim], Shape], bool]
"""Return True if the promise of a node is accepted, given the indexed axes, their limits and the
sizes of the windows."""


UNCHECKED_TEXT = (
    "indices are taken to be within bounds, as plain indexing promises; others stop the run or, "
    "if negative, count from the end"
)


def bounds_rules(graph: Graph, strict: bool, notes: dict[str, list[Node]]) -> dict[Op, Rule]:
    """Return the rules that bring the indices of gathers, scatters and dynamic slices within
    bounds.

    A gather or scatter with the mode ``promise_in_bounds`` is kept if this promise is accepted. In
    a strict conversion it is accepted only with a proof.

    Arguments:
        graph: the graph to which the rules will be applied.
        strict: whether the conversion is strict.
        notes: the nodes for the report, by the sentence that describes them. A node is added if its
            promise is accepted without a proof.
    """
    doubts = unreliable_promises(graph) if not strict else None

    def accepts_promise(
        node: Node, axes: tuple[int, ...], limits: list[Dim], window: Shape
    ) -> bool:
        """Return True if the indices of a node are known to be within bounds, or if its promise is
        accepted without a proof."""
        if _has_wide_windows(window, axes):
            return False
        is_kept = _is_promise_kept(node.inputs[1], limits)
        is_open = not (node.inputs[1].kind == "const" and dims.all_static(limits))
        is_believed = not is_kept and is_open and doubts is not None and id(node) not in doubts
        if is_believed:
            notes.setdefault(UNCHECKED_TEXT, []).append(node)
        return is_kept or is_believed

    return {
        **dict.fromkeys(ops.SCATTERS, partial(_legalize_scatter, accepts_promise=accepts_promise)),
        ops.gather: partial(_legalize_gather, accepts_promise=accepts_promise),
        ops.dynamic_slice: _legalize_dynamic_slice,
    }


def _legalize_gather(node: Node, editor: Editor, accepts_promise: PromiseTest) -> Value | None:
    """Return a gather whose indices are within bounds.

    Indices are clamped. In the mode ``fill_or_drop``, slices whose index was out of bounds become
    the fill value. Return None, so that the gather is kept, if ``accepts_promise`` accepts its mode
    ``promise_in_bounds``.
    """
    x, indices = node.inputs
    numbers, mode = node.params["dimension_numbers"], Mode.from_any(node.params["mode"])
    axes, limits = find_indexed_axes(node)
    if mode == Mode.PROMISE_IN_BOUNDS:
        if accepts_promise(node, axes, limits, node.params["slice_sizes"]):
            return None
        mode = Mode.CLIP
    if mode == Mode.CLIP:
        indices, limits, axes = _nonzero_components(editor, indices, limits, axes)
        numbers = numbers._replace(start_index_map=axes)
    clamped = _clamp_indices(editor, indices, limits)
    changes = {"dimension_numbers": numbers, "mode": Mode.PROMISE_IN_BOUNDS, "fill_value": None}
    out = editor.copy_with_operands(node, [x, clamped], **changes)
    if mode == Mode.CLIP or clamped is indices:
        return out
    batch = [i for i in range(out.rank) if i not in numbers.offset_dims]
    are_unchanged = editor.broadcast(_are_unchanged(editor, indices, clamped), out.shape, batch)
    filler = const(node.params["fill_value"], out.dtype)
    other = editor.broadcast(filler, out.shape, ())
    return editor.where(are_unchanged, out, other)


def _has_wide_windows(window: Shape, axes: Sequence[int]) -> bool:
    """Return True if windows have more than one entry along an axis that indices address."""
    return any(not dims.is_same_dim(window[axis], 1) for axis in axes)


def _legalize_scatter(node: Node, editor: Editor, accepts_promise: PromiseTest) -> Value | None:
    """Return a scatter whose indices are within bounds.

    In the mode ``clip`` indices are clamped. In the other modes windows out of bounds are dropped:
    they are written to appended rows, which are cut off again. Return None, so that the scatter is
    kept, if ``accepts_promise`` accepts its mode ``promise_in_bounds``.
    """
    x, indices, updates = node.inputs
    numbers, mode = node.params["dimension_numbers"], Mode.from_any(node.params["mode"])
    axes, limits = find_indexed_axes(node)
    window = scatter_window(numbers, x.rank, updates.shape)
    if mode == Mode.PROMISE_IN_BOUNDS and accepts_promise(node, axes, limits, window):
        return None
    if mode == Mode.CLIP:
        indices, limits, axes = _nonzero_components(editor, indices, limits, axes)
        numbers = numbers._replace(scatter_dims_to_operand_dims=axes)
    clamped = _clamp_indices(editor, indices, limits)
    changes = {"dimension_numbers": numbers, "mode": Mode.PROMISE_IN_BOUNDS}
    if mode == Mode.CLIP or clamped is indices:
        return editor.copy_with_operands(node, [x, clamped, updates], **changes)
    axis = axes[0]
    padding = tuple((0, window[axis] if i == axis else 0) for i in range(x.rank))
    padded = pad_space(editor, x, padding, (1,) * x.rank, first=0)
    redirected = _replace_out_of_bounds(editor, indices, clamped, x.shape[axis])
    out = editor.copy_with_operands(node, [padded, redirected, updates], padded.shape, **changes)
    return editor.slice(out, axis, 0, x.shape[axis])


def _replace_out_of_bounds(editor: Editor, indices: Value, clamped: Value, end: Dim) -> Value:
    """Return the clamped index vectors, with ``end`` in place of the first component of changed
    vectors.

    A vector is changed if clamping changed one of its components.
    """
    last = clamped.rank - 1
    first, *other_components = (
        editor.slice(clamped, last, i, i + 1) for i in range(clamped.shape[last])
    )
    are_unchanged = editor.reshape(_are_unchanged(editor, indices, clamped), first.shape)
    end_values = editor.broadcast(_dim_value(editor, end, first.dtype), first.shape, ())
    redirected = editor.where(are_unchanged, first, end_values)
    return (
        editor.concatenate([redirected, *other_components], last)
        if other_components
        else redirected
    )


# ---------------------------------------------------------------------------------------- indices


def _nonzero_components(
    editor: Editor, indices: Value, limits: list[Dim], axes: tuple[int, ...]
) -> tuple[Value, list[Dim], tuple[int, ...]]:
    """Return the components of index vectors that may be other than zero, with their limits and
    axes.

    A component is always zero if the window is as long as its axis. At least one component remains.
    """
    free = [i for i, limit in enumerate(limits) if not dims.is_same_dim(limit, 0)]
    if len(free) == len(axes):
        return indices, limits, axes
    free = free or [0]
    last = indices.rank - 1
    parts = [editor.slice(indices, last, i, i + 1) for i in free]
    joined = editor.concatenate(parts, last) if len(parts) > 1 else parts[0]
    return joined, [limits[i] for i in free], tuple(axes[i] for i in free)


def _clamp_indices(editor: Editor, indices: Value, limits: list[Dim]) -> Value:
    """Return index vectors clamped to 0 and ``limits``, so that their windows are within the
    operand.

    Indices are returned unchanged if there are no limits, or if they are a constant within bounds.
    Other indices of less than 32 bits become int32.
    """
    if not limits or _are_known_in_bounds(indices, limits):
        return indices
    if indices.dtype.itemsize < 4:
        # The limits may not be representable in the dtype of the indices.
        indices = editor.convert(indices, np.int32)
    zero = const(0, indices.dtype)
    inputs = [zero, indices, _limit_values(editor, limits, indices.dtype)]
    return editor.add(ops.clamp, inputs, indices.shape, indices.dtype)


def _is_promise_kept(indices: Value, limits: list[Dim]) -> bool:
    """Return True if all indices are known to be within bounds, as ``promise_in_bounds`` says.

    They are known if they are constants or have a known range. Return False if nothing is known.

    Arguments:
        indices: the index vectors.
        limits: the largest valid index of each component. Without limits the promise is kept.
    """
    if not limits or indices.kind == "const" or not dims.all_static(limits):
        return not limits or _are_known_in_bounds(indices, limits)
    return known_range(indices).within(0, min(limits))


def _are_known_in_bounds(indices: Value, limits: list[Dim]) -> bool:
    """Return True if the indices are a constant, the limits are static, and all indices are from 0
    to ``limits``."""
    array = indices.const
    if array is None or not dims.all_static(limits):
        return False
    return bool(np.all((array >= 0) & (array <= np.asarray(limits))))


def _limit_values(editor: Editor, limits: list[Dim], dtype: np.dtype) -> Value:
    """Return the limits of index vectors as a value of this dtype: a vector, or a scalar if there
    is one limit."""
    if dims.all_static(limits):
        return const(limits[0] if len(limits) == 1 else limits, dtype)
    numbers = [_dim_value(editor, d, dtype) for d in limits]
    if len(numbers) == 1:
        return numbers[0]
    return editor.concatenate([editor.reshape(n, (1,)) for n in numbers], 0)


def _dim_value(editor: Editor, dim: Dim, dtype: np.dtype) -> Value:
    """Return a dimension as a scalar of this dtype."""
    if dims.is_static(dim):
        return const(dim, dtype)
    return editor.add(ops.dim_as_value, [], (), dtype, {"dim": dim})


def _are_unchanged(editor: Editor, indices: Value, clamped: Value) -> Value:
    """Return a Boolean for each index vector: True if clamping changed none of its components."""
    are_equal = editor.compare(ops.eq, editor.convert(indices, clamped.dtype), clamped)
    *shape, count = clamped.shape
    if count == 1:
        return editor.reshape(are_equal, tuple(shape))
    return editor.add(ops.reduce_and, [are_equal], tuple(shape), np.bool_, {"axes": (len(shape),)})


# --------------------------------------------------------------------------------- dynamic slices


def _legalize_dynamic_slice(node: Node, editor: Editor) -> Value | None:
    """Rewrite a dynamic slice as a slice if its starts are constant, or as a take if it has a
    single entry.

    Starts are clamped so that the slice is within the operand. Return None for other dynamic
    slices, or if the operand has a named size.
    """
    x, *starts = node.inputs
    sizes = node.params["slice_sizes"]
    if not dims.all_static(x.shape):
        return None
    if not all(v.kind == "const" for v in starts):
        return _take_entry(node, editor)
    first = tuple(
        int(np.clip(np.asarray(v.const), 0, axis_size - size))
        for v, axis_size, size in zip(starts, x.shape, sizes, strict=True)
    )
    return editor.slice_region(x, first, sizes)


def _take_entry(node: Node, editor: Editor) -> Value | None:
    """Rewrite a dynamic slice of one entry along one axis as a take.

    It must have all entries along the other axes. Return None for other dynamic slices.
    """
    x, *starts = node.inputs
    partial_axes = [i for i, size in enumerate(node.params["slice_sizes"]) if size != x.shape[i]]
    if len(partial_axes) != 1 or node.out.shape[partial_axes[0]] != 1:
        return None
    axis, index = partial_axes[0], starts[partial_axes[0]]
    last = x.shape[axis] - 1
    if not known_range(index).within(0, last):
        index = _clamp_indices(editor, index, [last])
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    entry = editor.add(ops.take, [x, index], shape, x.dtype, {"axis": axis})
    return editor.reshape(entry, node.out.shape)
