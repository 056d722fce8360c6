"""Elementwise rules: mostly a table."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from converter.ir import ops
from converter.ir.dtypes import is_float
from converter.lower.builder import Builder
from converter.lower.formula import Term, formulas
from converter.lower.lowerings import lowers, table, unsupported

_NAMED_ALIKE = (
    *(ops.abs, ops.add, ops.ceil, ops.cos, ops.div, ops.exp, ops.floor, ops.log, ops.max, ops.min),
    *(ops.mul, ops.neg, ops.pow, ops.sign, ops.sin, ops.sqrt, ops.sub, ops.tanh, ops.relu),
)
table({op: op.name.capitalize() for op in _NAMED_ALIKE})
table({ops.add_any: "Add", ops.matmul: "MatMul", ops.eq: "Equal"})
table({ops.lt: "Less", ops.le: "LessOrEqual", ops.gt: "Greater", ops.ge: "GreaterOrEqual"})

formulas(
    {
        ops.exp2: lambda x: x.number(2).apply("Pow", x),
        ops.is_finite: lambda x: abs(x) < math.inf,
        ops.one_minus_square: lambda x: 1 - x * x,  # jax >= 0.12: the derivative of tanh
        ops.rem: lambda x, y: x.apply("Mod", y, fmod=1),  # of the dividend's sign
        ops.rsqrt: lambda x: x.apply("Sqrt").apply("Reciprocal"),
        ops.square: lambda x: x * x,
        # in the total order NaN equals itself and is above all others; zeros are not told apart
        ops.eq_to: lambda x, y: x.equals(y) | x.is_nan() & y.is_nan(),
        ops.le_to: lambda x, y: (x <= y) | y.is_nan(),
        ops.lt_to: lambda x, y: (x < y) | y.is_nan() & ~x.is_nan(),
    }
)


@lowers(ops.ne)
def _(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Only NaN is not itself."""
    if x is y and is_float(b.operand().dtype):
        return b.op("IsNaN", x)
    return b.op("Not", b.op("Equal", x, y))


@lowers(ops.polynomial)  # jax >= 0.12
def _(b: Builder, x: ir.Value, *coefficients: ir.Value) -> ir.Value:
    """Horner's rule; the coefficients begin with the constant."""
    if len(coefficients) == 1:
        return b.expand(coefficients[0], b.operand(1).shape, b.out.shape)
    return Term(b, x).polynomial([Term(b, c) for c in reversed(coefficients)]).value


@lowers(ops.integer_pow)
def _(b: Builder, x: ir.Value, *, y: int) -> ir.Value:
    """Repeated squaring, as JAX does it: integers wrap, floats round the same way."""
    if y == 0:
        return b.expand(b.like(1), (), b.out.shape)
    result, square, left = None, x, abs(y)
    while left:
        if left & 1:
            result = square if result is None else b.op("Mul", result, square)
        left >>= 1
        square = b.op("Mul", square, square) if left else square
    assert result is not None
    return b.op("Reciprocal", result) if y < 0 else result


@lowers(ops.round)
def _(b: Builder, x: ir.Value, *, rounding_method: int) -> ir.Value:
    """Method 1 is to even, as ``Round`` does it; 0 is away from zero."""
    if int(rounding_method) == 1:
        return b.op("Round", x)
    term = Term(b, x)
    size = abs(term)
    whole = size.apply("Floor")
    up = (size - whole >= 0.5).where(1, 0)  # adding a half first would round 0.49999997 up
    return ((whole + up) * term.apply("Sign")).value


@lowers(ops.clamp)
def _(b: Builder, low: ir.Value, x: ir.Value, high: ir.Value) -> ir.Value:
    """``Clip`` takes scalars only."""
    if b.operand(0).rank == b.operand(2).rank == 0:
        return b.op("Clip", x, low, high)
    return b.op("Min", b.op("Max", x, low), high)


@lowers(ops.select_n)
def _(b: Builder, which: ir.Value, *cases: ir.Value) -> ir.Value:
    """``cases[which]``; a boolean chooses among two."""
    if b.operand().dtype == np.bool_:
        return b.op("Where", which, *cases[::-1]) if len(cases) == 2 else cases[0]
    result = cases[-1]
    for i in reversed(range(len(cases) - 1)):
        result = b.op("Where", b.op("LessOrEqual", which, b.like(i)), cases[i], result)
    return result


@lowers(ops.convert_element_type)
def _(b: Builder, x: ir.Value, *, new_dtype: Any) -> ir.Value:
    """Four bits are made of eight, where floats are cut off and not rounded."""
    eight = {"int4": np.int8, "uint4": np.uint8}.get(np.dtype(new_dtype).name)
    return b.cast(x if eight is None else b.cast(x, eight), new_dtype)


# by (exponent bits, mantissa bits), the formats that ONNX has
PRECISIONS = {(8, 7): np.dtype(jnp.bfloat16), (5, 10): np.dtype(np.float16)}


@lowers(ops.reduce_precision)
def _(b: Builder, x: ir.Value, *, exponent_bits: int, mantissa_bits: int) -> ir.Value:
    info = jnp.finfo(b.out.dtype)
    if exponent_bits >= info.nexp and mantissa_bits >= info.nmant:
        return x
    narrow = PRECISIONS.get((exponent_bits, mantissa_bits))
    if narrow is None:
        raise unsupported(b.node, b.opset, "ONNX has no floating point format of that precision")
    rounded = Term(b, x).cast(narrow).cast(b.out.dtype)
    if exponent_bits == info.nexp or info.bits < 32:
        return rounded.value
    # XLA makes zeros of what is subnormal in the narrow format; halves keep it here.
    least = float(jnp.finfo(narrow).smallest_normal)
    return (abs(rounded) < least).where(rounded * 0, rounded).value
