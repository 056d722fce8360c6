"""Convolutions, already in ONNX's layout (``arrange/convolution.py``)."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from converter.graph import dims, ops
from converter.graph.dims import Shape
from converter.graph.dtypes import is_float
from converter.lower.build import Builder
from converter.lower.registry import rule, unsupported


@rule(ops.conv)
def _(
    b: Builder, *xs: ir.Value, strides: Any, padding: Any, dilation: Any, groups: int
) -> ir.Value:
    _check(b, "Conv")
    return b.op(
        "Conv",
        *xs,
        kernel_shape=_kernel(b),
        strides=strides,
        pads=[low for low, _ in padding] + [high for _, high in padding],
        dilations=dilation,
        group=groups,
    )


@rule(ops.conv_transpose)
def _(b: Builder, *xs: ir.Value, strides: Any, cuts: Any, dilation: Any, groups: int) -> ir.Value:
    """``cuts`` is what each end loses; below zero the end gains ``output_padding``."""
    _check(b, "ConvTranspose")
    ends = [high for _, high in cuts]
    return b.op(
        "ConvTranspose",
        *xs,
        kernel_shape=_kernel(b),
        strides=strides,
        pads=[low for low, _ in cuts] + [max(e, 0) for e in ends],
        output_padding=[max(-e, 0) for e in ends],
        dilations=dilation,
        group=groups,
    )


def _kernel(b: Builder) -> Shape | None:
    """Without it the operator asks its second operand, whatever names are in that one's shape."""
    shape = b.operand(1).shape[2:]
    return shape if dims.all_static(shape) else None


def _check(b: Builder, operator: str) -> None:
    if not (is_float(b.out.dtype) and b.takes(operator, b.out.dtype)):
        why = f"{b.shared.target.name} has no {operator} for it, and the kernel's size is not known"
        raise unsupported(b.node, b.opset, why)
