"""Logic of booleans, and of the bits of integers, for which opset 18 brought operators."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx_ir as ir

from converter.graph import ops
from converter.lower.build import Builder
from converter.lower.registry import rule


def _operator(b: Builder, *xs: ir.Value, name: str) -> ir.Value:
    return b.op(name if b.out.dtype == np.bool_ else f"Bitwise{name}", *xs)


def _by_bits(b: Builder, *xs: ir.Value, name: str) -> ir.Value:
    """Without those operators, integers are taken apart and put together again by a product."""
    if b.out.dtype == np.bool_:
        return b.op(name, *xs)
    width = b.out.dtype.itemsize * 8
    if name == "Not":
        ones = b.const((1 << width) - 1, np.uint64)
        return _whole(b, b.op("Sub", ones, _word(b, xs[0], width)), width)
    left, right = (_bits(b, x, width) for x in xs)
    found = b.op("Mul", left, right)
    if name != "And":
        count = b.const(1 if name == "Or" else 2, np.int64)
        found = b.op("Sub", b.op("Add", left, right), b.op("Mul", found, count))
    powers = b.const(np.left_shift(np.uint64(1), np.arange(width, dtype=np.uint64)).view(np.int64))
    return _whole(b, b.op("MatMul", found, powers), width)


def _word(b: Builder, x: ir.Value, width: int) -> ir.Value:
    """An integer in uint64, zeros on the left."""
    return b.cast(b.cast(x, f"uint{width}"), np.uint64)


def _whole(b: Builder, x: ir.Value, width: int) -> ir.Value:
    return b.cast(b.cast(x, f"uint{width}"), b.out.dtype)


def _bits(b: Builder, x: ir.Value, width: int) -> ir.Value:
    """0 and 1 in int64, the lowest first, on an axis of their own at the end."""
    word = b.op("Unsqueeze", _word(b, x, width), b.ints([-1]))
    shifted = b.op("BitShift", word, b.const(np.arange(width), np.uint64), direction="RIGHT")
    rest = b.op("BitShift", shifted, b.const(1, np.uint64), direction="RIGHT")
    return b.cast(b.op("Sub", shifted, b.op("Mul", rest, b.const(2, np.uint64))), np.int64)


for _op, _name in {ops.and_: "And", ops.or_: "Or", ops.xor: "Xor", ops.not_: "Not"}.items():
    rule(_op)(partial(_by_bits, name=_name))
    rule(_op, since=18)(partial(_operator, name=_name))
