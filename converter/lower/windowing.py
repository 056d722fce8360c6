"""Convolutions and pools, already in ONNX's layout (``layout/``)."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir

from converter.ir import dims, ops
from converter.ir.dtypes import is_float
from converter.lower.builder import Builder
from converter.lower.lowerings import lowers, unsupported
from converter.targets.schemas import operator


@lowers(ops.pad)
def _(b: Builder, x: ir.Value, filler: ir.Value, *, padding_config: Any) -> ir.Value:
    """Interior padding first, then the edges, as JAX orders them; negative ones crop."""
    shape = list(b.operand().shape)
    for axis, (_, _, inner) in enumerate(padding_config):
        if inner:
            x = _windowing_spread(b, x, filler, shape, axis, inner)
    edges = [p[side] for side in (0, 1) for p in padding_config]
    if all(dims.same(e, 0) for e in edges):
        return x
    return b.op("Pad", x, b.shape(tuple(edges)), filler)


def _windowing_spread(
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


@lowers(ops.max_pool, ops.max_pool_scatter, ops.avg_pool, ops.sum_pool)
def _(
    b: Builder,
    x: ir.Value,
    *source: ir.Value,
    size: Any,
    strides: Any,
    padding: Any,
    dilation: Any,
    include_pad: bool = True,
) -> ir.Value:
    """What is ONNX's default is left out. A sum is an average of as many as the window has."""
    pads = [low for low, _ in padding] + [high for _, high in padding]
    window = {
        "kernel_shape": size,
        "strides": strides,
        "pads": pads if any(pads) else None,
        "dilations": dilation if any(d != 1 for d in dilation) else None,
    }
    if b.node.op is ops.max_pool:
        return b.op("MaxPool", x, **window)
    if source:
        return _scattered(b, b.ops("MaxPool", [x], 2, **window)[1], *source)
    mean = b.op("AveragePool", x, **window, count_include_pad=int(include_pad))
    return mean if b.node.op is ops.avg_pool else b.op("Mul", mean, b.like(math.prod(size)))


def _scattered(b: Builder, places: ir.Value, source: ir.Value) -> ir.Value:
    """Sums of a source where ``MaxPool`` says that each maximum is, in the flat operand."""
    shape, given = b.operand(0).shape, b.operand(1).shape
    flat, few = (dims.size_product(shape),), (dims.size_product(given),)
    zeros = b.expand(b.like(0), (), flat)
    where, values = (b.reshape(v, given, few) for v in (places, source))
    total = b.op("ScatterElements", zeros, where, values, axis=0, reduction="add")
    return b.reshape(total, flat, shape)


@lowers(ops.conv, ops.conv_transpose)
def _(
    b: Builder,
    *xs: ir.Value,
    strides: Any,
    padding: Any = (),
    cuts: Any = (),
    dilation: Any,
    groups: int,
) -> ir.Value:
    """``cuts`` is what each end loses; below zero the end gains ``output_padding``.

    Without a kernel's size the operator asks its second operand, whatever names are in it.
    """
    name = operator(b.node.op)
    if not (is_float(b.out.dtype) and b.takes(name, b.out.dtype)):
        why = f"{b.shared.target.name} has no {name} for it, and the kernel's size is not known"
        raise unsupported(b.node, b.opset, why)
    kernel, ends = b.operand(1).shape[2:], padding or [(low, max(high, 0)) for low, high in cuts]
    return b.op(
        name,
        *xs,
        kernel_shape=kernel if dims.all_static(kernel) else None,
        strides=strides,
        pads=[low for low, _ in ends] + [high for _, high in ends],
        output_padding=[max(-high, 0) for _, high in cuts] if cuts else None,
        dilations=dilation,
        group=groups,
    )
