"""Reinterpreting bits: an operator since opset 26, and before that arithmetic in float64.

All steps of the arithmetic are exact: they scale by powers of two. What it does not see is what
tells one NaN from another.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from converter.graph import ops
from converter.graph.dtypes import is_float, is_integer
from converter.lower.build import Builder
from converter.lower.registry import rule, unsupported


@rule(ops.bitcast_convert_type)
def _(b: Builder, x: ir.Value, *, new_dtype: Any) -> ir.Value:
    old, new = b.operand().dtype, np.dtype(new_dtype)
    if old == new:
        return x
    numbers = all(is_float(dtype) or is_integer(dtype) for dtype in (old, new))
    if not numbers or old.itemsize != new.itemsize:
        raise unsupported(b.node, b.opset, "ONNX reinterprets bits only at the same width")
    bits = _bits(b, x, old) if is_float(old) else x
    return _float(b, bits, new) if is_float(new) else b.cast(bits, new)


@rule(ops.bitcast_convert_type, since=26)
def _(b: Builder, x: ir.Value, *, new_dtype: Any) -> ir.Value:
    if b.operand().dtype.itemsize != np.dtype(new_dtype).itemsize:
        raise unsupported(b.node, b.opset, "ONNX reinterprets bits only at the same width")
    return b.op("BitCast", x, to=ir.DataType.from_numpy(np.dtype(new_dtype)))


def _bits(b: Builder, x: ir.Value, dtype: np.dtype) -> ir.Value:
    """The bits of floats in int64, of which a cast takes the low ones.

    ``(exponent - least) * 2**mantissa + size / 2**exponent * 2**mantissa``: subnormal numbers have
    the least exponent of the normal ones.
    """
    info = jnp.finfo(dtype)
    wide = b.cast(x, np.float64)
    size = b.op("Abs", wide)
    finite = b.op("Less", size, _double(b, math.inf))
    some = b.op("Where", finite, size, _double(b, 0))
    exponent = _exponent(b, some, int(info.minexp), int(info.maxexp) - 1)
    fraction = b.op("Div", some, b.op("Pow", _double(b, 2), exponent))
    low = b.cast(b.op("Mul", fraction, _double(b, 2.0**info.nmant)), np.int64)
    steps = b.cast(b.op("Sub", exponent, _double(b, info.minexp)), np.int64)
    bits = b.op("Add", b.op("Mul", steps, _whole(b, 1 << info.nmant)), low)
    infinity = _infinity(dtype)
    bits = b.op("Where", finite, bits, _whole(b, infinity))
    bits = b.op("Where", b.op("IsNaN", wide), _whole(b, infinity + (1 << info.nmant - 1)), bits)
    zero = _double(b, 0)
    negative = b.op("Or", b.op("Less", wide, zero), b.op("Less", b.op("Reciprocal", wide), zero))
    return b.op("Add", bits, b.op("Mul", b.cast(negative, np.int64), _whole(b, _sign(dtype))))


def _exponent(b: Builder, size: ir.Value, least: int, most: int) -> ir.Value:
    """The largest with ``2**exponent <= size``: the logarithm, which may be off by one, mended."""
    log = b.op("Mul", b.op("Log", size), _double(b, 1 / math.log(2)))
    near = b.op("Clip", b.op("Floor", log), _double(b, least), _double(b, most))
    ratio = b.op("Div", size, b.op("Pow", _double(b, 2), near))
    above = b.cast(b.op("GreaterOrEqual", ratio, _double(b, 2)), np.float64)
    below = b.cast(b.op("Less", ratio, _double(b, 1)), np.float64)
    return b.op("Max", b.op("Sub", b.op("Add", near, above), below), _double(b, least))


def _float(b: Builder, bits: ir.Value, dtype: np.dtype) -> ir.Value:
    """The floats of bits, which are integers of any kind."""
    info = jnp.finfo(dtype)
    signed = b.cast(b.cast(bits, f"int{info.bits}"), np.int64)
    negative = b.op("Less", signed, _whole(b, 0))
    sign = b.op("Mul", b.cast(negative, np.int64), _whole(b, _sign(dtype)))
    rest = b.op("Sub", signed, sign)
    unit = _whole(b, 1 << info.nmant)
    head = b.op("Div", rest, unit)
    low = b.op("Sub", rest, b.op("Mul", head, unit))
    normal = b.op("Min", head, _whole(b, 1))
    digits = b.cast(b.op("Add", low, b.op("Mul", normal, unit)), np.float64)
    steps = b.cast(b.op("Sub", head, normal), np.float64)
    exponent = b.op("Add", steps, _double(b, info.minexp - info.nmant))
    size = b.op("Mul", digits, b.op("Pow", _double(b, 2), exponent))
    beyond = b.op("Greater", rest, _whole(b, _infinity(dtype)))
    size = b.op("Where", beyond, _double(b, math.nan), size)
    turn = b.op("Where", negative, _double(b, -1), _double(b, 1))  # Neg may make 0 of 0
    return b.cast(b.op("Mul", size, turn), dtype)


def _infinity(dtype: np.dtype) -> int:
    """The bits of infinity; those above are NaN's."""
    info = jnp.finfo(dtype)
    return ((1 << info.nexp) - 1) << info.nmant


def _sign(dtype: np.dtype) -> int:
    """The bit of the sign, as a signed integer of that width has it."""
    return -(1 << jnp.finfo(dtype).bits - 1)


def _double(b: Builder, number: float) -> ir.Value:
    return b.const(number, np.float64)


def _whole(b: Builder, number: int) -> ir.Value:
    return b.const(number, np.int64)
