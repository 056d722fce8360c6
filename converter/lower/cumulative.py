"""Cumulative operations: ``CumSum`` exists; in the others every element doubles its reach."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import onnx_ir as ir

from converter.ir import Graph, dims, ops
from converter.ir.dtypes import highest, is_float, lowest
from converter.ir.op import Op
from converter.lower.builder import Builder
from converter.lower.formula import Term
from converter.lower.lowerings import lowers, unsupported
from converter.lower.shared_formulas import lowered_log1p

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
