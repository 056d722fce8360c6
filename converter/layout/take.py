"""Gathers of whole slices along one axis: ``jnp.take``, and ``x[i]`` as jnp writes it.

jnp makes negative indices positive with a comparison, a sum and a selection. ONNX's ``Gather``
counts negative ones from the end itself, so these go.
"""

from __future__ import annotations

from jax import lax

from converter.ir import Node, Value, dims, ops
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule
from converter.ir.scalars import named_size, scalar


def _take(node: Node, editor: Editor) -> Value | None:
    x, indices = node.inputs
    numbers, sizes = node.params["dimension_numbers"], node.params["slice_sizes"]
    mode = lax.GatherScatterMode.from_any(node.params["mode"])
    axes = numbers.start_index_map
    if mode != lax.GatherScatterMode.PROMISE_IN_BOUNDS or len(axes) != 1:
        return None
    axis = axes[0]
    whole = all(
        dims.same(s, d) for i, (s, d) in enumerate(zip(sizes, x.shape, strict=True)) if i != axis
    )
    if numbers.operand_batching_dims or not whole or sizes[axis] != 1:
        return None
    where = indices.shape[:-1]
    source = _from_end(indices, x.shape[axis])
    taken = (*x.shape[:axis], *where, *x.shape[axis + 1 :])
    inputs = [x, editor.reshape(source, where)]
    out = editor.add(ops.take, inputs, taken, x.dtype, {"axis": axis})
    collapsed = axis in numbers.collapsed_slice_dims
    # axes of the result: those of the indices in their places, those of the operand in the others
    batch = list(range(axis, axis + len(where)))
    kept = [i for i in range(len(taken)) if i not in batch]
    if not collapsed:
        kept.insert(axis, -1)
    order = [(kept if i in numbers.offset_dims else batch).pop(0) for i in range(node.out.rank)]
    turned = editor.transpose(out, [i for i in order if i >= 0])
    return editor.reshape(turned, node.out.shape)


def _from_end(indices: Value, size: dims.Dim) -> Value:
    """``i`` where ``indices`` is ``where(i < 0, i + size, i)``, seen through reshapes."""
    source = indices
    while source.node is not None and source.node.op in (ops.reshape, ops.broadcast_in_dim):
        if not dims.same(
            dims.size_product(source.shape), dims.size_product(source.node.inputs[0].shape)
        ):
            return indices
        source = source.node.inputs[0]
    node = source.node
    if node is None or node.op is not ops.select_n or len(node.inputs) != 3:
        return indices
    negative, plain, moved = (v.node if i != 1 else v for i, v in enumerate(node.inputs))
    if not (isinstance(negative, Node) and isinstance(moved, Node) and isinstance(plain, Value)):
        return indices
    compared = (
        negative.op is ops.lt and negative.inputs[0] is plain and scalar(negative.inputs[1]) == 0
    )
    added = moved.op is ops.add and moved.inputs[0] is plain and _is(moved.inputs[1], size)
    return plain if compared and added else indices


def _is(value: Value, size: dims.Dim) -> bool:
    """A constant, or a symbolic dimension as a value."""
    named = named_size(value)
    if named is not None:
        return dims.same(named, size)
    while value.node is not None and value.node.op in (
        ops.broadcast_in_dim,
        ops.convert_element_type,
    ):
        value = value.node.inputs[0]
    return dims.is_static(size) and scalar(value) == size


RULES: dict[Op, Rule] = {ops.gather: _take}
