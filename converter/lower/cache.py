"""Caches that are written along one axis: ``TensorScatter``, where an opset has it.

It copies the cache once, where slices around the update copy it twice. It refuses what does not fit
from an index on, so that the index is moved inside before, as JAX does. Its first axis is a batch
with an index for each of its entries: one index is for a batch of one.

A cache that grows is a ``Concat`` and stays one: it was measured to take 0.94 to 0.99 of the time
where ``Attention`` joins it itself (past and present), and other runtimes take only one output.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from converter.ir import dims, ops
from converter.legalize.bounds import scatter_window
from converter.lower.builder import Builder
from converter.lower.indexing import (
    IN_BOUNDS,
    arranged_updates,
    scatter,
    starts_inside,
    update_slice,
)
from converter.lower.lowerings import lowers


@lowers(ops.dynamic_update_slice, since=24)
def _(b: Builder, x: ir.Value, update: ir.Value, *starts: ir.Value) -> ir.Value:
    shape, sizes = b.operand(0).shape, b.operand(1).shape
    axes = [d for d, size in enumerate(sizes) if not dims.same(size, shape[d])]
    if len(axes) != 1:
        return update_slice(b, x, update, *starts)
    index = starts_inside(b, starts, shape, axes, (sizes[axes[0]],))
    return _cache_written(b, x, update, index, axes[0])


@lowers(ops.scatter, since=24, ignores=IN_BOUNDS)
def _(
    b: Builder, x: ir.Value, indices: ir.Value, updates: ir.Value, *, dimension_numbers: Any
) -> ir.Value:
    """One window, or one for each entry of the first axis, as ``vmap`` makes of updated slices.

    ``ScatterND`` takes as long along the first axis, and transposes for others.
    """
    n, shape, where = dimension_numbers, b.operand().shape, b.operand(1).shape[:-1]
    given, each = n.scatter_dims_to_operand_dims, n.operand_batching_dims
    sizes = scatter_window(n, len(shape), b.operand(2).shape)
    rest = [d for d in range(len(shape)) if d not in each]
    whole = all(d in given or dims.same(sizes[d], shape[d]) for d in rest)
    if len(given) != 1 or given == (0,) or each != (0,) * len(where) or not whole:
        return scatter(b, x, indices, updates, dimension_numbers=n, reduction=None)
    updates = arranged_updates(b, updates, n, len(shape), rest, sizes)
    index = b.cast(b.reshape(indices, (*where, 1), where or (1,)), np.int64)
    if not each:
        return _cache_written(b, x, updates, index, given[0])
    return b.op("TensorScatter", x, updates, index, axis=given[0])


def _cache_written(
    b: Builder, x: ir.Value, update: ir.Value, index: ir.Value, axis: int
) -> ir.Value:
    """With one index [1] for all."""
    batch = b.out.shape[0]
    if axis and dims.is_static(batch):
        return b.op("TensorScatter", x, update, b.expand(index, (1,), (batch,)), axis=axis)
    x, update = (b.unsqueeze(v, [0]) for v in (x, update))
    return b.squeeze(b.op("TensorScatter", x, update, index, axis=axis + 1), [0])
