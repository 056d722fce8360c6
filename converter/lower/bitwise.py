"""Lower bitwise operations on integers and floats, with the operators of opset 18 or without, and
logic on Booleans."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from converter.ir import ops
from converter.ir.dtypes import is_float, is_integer
from converter.lower.builder import Builder
from converter.lower.elementwise import Term, formulas
from converter.lower.lowerings import lowers, unsupported
from converter.targets.schemas import SINCE, operator_name


@lowers(ops.and_, ops.or_, ops.xor, ops.not_, since=SINCE["BitwiseAnd"])
def _(b: Builder, *xs: ir.Value) -> ir.Value:
    """Lower a bitwise or Boolean operation to its operator."""
    name = operator_name(b.node.op)
    return b.op(name if b.out.dtype == np.bool_ else f"Bitwise{name}", *xs)


@lowers(ops.and_, ops.or_, ops.xor, ops.not_)
def _(b: Builder, *xs: ir.Value) -> ir.Value:
    """Lower bitwise operations without ONNX operators for them.

    Integers are unpacked into bits, and a matrix product packs the result.
    """
    name = operator_name(b.node.op)
    if b.out.dtype == np.bool_:
        return b.op(name, *xs)
    width = b.out.dtype.itemsize * 8
    if name == "Not":
        ones = b.const((1 << width) - 1, np.uint64)
        return _to_output_dtype(b, b.op("Sub", ones, _to_uint64(Term(b, xs[0])).value), width)
    left, right = (_unpack_bits(b, x, width) for x in xs)
    number = b.op("Mul", left, right)
    if name != "And":
        count = b.const(1 if name == "Or" else 2, np.int64)
        number = b.op("Sub", b.op("Add", left, right), b.op("Mul", number, count))
    powers = b.const(np.left_shift(np.uint64(1), np.arange(width, dtype=np.uint64)).view(np.int64))
    return _to_output_dtype(b, b.op("MatMul", number, powers), width)


def _to_uint64(x: Term) -> Term:
    """Return an integer as uint64, with zeros in the added high bits."""
    return x.cast(f"uint{x.dtype.itemsize * 8}").cast(np.uint64)


def _to_output_dtype(b: Builder, x: ir.Value, width: int) -> ir.Value:
    """Return the lowest ``width`` bits of ``x``, an integer, as an integer of the output's
    dtype."""
    return b.cast(b.cast(x, f"uint{width}"), b.out.dtype)


def _unpack_bits(b: Builder, x: ir.Value, width: int) -> ir.Value:
    """Return the ``width`` bits of an integer as 0 and 1 in int64, the lowest first, on a new last
    axis."""
    word = b.op("Unsqueeze", _to_uint64(Term(b, x)).value, b.ints([-1]))
    shifted = b.op("BitShift", word, b.const(np.arange(width), np.uint64), direction="RIGHT")
    high_part = b.op("BitShift", shifted, b.const(1, np.uint64), direction="RIGHT")
    return b.cast(b.op("Sub", shifted, b.op("Mul", high_part, b.const(2, np.uint64))), np.int64)


def _shift_right(x: Term, shift: int) -> Term:
    """Shift the bits of an unsigned integer to the right by a constant."""
    return x.apply("BitShift", shift, direction="RIGHT")


# Masks that select every second field of 1, 2 and 4 bits.
MASKS = (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F)


def _count_ones(x: Term) -> Term:
    """Return the number of ones in the bits of a uint64.

    The bits are summed in pairs, then in groups of four, then in bytes. A product sums all bytes.
    """
    one, two, four = (x.number(mask) for mask in MASKS)
    pairs = x - _shift_right(x, 1).apply("BitwiseAnd", one)
    high = _shift_right(pairs, 2)
    fours = pairs.apply("BitwiseAnd", two) + high.apply("BitwiseAnd", two)
    octets = (fours + _shift_right(fours, 4)).apply("BitwiseAnd", four)
    return _shift_right(octets * 0x0101010101010101, 56)


def _leading_zeros(x: Term) -> Term:
    """Return the number of leading zeros in the bits of an integer, in its dtype.

    The leading one is copied to all lower bits, and the zeros that remain are counted.
    """
    bits, word = x.dtype.itemsize * 8, _to_uint64(x)
    for step in (1, 2, 4, 8, 16, 32):
        if step < bits:
            word = word.apply("BitwiseOr", _shift_right(word, step))
    return (word.number(bits) - _count_ones(word)).cast(x.dtype)


formulas(
    {
        ops.clz: _leading_zeros,
        ops.population_count: lambda x: _count_ones(_to_uint64(x)).cast(x.dtype),
    },
    since=SINCE["BitwiseOr"],
)


def _shift(b: Builder, x: Term, shift: ir.Value, direction: str) -> Term:
    """Shift the bits of ``x`` as an unsigned integer of 32 or 64 bits, the only types of
    ``BitShift``.

    ``direction`` is "LEFT" or "RIGHT". The result of a shift by the number of bits or more is zero,
    as in JAX. Widening through the unsigned type of the same width fills with zeros on the left.
    """
    bits = x.dtype.itemsize * 8
    shift_dtype = np.dtype(np.uint64 if bits == 64 else np.uint32)
    unsigned = x if x.dtype == shift_dtype else x.cast(f"uint{bits}").cast(shift_dtype)
    constant_shift = b.operand(1).const
    if constant_shift is not None and np.all((constant_shift >= 0) & (constant_shift < bits)):
        shifted = unsigned.apply("BitShift", unsigned.number(constant_shift), direction=direction)
    else:
        amount = Term(b, shift).cast(np.int64).apply("Min", bits).cast(shift_dtype)
        # The result of a shift by the number of bits or more is undefined in C++.
        is_in_range = amount < bits
        shifted = unsigned.apply("BitShift", amount, direction=direction)
        # ONNX Runtime has no kernel of Where for uint64, so the value is multiplied by the
        # condition.
        shifted = shifted * is_in_range.cast(shift_dtype)
    return shifted if x.dtype == shift_dtype else shifted.cast(f"uint{bits}").cast(x.dtype)


@lowers(ops.shift_left, ops.shift_right_logical)
def _(b: Builder, x: ir.Value, shift: ir.Value) -> ir.Value:
    """Lower a shift that fills with zeros. ``shift`` contains the number of bits."""
    return _shift(b, Term(b, x), shift, "LEFT" if b.node.op is ops.shift_left else "RIGHT").value


@lowers(ops.shift_right_arithmetic)
def _(b: Builder, x: ir.Value, shift: ir.Value) -> ir.Value:
    """Lower an arithmetic shift: negative numbers are shifted as complements, ``~(~x >> n)`` with
    ``~x = -1 - x``.

    The highest bit of an unsigned integer is also treated as a sign, as in JAX.
    """
    bits = b.out.dtype.itemsize * 8
    signed_dtype = np.int64 if bits == 64 else np.int32
    signed = Term(b, x).cast(f"int{bits}").cast(signed_dtype)
    minus = signed.number(-1)
    negative = signed < 0
    nonnegative = signed.apply("Max", minus - signed).cast(b.out.dtype)
    shifted = _shift(b, nonnegative, shift, "RIGHT").cast(signed_dtype)
    return negative.where(minus - shifted, shifted).cast(b.out.dtype).value


@lowers(ops.bitcast_convert_type)
def _(b: Builder, x: ir.Value, *, new_dtype: Any) -> ir.Value:
    """Lower a reinterpretation of bits by arithmetic.

    **Raises** `UnsupportedError` for dtypes of different widths, and for others than integers and
    floats.
    """
    old_dtype, new = b.operand().dtype, np.dtype(new_dtype)
    if old_dtype == new:
        return x
    are_numbers = all(is_float(dtype) or is_integer(dtype) for dtype in (old_dtype, new))
    if not are_numbers or old_dtype.itemsize != new.itemsize:
        raise unsupported(b.node, b.opset, "ONNX reinterprets bits only at the same width")
    term = Term(b, x)
    bits = _float_bits(term) if is_float(old_dtype) else term
    return (_bits_to_float(bits, new) if is_float(new) else bits.cast(new)).value


@lowers(ops.bitcast_convert_type, since=SINCE["BitCast"])
def _(b: Builder, x: ir.Value, *, new_dtype: Any) -> ir.Value:
    """Lower a reinterpretation of bits to ``BitCast``.

    **Raises** `UnsupportedError` for dtypes of different widths.
    """
    if b.operand().dtype.itemsize != np.dtype(new_dtype).itemsize:
        raise unsupported(b.node, b.opset, "ONNX reinterprets bits only at the same width")
    return b.op("BitCast", x, to=ir.DataType.from_numpy(np.dtype(new_dtype)))


def _float_bits(x: Term) -> Term:
    """Return the bits of floats in int64. Only the low bits, as many as the dtype has, are
    meaningful.

    They are ``(exponent - minexp) * 2**nmant + size / 2**exponent * 2**nmant``. Subnormal numbers
    have the smallest exponent of the normal ones.
    """
    info, infinity = jnp.finfo(x.dtype), _infinity(x.dtype)
    numbers = x.cast(np.float64)
    size = abs(numbers)
    finite = size < math.inf
    finite_size = finite.where(size, 0)
    exponent = _exponent(finite_size, int(info.minexp), int(info.maxexp) - 1)
    low = (finite_size / _two_to(exponent) * 2.0**info.nmant).cast(np.int64)
    steps = (exponent - info.minexp).cast(np.int64)
    bits = finite.where(steps * (1 << info.nmant) + low, infinity)
    bits = numbers.is_nan().where(infinity + (1 << info.nmant - 1), bits)
    negative = (numbers < 0) | (numbers.apply("Reciprocal") < 0)
    return bits + negative.cast(np.int64) * _sign_bit(x.dtype)


def _two_to(exponent: Term) -> Term:
    """Return 2 to the power of an exponent."""
    return exponent.number(2).apply("Pow", exponent)


def _exponent(size: Term, lowest: int, highest: int) -> Term:
    """Return the largest exponent with ``2**exponent <= size``, limited to ``lowest`` and
    ``highest``.

    It is a logarithm, corrected by at most one.
    """
    log = size.apply("Log") * (1 / math.log(2))
    exponent = log.apply("Floor").apply("Clip", lowest, highest)
    ratio = size / _two_to(exponent)
    above, below = (ratio >= 2).cast(np.float64), (ratio < 1).cast(np.float64)
    return (exponent + above - below).apply("Max", lowest)


def _bits_to_float(bits: Term, dtype: np.dtype) -> Term:
    """Return the floats of this dtype that have the given bits, which are integers of any type."""
    info = jnp.finfo(dtype)
    signed = bits.cast(f"int{info.bits}").cast(np.int64)
    negative = signed < 0
    magnitude = signed - negative.cast(np.int64) * _sign_bit(dtype)
    unit = magnitude.number(1 << info.nmant)
    head = magnitude / unit
    low = magnitude - head * unit
    normal = head.apply("Min", 1)
    digits = (low + normal * unit).cast(np.float64)
    steps = (head - normal).cast(np.float64)
    size = digits * _two_to(steps + (info.minexp - info.nmant))
    size = magnitude.apply("Greater", _infinity(dtype)).where(math.nan, size)
    # Neg is not used, because it may return 0 instead of -0.
    sign = negative.where(size.number(-1), 1)
    return (size * sign).cast(dtype)


def _infinity(dtype: np.dtype) -> int:
    """Return the bits of infinity as an integer. Larger integers are the bits of NaN."""
    info = jnp.finfo(dtype)
    return ((1 << info.nexp) - 1) << info.nmant


def _sign_bit(dtype: np.dtype) -> int:
    """Return the value of the sign bit in a signed integer of the dtype's width, which is its least
    number."""
    return -(1 << jnp.finfo(dtype).bits - 1)
