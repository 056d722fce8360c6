"""Rewrites before and after the channels pass (``channels``), so that it can reorder more
operations.

Axes of size one that ``vmap`` leaves in the middle move after elementwise operations:

    f(reshape(x)) = reshape(f(x))        reshape(transpose(x)) = transpose(reshape(x))

Repeated elements, which JAX writes as a broadcast along a new axis and a reshape, are one operation
during the channels pass.
"""

from collections.abc import Callable, Sequence
from typing import Any

from converter.ir import Node, Value, dims, ops
from converter.ir.axes import View, view_of
from converter.ir.dims import Dim
from converter.ir.moves import view_of_operand
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule


def move_before_ones(node: Node, editor: Editor) -> Value | None:
    """Move an operation before the reshape that inserts axes of size one into all of its operands.

    Return the reshaped result. Return None if the operands have no such reshape in common, or if
    fewer than three axes are left, so that there is no axis of channels.
    """
    ones = _inserted_ones(node) if len(node.outputs) == 1 else ()
    shape = _without(node.out.shape, ones)
    has_other_sizes = not all(dims.is_same_dim(node.out.shape[axis], 1) for axis in ones)
    if not ones or has_other_sizes or len(shape) < 3:
        # The remaining shape has no channel axis.
        return None
    inputs = [_without_ones(editor, value, node.out.rank, ones) for value in node.inputs]
    changes = _AXIS_PARAMS[node.op](node, ones) if node.op in _AXIS_PARAMS else {}
    return editor.reshape(editor.copy_with_operands(node, inputs, shape, **changes), node.out.shape)


def _inserted_ones(node: Node) -> tuple[int, ...]:
    """Return the axes of size one that a reshape inserts into each operand of full rank.

    Only operands of the result's shape are considered. An operation with parameters of axes may
    have operands of other sizes. The result is empty if the reshapes differ, or if there is none.
    """
    has_axis_params = node.op in _AXIS_PARAMS
    operands = [
        v for v in node.inputs if has_axis_params or dims.is_same_shape(v.shape, node.out.shape)
    ]
    insertions = {
        _new_ones(v.producer_if(ops.reshape)) for v in operands if v.rank == node.out.rank
    }
    return insertions.pop() if len(insertions) == 1 else ()


_AXIS_PARAMS: dict[Op, Callable[[Node, Sequence[int]], dict[str, Any]]] = {
    ops.concatenate: lambda node, ones: {
        "dimension": node.params["dimension"] - sum(one < node.params["dimension"] for one in ones)
    },
    ops.pad: lambda node, ones: {"padding_config": _without(node.params["padding_config"], ones)},
    ops.slice: lambda node, ones: {n: p and _without(p, ones) for n, p in node.params.items()},
}
"""Operations with parameters of axes, and functions that return these parameters without some
axes."""


def _new_ones(node: Node | None) -> tuple[int, ...]:
    """Return the axes of size one that a reshape inserts, as axes of its result.

    Return () if the node is None or no reshape, or if it does anything else.
    """
    if node is None or node.out.rank <= node.inputs[0].rank:
        return ()
    narrower, new_axes = list(node.inputs[0].shape), list[int]()
    for axis, size in enumerate(node.out.shape):
        if narrower and dims.is_same_dim(narrower[0], size):
            narrower.pop(0)
        elif dims.is_same_dim(size, 1):
            new_axes.append(axis)
        else:
            return ()
    return () if narrower else tuple(new_axes)


def _without(items: Sequence[Any], axes: Sequence[int]) -> tuple[Any, ...]:
    """Return the items whose index is not in ``axes``."""
    return tuple(item for i, item in enumerate(items) if i not in axes)


def _without_ones(editor: Editor, value: Value, rank: int, ones: Sequence[int]) -> Value:
    """Return an operand without the axes ``ones`` of the result of an elementwise operation.

    ``rank`` is the rank of the result. The operand may have fewer axes, which are the last of the
    result.
    """
    full = (*(1,) * (rank - value.rank), *value.shape)
    first = rank - value.rank
    shape = tuple(d for i, d in enumerate(full) if i >= first and i not in ones)
    return editor.reshape(value, shape)


