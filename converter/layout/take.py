"""Rewrite gathers of slices along one axis, such as the gathers of ``jnp.take`` and ``x[i]``.

The functions of jnp convert negative indices to positive ones by a comparison, a sum and a
selection. ONNX's ``Gather`` accepts negative indices, so these operations are removed.
"""

from jax import lax

from converter.ir import Node, Value, dims, ops
from converter.ir.op import Op
from converter.ir.origins import source_behind
from converter.ir.rewrite import Editor, Rule
from converter.ir.scalars import named_size, scalar


def _match_take(node: Node, editor: Editor) -> Value | None:
    """Replace a gather of single entries along one axis by ``take``, which is ONNX's Gather.

    The indices must be promised to be within bounds. Return None for other gathers.
    """
    x, indices = node.inputs
    numbers, sizes = node.params["dimension_numbers"], node.params["slice_sizes"]
    mode = lax.GatherScatterMode.from_any(node.params["mode"])
    axes = numbers.start_index_map
    if mode != lax.GatherScatterMode.PROMISE_IN_BOUNDS or len(axes) != 1:
        return None
    axis = axes[0]
    slices = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    if numbers.operand_batching_dims or not dims.is_same_shape(sizes, slices):
        return None
    index_shape = indices.shape[:-1]
    positions = editor.reshape(_unwrap_negative_indices(indices, x.shape[axis]), index_shape)
    entries_shape = (*x.shape[:axis], *index_shape, *x.shape[axis + 1 :])
    entries = editor.add(ops.take, [x, positions], entries_shape, x.dtype, {"axis": axis})
    result_axes = _result_axes(node, axis, len(index_shape))
    # These are the axes of size one that the result does not have.
    collapsed = [a for a in range(entries.rank) if a not in result_axes]
    return editor.reshape(editor.transpose(entries, [*collapsed, *result_axes]), node.out.shape)


def _result_axes(node: Node, axis: int, index_rank: int) -> list[int]:
    """Return the axes of the taken value in the order of the gather's result.

    ``axis`` is the indexed axis of the operand. If the result keeps it, with one entry, it is
    omitted. ``index_rank`` is the number of axes of the indices.
    """
    numbers, rank = node.params["dimension_numbers"], node.inputs[0].rank
    index_axes = iter(range(axis, axis + index_rank))
    offset_axes = iter([a for a in range(rank) if a not in numbers.collapsed_slice_dims])
    axes = list[int]()
    for position in range(node.out.rank):
        if position not in numbers.offset_dims:
            axes.append(next(index_axes))
        elif (operand_axis := next(offset_axes)) != axis:
            axes.append(operand_axis + (index_rank - 1 if operand_axis > axis else 0))
    return axes


def _unwrap_negative_indices(indices: Value, size: dims.Dim) -> Value:
    """Return ``i`` if ``indices`` is ``where(i < 0, i + size, i)``, also through reshapes.

    Otherwise return ``indices``. ``size`` is the size of the indexed axis.
    """
    source = source_behind(indices, (ops.reshape, ops.broadcast_in_dim))
    selection = source.producer_if(ops.select_n)
    sizes = [dims.size_product(v.shape) for v in (source, indices)]
    if selection is None or len(selection.inputs) != 3 or not dims.is_same_dim(*sizes):
        return indices
    condition, index, wrapped = selection.inputs
    comparison, addition = condition.producer_if(ops.lt), wrapped.producer_if(ops.add)
    if comparison is None or addition is None:
        return indices
    is_compared = comparison.inputs[0] is index and scalar(comparison.inputs[1]) == 0
    is_shifted = addition.inputs[0] is index and _equals_size(addition.inputs[1], size)
    return index if is_compared and is_shifted else indices


def _equals_size(value: Value, size: dims.Dim) -> bool:
    """Return True if a value is this size, as a constant or as a symbolic dimension."""
    if (named := named_size(value)) is not None:
        return dims.is_same_dim(named, size)
    source = source_behind(value, (ops.broadcast_in_dim, ops.convert_element_type))
    return dims.is_static(size) and scalar(source) == size


RULES: dict[Op, Rule] = {ops.gather: _match_take}
