"""Logic of booleans and of the bits of integers, for which opset 18 brought operators; counts."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx_ir as ir

from converter.ir import ops
from converter.lower.builder import Builder
from converter.lower.formula import Term, formulas
from converter.lower.lowerings import lowers


def _operator(b: Builder, *xs: ir.Value, name: str) -> ir.Value:
    return b.op(name if b.out.dtype == np.bool_ else f"Bitwise{name}", *xs)


def _by_bits(b: Builder, *xs: ir.Value, name: str) -> ir.Value:
    """Without those operators, integers are taken apart and put together again by a product."""
    if b.out.dtype == np.bool_:
        return b.op(name, *xs)
    width = b.out.dtype.itemsize * 8
    if name == "Not":
        ones = b.const((1 << width) - 1, np.uint64)
        return _bitwise_whole(b, b.op("Sub", ones, _word(Term(b, xs[0])).value), width)
    left, right = (_bits(b, x, width) for x in xs)
    found = b.op("Mul", left, right)
    if name != "And":
        count = b.const(1 if name == "Or" else 2, np.int64)
        found = b.op("Sub", b.op("Add", left, right), b.op("Mul", found, count))
    powers = b.const(np.left_shift(np.uint64(1), np.arange(width, dtype=np.uint64)).view(np.int64))
    return _bitwise_whole(b, b.op("MatMul", found, powers), width)


def _word(x: Term) -> Term:
    """An integer in uint64, zeros on the left."""
    return x.cast(f"uint{x.dtype.itemsize * 8}").cast(np.uint64)


def _bitwise_whole(b: Builder, x: ir.Value, width: int) -> ir.Value:
    return b.cast(b.cast(x, f"uint{width}"), b.out.dtype)


def _bits(b: Builder, x: ir.Value, width: int) -> ir.Value:
    """0 and 1 in int64, the lowest first, on an axis of their own at the end."""
    word = b.op("Unsqueeze", _word(Term(b, x)).value, b.ints([-1]))
    shifted = b.op("BitShift", word, b.const(np.arange(width), np.uint64), direction="RIGHT")
    rest = b.op("BitShift", shifted, b.const(1, np.uint64), direction="RIGHT")
    return b.cast(b.op("Sub", shifted, b.op("Mul", rest, b.const(2, np.uint64))), np.int64)


for _op, _name in {ops.and_: "And", ops.or_: "Or", ops.xor: "Xor", ops.not_: "Not"}.items():
    lowers(_op)(partial(_by_bits, name=_name))
    lowers(_op, since=18)(partial(_operator, name=_name))


def _right(x: Term, by: int) -> Term:
    return x.apply("BitShift", by, direction="RIGHT")


MASKS = (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F)  # every 2nd, 4th, 8th field


def _population(x: Term) -> Term:
    """Ones in a uint64: sums of pairs, of fours, of bytes, then all bytes by one product."""
    one, two, four = (x.number(mask) for mask in MASKS)
    pairs = x - _right(x, 1).apply("BitwiseAnd", one)
    high = _right(pairs, 2)
    fours = pairs.apply("BitwiseAnd", two) + high.apply("BitwiseAnd", two)
    octets = (fours + _right(fours, 4)).apply("BitwiseAnd", four)
    return _right(octets * 0x0101010101010101, 56)


def _leading_zeros(x: Term) -> Term:
    """Spread the leading one to the right, then count the zeros."""
    bits, word = x.dtype.itemsize * 8, _word(x)
    for step in (1, 2, 4, 8, 16, 32):
        if step < bits:
            word = word.apply("BitwiseOr", _right(word, step))
    return (word.number(bits) - _population(word)).cast(x.dtype)


formulas(
    {
        ops.clz: _leading_zeros,
        ops.population_count: lambda x: _population(_word(x)).cast(x.dtype),
    },
    since=18,
)
