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

from converter.ir import ops
from converter.ir.dtypes import is_float, is_integer
from converter.lower.builder import Builder
from converter.lower.formula import Term
from converter.lower.lowerings import lowers, unsupported


@lowers(ops.bitcast_convert_type)
def _(b: Builder, x: ir.Value, *, new_dtype: Any) -> ir.Value:
    old, new = b.operand().dtype, np.dtype(new_dtype)
    if old == new:
        return x
    numbers = all(is_float(dtype) or is_integer(dtype) for dtype in (old, new))
    if not numbers or old.itemsize != new.itemsize:
        raise unsupported(b.node, b.opset, "ONNX reinterprets bits only at the same width")
    term = Term(b, x)
    bits = _bits(term) if is_float(old) else term
    return (_float(bits, new) if is_float(new) else bits.cast(new)).value


@lowers(ops.bitcast_convert_type, since=26)
def _(b: Builder, x: ir.Value, *, new_dtype: Any) -> ir.Value:
    if b.operand().dtype.itemsize != np.dtype(new_dtype).itemsize:
        raise unsupported(b.node, b.opset, "ONNX reinterprets bits only at the same width")
    return b.op("BitCast", x, to=ir.DataType.from_numpy(np.dtype(new_dtype)))


def _bits(x: Term) -> Term:
    """The bits of floats in int64, of which a cast takes the low ones.

    ``(exponent - least) * 2**mantissa + size / 2**exponent * 2**mantissa``: subnormal numbers have
    the least exponent of the normal ones.
    """
    info, infinity = jnp.finfo(x.dtype), _infinity(x.dtype)
    wide = x.cast(np.float64)
    size = abs(wide)
    finite = size < math.inf
    some = finite.where(size, 0)
    exponent = _exponent(some, int(info.minexp), int(info.maxexp) - 1)
    low = (some / _two_to(exponent) * 2.0**info.nmant).cast(np.int64)
    steps = (exponent - info.minexp).cast(np.int64)
    bits = finite.where(steps * (1 << info.nmant) + low, infinity)
    bits = wide.is_nan().where(infinity + (1 << info.nmant - 1), bits)
    negative = (wide < 0) | (wide.apply("Reciprocal") < 0)
    return bits + negative.cast(np.int64) * _sign(x.dtype)


def _two_to(exponent: Term) -> Term:
    return exponent.number(2).apply("Pow", exponent)


def _exponent(size: Term, least: int, most: int) -> Term:
    """The largest with ``2**exponent <= size``: the logarithm, which may be off by one, mended."""
    log = size.apply("Log") * (1 / math.log(2))
    near = log.apply("Floor").apply("Clip", least, most)
    ratio = size / _two_to(near)
    above, below = (ratio >= 2).cast(np.float64), (ratio < 1).cast(np.float64)
    return (near + above - below).apply("Max", least)


def _float(bits: Term, dtype: np.dtype) -> Term:
    """The floats of bits, which are integers of any kind."""
    info = jnp.finfo(dtype)
    signed = bits.cast(f"int{info.bits}").cast(np.int64)
    negative = signed < 0
    rest = signed - negative.cast(np.int64) * _sign(dtype)
    unit = rest.number(1 << info.nmant)
    head = rest / unit
    low = rest - head * unit
    normal = head.apply("Min", 1)
    digits = (low + normal * unit).cast(np.float64)
    steps = (head - normal).cast(np.float64)
    size = digits * _two_to(steps + (info.minexp - info.nmant))
    size = rest.apply("Greater", _infinity(dtype)).where(math.nan, size)
    turn = negative.where(size.number(-1), 1)  # Neg may make 0 of 0
    return (size * turn).cast(dtype)


def _infinity(dtype: np.dtype) -> int:
    """The bits of infinity; those above are NaN's."""
    info = jnp.finfo(dtype)
    return ((1 << info.nexp) - 1) << info.nmant


def _sign(dtype: np.dtype) -> int:
    """The bit of the sign, as a signed integer of that width has it."""
    return -(1 << jnp.finfo(dtype).bits - 1)
