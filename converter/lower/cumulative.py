"""Cumulative operations: ``CumSum`` exists; in the others every element doubles its reach."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from converter.graph import dims, ops
from converter.graph.dtypes import highest, is_float, lowest
from converter.lower.build import Builder
from converter.lower.formula import Term
from converter.lower.functions import log1p
from converter.lower.registry import rule, unsupported
from converter.lower.shared import typed

Combine = Callable[[Term, Term], Term]


@rule(ops.cumsum)
def _(b: Builder, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
    return b.op("CumSum", x, b.const(axis, np.int64), reverse=1 if reverse else None)


@rule(ops.cumprod, since=26)
def _(b: Builder, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
    return b.op("CumProd", x, b.const(axis, np.int64), reverse=1 if reverse else None)


@rule(ops.cumprod)
def _(b: Builder, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
    return _scan(b, x, axis, reverse, 1, lambda p, q: p * q)


@rule(ops.cummax)
def _(b: Builder, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
    return _scan(b, x, axis, reverse, lowest(b.out.dtype), lambda p, q: p.apply("Max", q))


@rule(ops.cummin)
def _(b: Builder, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
    return _scan(b, x, axis, reverse, highest(b.out.dtype), lambda p, q: p.apply("Min", q))


@rule(ops.cumlogsumexp)
def _(b: Builder, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
    if not is_float(b.out.dtype):
        raise unsupported(b.node, b.opset, "logarithms of sums are floats; convert the operand")
    return _scan(b, x, axis, reverse, -math.inf, _logaddexp)


def _scan(
    b: Builder, x: ir.Value, axis: int, reverse: bool, neutral: float, combine: Combine
) -> ir.Value:
    """Hillis and Steele: element i takes in i-1, then i-2, i-4 …"""
    size = b.out.shape[axis]
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
    inner, label = b.nested(), b.shared.fresh("loop")
    inner.node = b.node
    types = ((ops.round, (), np.int64), ("go", (), np.bool_), ("step", (1,), np.int64))
    inputs = [
        typed(ir.Value(name=f"{label}_{name}"), shape, dtype)
        for name, shape, dtype in (*types, ("x", b.out.shape, b.out.dtype))
    ]
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
    return top + log1p(gap.apply("Exp"))
