"""Gathers of whole slices along one axis: ``jnp.take``, and ``x[i]`` as jnp writes it.

jnp makes negative indices positive with a comparison, a sum and a selection. ONNX's ``Gather``
counts negative ones from the end itself, so these go.
"""

from jax import lax

from converter.ir import Node, Value, dims, ops
from converter.ir.op import Op
from converter.ir.origins import source_behind
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
    slices = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    if numbers.operand_batching_dims or not dims.same_shape(sizes, slices):
        return None
    where = indices.shape[:-1]
    source = _from_end(indices, x.shape[axis])
    taken = (*x.shape[:axis], *where, *x.shape[axis + 1 :])
    inputs = [x, editor.reshape(source, where)]
    out = editor.add(ops.take, inputs, taken, x.dtype, {"axis": axis})
    # axes of the result: those of the indices in their places, those of the operand in the others
    batch = list(range(axis, axis + len(where)))
    kept = [
        -1 if a == axis else a if a < axis else a + len(where) - 1
        for a in range(x.rank)
        if a not in numbers.collapsed_slice_dims
    ]
    order = [(kept if i in numbers.offset_dims else batch).pop(0) for i in range(node.out.rank)]
    there = [i for i in order if i >= 0]
    ones = [i for i in range(len(taken)) if i not in there]  # other axes that are collapsed
    return editor.reshape(editor.transpose(out, [*ones, *there]), node.out.shape)


def _from_end(indices: Value, size: dims.Dim) -> Value:
    """``i`` where ``indices`` is ``where(i < 0, i + size, i)``, seen through reshapes."""
    source = source_behind(indices, (ops.reshape, ops.broadcast_in_dim))
    chosen = source.made_by(ops.select_n)
    sizes = [dims.size_product(v.shape) for v in (source, indices)]
    if chosen is None or len(chosen.inputs) != 3 or not dims.same(*sizes):
        return indices
    which, plain, other = chosen.inputs
    negative, moved = which.made_by(ops.lt), other.made_by(ops.add)
    if negative is None or moved is None:
        return indices
    compared = negative.inputs[0] is plain and scalar(negative.inputs[1]) == 0
    added = moved.inputs[0] is plain and _is(moved.inputs[1], size)
    return plain if compared and added else indices


def _is(value: Value, size: dims.Dim) -> bool:
    """A constant, or a symbolic dimension as a value."""
    if (named := named_size(value)) is not None:
        return dims.same(named, size)
    bare = source_behind(value, (ops.broadcast_in_dim, ops.convert_element_type))
    return dims.is_static(size) and scalar(bare) == size


RULES: dict[Op, Rule] = {ops.gather: _take}
