"""Padding and windows."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir

from converter.graph import dims, ops
from converter.lower.build import Builder
from converter.lower.registry import rule


@rule(ops.pad)
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


def _window(size: Any, strides: Any, padding: Any, dilation: Any) -> dict[str, Any]:
    """How ONNX writes a window; what is its default is left out."""
    pads = [low for low, _ in padding] + [high for _, high in padding]
    return {
        "kernel_shape": size,
        "strides": strides,
        "pads": pads if any(pads) else None,
        "dilations": dilation if any(d != 1 for d in dilation) else None,
    }


@rule(ops.max_pool)
def _(b: Builder, x: ir.Value, *, size: Any, strides: Any, padding: Any, dilation: Any) -> ir.Value:
    return b.op("MaxPool", x, **_window(size, strides, padding, dilation))


@rule(ops.avg_pool)
def _(
    b: Builder,
    x: ir.Value,
    *,
    size: Any,
    strides: Any,
    padding: Any,
    dilation: Any,
    include_pad: bool,
) -> ir.Value:
    window = _window(size, strides, padding, dilation)
    return b.op("AveragePool", x, **window, count_include_pad=int(include_pad))


@rule(ops.sum_pool)
def _(b: Builder, x: ir.Value, *, size: Any, strides: Any, padding: Any, dilation: Any) -> ir.Value:
    window = _window(size, strides, padding, dilation)
    mean = b.op("AveragePool", x, **window, count_include_pad=1)
    return b.op("Mul", mean, b.like(math.prod(size)))


@rule(ops.max_pool_scatter)
def _(
    b: Builder,
    x: ir.Value,
    source: ir.Value,
    *,
    size: Any,
    strides: Any,
    padding: Any,
    dilation: Any,
) -> ir.Value:
    """``MaxPool`` tells where in the flat operand each maximum is."""
    _, places = b.ops("MaxPool", [x], 2, **_window(size, strides, padding, dilation))
    shape, given = b.operand(0).shape, b.operand(1).shape
    flat, few = (dims.product(shape),), (dims.product(given),)
    zeros = b.expand(b.like(0), (), flat)
    where, values = (b.reshape(v, given, few) for v in (places, source))
    total = b.op("ScatterElements", zeros, where, values, axis=0, reduction="add")
    return b.reshape(total, flat, shape)
