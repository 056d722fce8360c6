"""Indexing by numbers is slicing.

``x[:, 1]``, ``x[..., 4:]`` and ``x[..., ::2]`` are ``slice`` where all sizes are known; where one
has a name, jnp writes each of them as a ``gather`` with constant indices.
"""

from __future__ import annotations

import numpy as np
from jax import lax

from converter.ir import Node, Value, dims, ops
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule


def _static_indexing_gather(node: Node, editor: Editor) -> Value | None:
    x, indices = node.inputs
    numbers, sizes = node.params["dimension_numbers"], node.params["slice_sizes"]
    array = indices.const
    if not isinstance(array, np.ndarray) or array.ndim > 2 or 0 in array.shape:
        return None
    if numbers.operand_batching_dims:
        return None
    columns = dict(zip(numbers.start_index_map, array.reshape(-1, array.shape[-1]).T, strict=True))
    steps = {axis: _step(column) for axis, column in columns.items()}
    moving = [axis for axis, step in steps.items() if step != 0]
    if None in steps.values() or not _inside(node, columns):
        return None
    if array.ndim == 2 and not (len(moving) <= 1 and _stays(node, moving)):
        return None
    starts = tuple(int(columns[i][0]) if i in columns else 0 for i in range(x.rank))
    last = [int(columns[i][-1]) if i in columns else 0 for i in range(x.rank)]
    limits = tuple(dims.as_dim(at + size) for at, size in zip(last, sizes, strict=True))
    strides = tuple(steps.get(i) or 1 for i in range(x.rank))
    shape = tuple(len(columns[i]) if i in moving else size for i, size in enumerate(sizes))
    params = {"start_indices": starts, "limit_indices": limits, "strides": strides}
    return editor.reshape(editor.add(ops.slice, [x], shape, x.dtype, params), node.out.shape)


def _step(column: np.ndarray) -> int | None:
    """How far apart the numbers are: 0 where they are the same, ``None`` where it varies."""
    steps = np.diff(column.astype(np.int64))
    if not steps.size or not steps.any():
        return 0
    return int(steps[0]) if steps[0] > 0 and (steps == steps[0]).all() else None


def _inside(node: Node, columns: dict[int, np.ndarray]) -> bool:
    """No index is negative or too large; where a size has a name, JAX may promise so."""
    if any(column.min() < 0 for column in columns.values()):
        return False
    mode = lax.GatherScatterMode.from_any(node.params["mode"])
    promised = mode == lax.GatherScatterMode.PROMISE_IN_BOUNDS
    shape, sizes = node.inputs[0].shape, node.params["slice_sizes"]
    return all(
        column.max() + sizes[i] <= shape[i] if dims.all_static((shape[i], sizes[i])) else promised
        for i, column in columns.items()
    )


def _stays(node: Node, moving: list[int]) -> bool:
    """A line of indices: the axis that it counts stands in the result where it was."""
    numbers, sizes = node.params["dimension_numbers"], node.params["slice_sizes"]
    if not moving or moving[0] not in numbers.collapsed_slice_dims or sizes[moving[0]] != 1:
        return False
    kept = [i for i in range(len(sizes)) if i not in numbers.collapsed_slice_dims or i in moving]
    (place,) = (i for i in range(node.out.rank) if i not in numbers.offset_dims)
    return kept.index(moving[0]) == place


RULES: dict[Op, Rule] = {ops.gather: _static_indexing_gather}
