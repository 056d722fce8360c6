"""What JAX does with indices out of range, spelled out: afterwards all of them are in range.

``clip`` moves a window inside. ``fill_or_drop`` fills with a value what a gather reads outside, and
drops what a scatter writes there. ONNX has neither, and counts negative indices from the end.

``promise_in_bounds`` leaves open what becomes of a promise that is not kept; XLA clips gathers and
drops what a scatter writes. We do that where it costs nothing: where the indices are known, and
where a gather reads windows wider than one, of which an index gives the start alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import lax

from converter.graph import Node, Value, const, dims, ops
from converter.graph.dims import Dim, Shape
from converter.graph.dtypes import highest, is_float, lowest
from converter.graph.op import Op
from converter.graph.rewrite import Editor, Rule

Mode = lax.GatherScatterMode


def _gather(node: Node, editor: Editor) -> Value | None:
    x, indices = node.inputs
    numbers, mode = node.params["dimension_numbers"], Mode.from_any(node.params["mode"])
    sizes = node.params["slice_sizes"]
    if mode == Mode.PROMISE_IN_BOUNDS:
        wide = any(not dims.same(sizes[a], 1) for a in numbers.start_index_map)
        if not wide and _promise_kept(indices, x.shape, numbers.start_index_map, sizes):
            return None
        mode = Mode.CLIP
    if mode == Mode.CLIP:
        indices, kept = _movable(editor, indices, x.shape, numbers.start_index_map, sizes)
        numbers = numbers._replace(start_index_map=kept)
    inside = _inside(editor, indices, x.shape, numbers.start_index_map, sizes)
    changes = {"dimension_numbers": numbers, "mode": Mode.PROMISE_IN_BOUNDS, "fill_value": None}
    out = editor.like(node, [x, inside], **changes)
    if mode == Mode.CLIP or inside is indices:
        return out
    batch = [i for i in range(out.rank) if i not in numbers.offset_dims]
    ok = editor.broadcast(_unmoved(editor, indices, inside), out.shape, batch)
    filler = const(_filler(node.params["fill_value"], out.dtype), out.dtype)
    other = editor.broadcast(filler, out.shape, ())
    return editor.add(ops.select_n, [ok, other, out], out.shape, out.dtype)


def _filler(value: Any, dtype: np.dtype) -> Any:
    """NaN, the lowest signed or the highest unsigned integer, true; unless a value is given."""
    if value is not None:
        return value
    if is_float(dtype):
        return np.nan
    return lowest(dtype) if dtype.kind == "i" else highest(dtype)


def _scatter(node: Node, editor: Editor) -> Value | None:
    """A dropped window goes to rows appended for it, which are cut off again."""
    x, indices, updates = node.inputs
    numbers, mode = node.params["dimension_numbers"], Mode.from_any(node.params["mode"])
    sizes = scatter_window(numbers, x.rank, updates.shape)
    pointed = numbers.scatter_dims_to_operand_dims
    if mode == Mode.PROMISE_IN_BOUNDS and _promise_kept(indices, x.shape, pointed, sizes):
        return None
    if mode == Mode.CLIP:
        indices, pointed = _movable(editor, indices, x.shape, pointed, sizes)
        numbers = numbers._replace(scatter_dims_to_operand_dims=pointed)
    inside = _inside(editor, indices, x.shape, pointed, sizes)
    changes = {"dimension_numbers": numbers, "mode": Mode.PROMISE_IN_BOUNDS}
    if mode == Mode.CLIP or inside is indices:
        return editor.like(node, [x, inside, updates], **changes)
    axis = pointed[0]
    config = tuple((0, sizes[axis] if i == axis else 0, 0) for i in range(x.rank))
    longer = tuple(dims.as_dim(d + c[1]) for d, c in zip(x.shape, config, strict=True))
    padded = editor.add(
        ops.pad, [x, const(0, x.dtype)], longer, x.dtype, {"padding_config": config}
    )
    aside = _aside(editor, indices, inside, x.shape[axis])
    out = editor.like(node, [padded, aside, updates], longer, **changes)
    return editor.slice(out, axis, 0, x.shape[axis])


def _aside(editor: Editor, indices: Value, inside: Value, end: Dim) -> Value:
    """``inside``, but the first index is ``end`` where the window was outside."""
    last = inside.rank - 1
    first, *others = (editor.slice(inside, last, i, i + 1) for i in range(inside.shape[last]))
    ok = editor.reshape(_unmoved(editor, indices, inside), first.shape)
    beyond = editor.broadcast(_number(editor, end, first.dtype), first.shape, ())
    moved = editor.add(ops.select_n, [ok, beyond, first], first.shape, first.dtype)
    return editor.concatenate([moved, *others], last) if others else moved


def scatter_window(numbers: Any, rank: int, updates: Shape) -> Shape:
    """The size along every axis of the operand of what one index vector writes."""
    single = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    sizes = iter(numbers.update_window_dims)
    return tuple(1 if d in single else updates[next(sizes)] for d in range(rank))


# ---------------------------------------------------------------------------------------- indices


def _movable(
    editor: Editor, indices: Value, shape: Shape, axes: tuple[int, ...], sizes: Shape
) -> tuple[Value, tuple[int, ...]]:
    """The components of index vectors that can be other than zero, and their axes."""
    free = [i for i, a in enumerate(axes) if not dims.same(shape[a], sizes[a])]
    if len(free) == len(axes):
        return indices, axes
    free = free or [0]
    last = indices.rank - 1
    parts = [editor.slice(indices, last, i, i + 1) for i in free]
    joined = editor.concatenate(parts, last) if len(parts) > 1 else parts[0]
    return joined, tuple(axes[i] for i in free)


def _inside(
    editor: Editor, indices: Value, shape: Shape, axes: tuple[int, ...], sizes: Shape
) -> Value:
    """Index vectors moved so that the windows they start lie inside; the same value if all do."""
    limits = [dims.as_dim(shape[a] - sizes[a]) for a in axes]
    if not axes or (indices.kind == "const" and _known_inside(indices, limits)):
        return indices
    if indices.dtype.itemsize < 4:
        indices = editor.convert(indices, np.int32)  # limits may not fit
    zero = const(0, indices.dtype)
    inputs = [zero, indices, _limits(editor, limits, indices.dtype)]
    return editor.add(ops.clamp, inputs, indices.shape, indices.dtype)


def _promise_kept(indices: Value, shape: Shape, axes: tuple[int, ...], sizes: Shape) -> bool:
    """As far as we know."""
    limits = [dims.as_dim(shape[a] - sizes[a]) for a in axes]
    known = indices.kind == "const" and dims.all_static(limits)
    return not known or _known_inside(indices, limits)


def _known_inside(indices: Value, limits: list[Dim]) -> bool:
    array = indices.const
    if array is None or not dims.all_static(limits):
        return False
    return bool(np.all((array >= 0) & (array <= np.asarray(limits))))


def _limits(editor: Editor, limits: list[Dim], dtype: np.dtype) -> Value:
    """The largest start along each axis: a scalar if there is one axis."""
    if dims.all_static(limits):
        return const(limits[0] if len(limits) == 1 else limits, dtype)
    numbers = [_number(editor, d, dtype) for d in limits]
    if len(numbers) == 1:
        return numbers[0]
    return editor.concatenate([editor.reshape(n, (1,)) for n in numbers], 0)


def _number(editor: Editor, dim: Dim, dtype: np.dtype) -> Value:
    """A dimension as a scalar."""
    if dims.is_static(dim):
        return const(dim, dtype)
    return editor.add(ops.dim_as_value, [], (), dtype, {"dim": dim})


def _unmoved(editor: Editor, indices: Value, inside: Value) -> Value:
    """Where every component of an index vector is what it was."""
    same = editor.add(
        ops.eq, [editor.convert(indices, inside.dtype), inside], inside.shape, np.bool_
    )
    last = inside.rank - 1
    shape = inside.shape[:-1]
    if inside.shape[last] == 1:
        return editor.reshape(same, shape)
    return editor.add(ops.reduce_and, [same], shape, np.bool_, {"axes": (last,)})


# --------------------------------------------------------------------------------- dynamic slices


def _dynamic_slice(node: Node, editor: Editor) -> Value | None:
    """Known starts make an ordinary slice."""
    x, *starts = node.inputs
    sizes = node.params["slice_sizes"]
    if not all(v.kind == "const" for v in starts) or not dims.all_static(x.shape):
        return None
    first = tuple(
        int(np.clip(np.asarray(v.const), 0, whole - size))
        for v, whole, size in zip(starts, x.shape, sizes, strict=True)
    )
    params = {
        "start_indices": first,
        "limit_indices": tuple(a + n for a, n in zip(first, sizes, strict=True)),
        "strides": (1,) * x.rank,
    }
    return editor.add(ops.slice, [x], node.out.shape, x.dtype, params)


SCATTERS = (ops.scatter, ops.scatter_add, ops.scatter_mul, ops.scatter_min, ops.scatter_max)
RULES: dict[Op, Rule] = {
    ops.gather: _gather,
    **dict.fromkeys(SCATTERS, _scatter),
    ops.dynamic_slice: _dynamic_slice,
}
