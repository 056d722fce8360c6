"""Cumulative operations: ``CumSum`` exists; in the others every element doubles its reach."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from converter.graph import dims
from converter.graph.dtypes import highest, is_float, lowest
from converter.lower.build import Builder
from converter.lower.formula import Term
from converter.lower.functions import log1p
from converter.lower.registry import rule, unsupported

Combine = Callable[[Term, Term], Term]


@rule("cumsum")
def _(b: Builder, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
    return b.op("CumSum", x, b.const(axis, np.int64), reverse=1 if reverse else None)


@rule("cumprod", since=26)
def _(b: Builder, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
    return b.op("CumProd", x, b.const(axis, np.int64), reverse=1 if reverse else None)


@rule("cumprod")
def _(b: Builder, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
    return _scan(b, x, axis, reverse, 1, lambda p, q: p * q)


@rule("cummax")
def _(b: Builder, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
    return _scan(b, x, axis, reverse, lowest(b.out.dtype), lambda p, q: p.apply("Max", q))


@rule("cummin")
def _(b: Builder, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
    return _scan(b, x, axis, reverse, highest(b.out.dtype), lambda p, q: p.apply("Min", q))


@rule("cumlogsumexp")
def _(b: Builder, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
    if not is_float(b.out.dtype):
        raise unsupported(b.node, b.opset, "logarithms of sums are floats; convert the operand")
    return _scan(b, x, axis, reverse, -math.inf, _logaddexp)


def _scan(
    b: Builder, x: ir.Value, axis: int, reverse: bool, neutral: float, combine: Combine
) -> ir.Value:
    """Hillis and Steele: element i takes in i-1, then i-2, i-4 …"""
    size = b.out.shape[axis]
    if not dims.is_static(size):
        raise unsupported(b.node, b.opset, "the length of the axis has to be known")
    filler, step = b.like(neutral), 1
    while step < size:
        x = combine(
            Term(b, x), Term(b, _shifted(b, x, filler, axis, -step if reverse else step))
        ).value
        step *= 2
    return x


def _shifted(b: Builder, x: ir.Value, filler: ir.Value, axis: int, by: int) -> ir.Value:
    """Elements moved along an axis; a negative pad drops those that fall off the end."""
    pads = np.zeros((2, b.out.rank), np.int64)
    pads[:, axis] = by, -by
    return b.op("Pad", x, b.ints(pads.ravel()), filler)


def _logaddexp(x: Term, y: Term) -> Term:
    top = x.apply("Max", y)
    gap = abs(top).equals(math.inf).where(-math.inf, x.apply("Min", y) - top)
    return top + log1p(gap.apply("Exp"))