def drop_ones_before_transpose(node: Node, editor: Editor) -> Value | None:
    """Drop axes of size one before a transpose instead of after it.

    ``node`` is a reshape of a transpose. Return None if it does anything else than drop all such
    axes.
    """
    transposed = node.inputs[0].producer_if(ops.transpose)
    if transposed is None or node.out.rank >= transposed.out.rank:
        return None
    (source,), order = transposed.inputs, transposed.params["permutation"]
    kept_axes = [a for a in order if not dims.is_same_dim(source.shape[a], 1)]
    if not dims.is_same_shape(tuple(source.shape[a] for a in kept_axes), node.out.shape):
        return None
    squeezed = editor.reshape(source, tuple(source.shape[a] for a in sorted(kept_axes)))
    return editor.transpose(squeezed, [sorted(kept_axes).index(a) for a in kept_axes])


def match_repeat(node: Node, editor: Editor) -> Value | None:
    """Replace a broadcast and a reshape that repeat elements along some axes by one ``repeat``.

    ``node`` is the reshape. Return None if it repeats nothing, or if it has fewer than four axes.
    """
    broadcast = node.inputs[0].producer_if(ops.broadcast_in_dim)
    view = None if broadcast is None else view_of_operand(view_of(node.out))
    source = None if view is None else view_of_operand(view)
    if source is None or source.base.rank != node.out.rank or node.out.rank < 4:
        return None
    times = tuple(_repetitions(source, axis, size) for axis, size in enumerate(node.out.shape))
    if 0 in times or set(times) == {1}:
        return None
    return editor.add(ops.repeat, [source.base], node.out.shape, node.out.dtype, {"times": times})


def _repetitions(view: View, axis: int, size: Dim) -> int:
    """Return how often each element of an axis is repeated in a row.

    ``size`` is the size of the view's axis. Return 0 if the view does anything else along the axis.
    """
    source_size, group = view.base.shape[axis], view.groups[axis]
    if not group:
        return size if dims.is_same_dim(source_size, 1) and isinstance(size, int) else 0
    first, *repeats = group
    is_full_axis = (
        first.axis == axis and first.stride == 1 and dims.is_same_dim(first.size, source_size)
    )
    if not is_full_axis or len(repeats) > 1 or any(f.axis is not None for f in repeats):
        return 0
    count = repeats[0].size if repeats else 1
    return count if isinstance(count, int) else 0


def expand_repeat(node: Node, editor: Editor) -> Value:
    """Emit a ``repeat`` as a broadcast along new axes and a reshape."""
    x, times = node.inputs[0], node.params["times"]
    sizes = [(d, *(() if n == 1 else (n,))) for d, n in zip(x.shape, times, strict=True)]
    axes = [sum(map(len, sizes[:i])) for i in range(x.rank)]
    shape = tuple(d for part in sizes for d in part)
    return editor.reshape(editor.broadcast(x, shape, axes), node.out.shape)


def _rewrite_reshape(node: Node, editor: Editor) -> Value | None:
    """Merge a reshape with an earlier one, or apply `drop_ones_before_transpose` or
    `match_repeat`."""
    if inner := node.inputs[0].producer_if(ops.reshape):
        return editor.reshape(inner.inputs[0], node.out.shape)
    squeezed = drop_ones_before_transpose(node, editor)
    return match_repeat(node, editor) if squeezed is None else squeezed


BEFORE_REORDERING: dict[Op, Rule] = {
    **dict.fromkeys(
        (op for op in ops.defined_ops() if op.elementwise or op in _AXIS_PARAMS), move_before_ones
    ),
    ops.reshape: _rewrite_reshape,
}
"""Rules before channels are reordered."""

AFTER_REORDERING: dict[Op, Rule] = {ops.repeat: expand_repeat}
"""Rules after channels were reordered."""
