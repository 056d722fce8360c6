"""Lower operations that move elements without changing them."""

from typing import Any

import numpy as np
import onnx_ir as ir

from converter.ir import dims, ops
from converter.ir.moves import shortened_axes
from converter.lower.builder import Builder
from converter.lower.lowerings import lowers


@lowers(ops.reshape, ignores=("shape",))
def _(b: Builder, x: ir.Value) -> ir.Value:
    """Lower a reshape. The new shape is that of the result."""
    return b.reshape(x, b.operand().shape, b.out.shape)


@lowers(ops.transpose)
def _(b: Builder, x: ir.Value, *, permutation: tuple[int, ...]) -> ir.Value:
    return b.op("Transpose", x, perm=list(permutation))


@lowers(ops.broadcast_in_dim, ignores=("shape",))
def _(b: Builder, x: ir.Value, *sizes: ir.Value, broadcast_dimensions: Any) -> ir.Value:
    """Lower a broadcast: add axes of size one where the operand has none, then emit ``Expand``.

    The operands after ``x`` are JAX's values of symbolic sizes, which are also in the shape of the
    result.
    """
    before = b.operand().shape
    ones = dims.expand_with_ones(before, broadcast_dimensions, b.out.rank)
    first = min((a for a, d in enumerate(ones) if not dims.is_same_dim(d, 1)), default=b.out.rank)
    operand_shape = ones[first:]
    return b.expand(b.reshape(x, before, operand_shape), operand_shape, b.out.shape)


@lowers(ops.concatenate)
def _(b: Builder, *xs: ir.Value, dimension: int) -> ir.Value:
    return b.op("Concat", *xs, axis=dimension)


@lowers(ops.slice)
def _(b: Builder, x: ir.Value, *, start_indices: Any, limit_indices: Any, strides: Any) -> ir.Value:
    """Lower a slice along the axes on which the result is shorter than the operand."""
    axes = shortened_axes(b.node)
    starts, ends, steps = (
        [p[axis] for axis in axes] for p in (start_indices, limit_indices, strides)
    )
    return b.op("Slice", x, b.ints(starts), b.ints(ends), b.ints(axes), b.ints(steps))


@lowers(ops.tile)
def _(b: Builder, x: ir.Value, *, reps: tuple[int, ...]) -> ir.Value:
    return b.op("Tile", x, b.ints(reps))


@lowers(ops.dim_as_value)
def _(b: Builder, *, dim: Any) -> ir.Value:
    """Emit the size of a named dimension, or an expression of such sizes, as a scalar."""
    return b.cast(b.squeeze(b.ints([dim]), [0]), b.out.dtype)


@lowers(ops.rev)
def _(b: Builder, x: ir.Value, *, dimensions: tuple[int, ...]) -> ir.Value:
    return b.reverse(x, dimensions)


@lowers(ops.iota)
def _(b: Builder, *sizes: ir.Value, dtype: Any, shape: Any, dimension: int) -> ir.Value:
    """Lower an iota: positions along one axis, repeated along the others."""
    positions = b.range(shape[dimension])
    positions = positions if dtype == np.int64 else b.cast(positions, dtype)
    operand_shape = (shape[dimension], *(1 for _ in shape[dimension + 1 :]))
    return b.expand(b.reshape(positions, operand_shape[:1], operand_shape), operand_shape, shape)


@lowers(ops.pad)
def _(b: Builder, x: ir.Value, filler: ir.Value, *, padding_config: Any) -> ir.Value:
    """Lower a pad: interior padding first, then the edges, in JAX's order. Negative padding crops.

    For each axis, ``padding_config`` contains the number of fillers before, after and between the
    elements.
    """
    shape = list(b.operand().shape)
    for axis, (_, _, inner) in enumerate(padding_config):
        if inner:
            x = _insert_fillers(b, x, filler, shape, axis, inner)
    edges = [p[side] for side in (0, 1) for p in padding_config]
    if all(dims.is_same_dim(e, 0) for e in edges):
        return x
    return b.op("Pad", x, b.ints(edges), filler)


def _insert_fillers(
    b: Builder, x: ir.Value, filler: ir.Value, shape: list[dims.Dim], axis: int, inner: int
) -> ir.Value:
    """Insert ``inner`` fillers between neighbours along an axis, and update ``shape``, the shape of
    ``x``."""
    size = shape[axis]
    column_shape = (*shape[: axis + 1], 1, *shape[axis + 1 :])
    columns = [0] * len(column_shape) * 2
    columns[len(column_shape) + axis + 1] = inner
    padded_columns = b.op("Pad", b.reshape(x, tuple(shape), column_shape), b.ints(columns), filler)
    padded = (*shape[: axis + 1], inner + 1, *shape[axis + 1 :])
    merged = (*shape[:axis], dims.as_dim(size * (inner + 1)), *shape[axis + 1 :])
    shape[axis] = dims.dilated_size(size, inner)
    flat = b.reshape(padded_columns, padded, merged)
    return b.op("Slice", flat, b.ints([0]), b.ints([-inner]), b.ints([axis]))
