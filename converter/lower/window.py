"""Padding and windows."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from converter import dims
from converter.build import Builder
from converter.lower.registry import lower


@lower("pad")
def _(b: Builder, x: ir.Value, filler: ir.Value, *, padding_config: Any) -> ir.Value:
    """Interior padding first, then the edges, as JAX orders them; negative ones crop."""
    shape = list(b.operand().shape)
    for axis, (_, _, inner) in enumerate(padding_config):
        if inner:
            x = _spread(b, x, filler, shape, axis, inner)
    edges = [p[side] for side in (0, 1) for p in padding_config]
    if all(dims.same(e, 0) for e in edges):
        return x
    return b.op("Pad", x, b.shape(tuple(edges)), filler)


def _spread(
    b: Builder, x: ir.Value, filler: ir.Value, shape: list[dims.Dim], axis: int, inner: int
) -> ir.Value:
    """``inner`` fillers between neighbours along an axis; updates ``shape``."""
    size = shape[axis]
    apart = (*shape[: axis + 1], 1, *shape[axis + 1 :])
    columns = [0] * len(apart) * 2
    columns[len(apart) + axis + 1] = inner
    wide = b.op("Pad", b.reshape(x, tuple(shape), apart), b.ints(columns), filler)
    padded = (*shape[: axis + 1], inner + 1, *shape[axis + 1 :])
    merged = (*shape[:axis], dims.as_dim(size * (inner + 1)), *shape[axis + 1 :])
    shape[axis] = dims.as_dim(size * (inner + 1) - inner)
    flat = b.reshape(wide, padded, merged)
    return b.op("Slice", flat, b.ints([0]), b.ints([-inner]), b.ints([axis]))
