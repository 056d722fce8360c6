"""Reductions. ``axes`` became an input of most of them at opset 18.

ONNX leaves open what ``ReduceMax``, ``ReduceMin``, ``ArgMax`` and ``ArgMin`` make of NaN, and ONNX
Runtime skips it where JAX returns it; the one operator is written all the same.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from converter.ir import ops
from converter.lower.builder import Builder
from converter.lower.lowerings import lowers, unsupported

Axes = tuple[int, ...]


def _by_attribute(b: Builder, x: ir.Value, *, axes: Axes, name: str) -> ir.Value:
    return b.op(name, x, axes=list(axes), keepdims=0)


def _by_input(b: Builder, x: ir.Value, *, axes: Axes, name: str) -> ir.Value:
    return b.op(name, x, b.ints(axes), keepdims=0)


for _op, _name in {
    ops.reduce_max: "ReduceMax",
    ops.reduce_min: "ReduceMin",
    ops.reduce_prod: "ReduceProd",
}.items():
    lowers(_op)(partial(_by_attribute, name=_name))
    lowers(_op, since=18)(partial(_by_input, name=_name))
lowers(ops.reduce_sum)(partial(_by_input, name="ReduceSum"))


def _count(b: Builder, x: ir.Value, axes: Axes) -> ir.Value:
    """How many hold, as int32."""
    if b.out.dtype != np.bool_:
        raise unsupported(b.node, b.opset, "ONNX reduces bits of booleans only")
    return b.op("ReduceSum", b.cast(x, np.int32), b.ints(axes), keepdims=0)


@lowers(ops.reduce_or)
def _(b: Builder, x: ir.Value, *, axes: Axes) -> ir.Value:
    return b.cast(_count(b, x, axes), np.bool_)


@lowers(ops.reduce_and)
def _(b: Builder, x: ir.Value, *, axes: Axes) -> ir.Value:
    """None is false."""
    return b.op("Not", b.cast(_count(b, b.op("Not", x), axes), np.bool_))


@lowers(ops.reduce_xor)
def _(b: Builder, x: ir.Value, *, axes: Axes) -> ir.Value:
    return b.cast(b.op("Mod", _count(b, x, axes), b.const(2, np.int32)), np.bool_)


@lowers(ops.argmax, ops.argmin)
def _(b: Builder, x: ir.Value, *, axes: Axes, index_dtype: Any) -> ir.Value:
    """The first of equals."""
    name = {ops.argmax: "ArgMax", ops.argmin: "ArgMin"}[b.node.op]
    return b.cast(b.op(name, x, axis=axes[0], keepdims=0), index_dtype)
