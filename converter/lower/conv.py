"""Convolutions, already in ONNX's layout (``arrange/convolution.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from converter.ir import dims, ops
from converter.ir.dtypes import is_float
from converter.lower.builder import Builder
from converter.lower.lowerings import lowers, unsupported


@lowers(ops.conv)
def _(
    b: Builder, *xs: ir.Value, strides: Any, padding: Any, dilation: Any, groups: int
) -> ir.Value:
    return _conv_written(b, "Conv", xs, strides, padding, dilation, groups)


@lowers(ops.conv_transpose)
def _(b: Builder, *xs: ir.Value, strides: Any, cuts: Any, dilation: Any, groups: int) -> ir.Value:
    """``cuts`` is what each end loses; below zero the end gains ``output_padding``."""
    pads = [(low, max(high, 0)) for low, high in cuts]
    gained = [max(-high, 0) for _, high in cuts]
    return _conv_written(b, "ConvTranspose", xs, strides, pads, dilation, groups, gained)


def _conv_written(
    b: Builder,
    operator: str,
    xs: Sequence[ir.Value],
    strides: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    gained: Any = None,
) -> ir.Value:
    """Without a kernel's size the operator asks its second operand, whatever names are in it."""
    if not (is_float(b.out.dtype) and b.takes(operator, b.out.dtype)):
        why = f"{b.shared.target.name} has no {operator} for it, and the kernel's size is not known"
        raise unsupported(b.node, b.opset, why)
    kernel = b.operand(1).shape[2:]
    return b.op(
        operator,
        *xs,
        kernel_shape=kernel if dims.all_static(kernel) else None,
        strides=strides,
        pads=[low for low, _ in padding] + [high for _, high in padding],
        output_padding=gained,
        dilations=dilation,
        group=groups,
    )
