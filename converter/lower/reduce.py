"""Reductions, whose ``axes`` became an input of most of them at opset 18; cumulative operations.

ONNX leaves open what ``ReduceMax``, ``ReduceMin``, ``ArgMax`` and ``ArgMin`` make of NaN, and ONNX
Runtime skips it where JAX returns it; the one operator is written all the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from converter.ir import Graph, dims, ops
from converter.ir.dtypes import highest, is_float, lowest
from converter.ir.op import Op
from converter.lower.builder import Builder
from converter.lower.formula import Term
from converter.lower.lowerings import lowers, unsupported
from converter.lower.special import lowered_log1p

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


Combine = Callable[[Term, Term], Term]


def _operator(b: Builder, x: ir.Value, *, axis: int, reverse: bool, name: str) -> ir.Value:
    return b.op(name, x, b.const(axis, np.int64), reverse=1 if reverse else None)


def _doubled(b: Builder, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
    """Hillis and Steele: element i takes in i-1, then i-2, i-4 …"""
    if b.node.op is ops.cumlogsumexp and not is_float(b.out.dtype):
        raise unsupported(b.node, b.opset, "logarithms of sums are floats; convert the operand")
    begins, combine = COMBINATIONS[b.node.op]
    neutral, size = begins(b.out.dtype), b.out.shape[axis]
    # Elements are moved along the axis; a negative pad drops those that fall off the end.
    pads = np.zeros((2, b.out.rank), np.int64)
    pads[:, axis] = (-1, 1) if reverse else (1, -1)
    if not dims.is_static(size):
        return _rounds(b, x, size, pads.ravel(), neutral, combine)
    step = 1
    while step < size:
        moved = b.op("Pad", x, b.ints(step * pads.ravel()), b.like(neutral))
        x = combine(Term(b, x), Term(b, moved)).value
        step *= 2
    return x


def _rounds(
    b: Builder, x: ir.Value, size: dims.Dim, pads: np.ndarray, neutral: float, combine: Combine
) -> ir.Value:
    """The same in a loop, which ends as soon as a step is as long as the axis."""
    types = (("round", (), np.int64), ("go", (), np.bool_), ("step", (1,), np.int64))
    inner, inputs = b.subgraph("loop", Graph([], [], []), (*types, ("x", b.out.shape, b.out.dtype)))
    inner.node = b.node
    step, before = inputs[2:]
    moved = inner.op("Pad", before, inner.op("Mul", step, b.ints(pads)), b.like(neutral))
    after = combine(Term(inner, before), Term(inner, moved)).value
    longer = inner.op("Add", step, step)
    again = inner.squeeze(inner.op("Less", longer, b.dim(size)), [0])
    body = inner.close("loop", inputs, [again, longer, after])
    first = b.ints([1])
    go = b.squeeze(b.op("Less", first, b.dim(size)), [0])
    return b.ops("Loop", [None, go, first, x], 2, body=body)[1]


def _logaddexp(x: Term, y: Term) -> Term:
    top = x.apply("Max", y)
    gap = abs(top).equals(math.inf).where(-math.inf, x.apply("Min", y) - top)
    return top + lowered_log1p(gap.apply("Exp"))


COMBINATIONS: dict[Op, tuple[Callable[[np.dtype], float], Combine]] = {
    ops.cumlogsumexp: (lambda _: -math.inf, _logaddexp),
    ops.cummax: (lowest, lambda p, q: p.apply("Max", q)),
    ops.cummin: (highest, lambda p, q: p.apply("Min", q)),
    ops.cumprod: (lambda _: 1, lambda p, q: p * q),
}
"""What each begins with, by dtype, and how it takes in the next element."""

lowers(ops.cumsum)(partial(_operator, name="CumSum"))
lowers(*COMBINATIONS)(_doubled)
lowers(ops.cumprod, since=26)(partial(_operator, name="CumProd"))
