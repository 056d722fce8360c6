"""Lowering rules for elementwise operations: tables, and formulas in an arithmetic of ONNX
values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial, partialmethod
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from converter.ir import ops
from converter.ir.dtypes import is_float
from converter.ir.op import Op
from converter.lower.builder import Builder
from converter.lower.lowerings import lowers, register_operators, unsupported
from converter.opsets import OLDEST_OPSET


class Term:
    """An ONNX value with arithmetic operators. Each operator emits an ONNX node.

    Numbers become constants of ``dtype``, which is also the ``dtype`` of results. By default it is
    the dtype of the first operand of the node being lowered. The result of a comparison is a
    Boolean value, although its ``dtype`` is that of the operands.
    """

    def __init__(self, b: Builder, value: ir.Value, dtype: Any = None) -> None:
        self._b = b
        self.value = value
        self.dtype = np.dtype(b.operand().dtype if dtype is None else dtype)

    def apply(self, op: str, *operands: TermOperand, **attributes: Any) -> Term:
        """Emit an ONNX operator on this term and further operands, and return the result as a
        term."""
        values = [self._to_value(other) for other in operands]
        return self._as_term(self._b.op(op, self.value, *values, **attributes))

    def _apply_reversed(self, op: str, number: float) -> Term:
        """Emit an ONNX operator whose first operand is a number and whose second is this term."""
        return self.number(number).apply(op, self)

    __add__ = partialmethod(apply, "Add")
    __sub__ = partialmethod(apply, "Sub")
    __mul__ = partialmethod(apply, "Mul")
    __truediv__ = partialmethod(apply, "Div")
    __lt__ = partialmethod(apply, "Less")
    __le__ = partialmethod(apply, "LessOrEqual")
    __ge__ = partialmethod(apply, "GreaterOrEqual")
    __and__ = partialmethod(apply, "And")
    __or__ = partialmethod(apply, "Or")
    equals = partialmethod(apply, "Equal")
    __radd__ = partialmethod(_apply_reversed, "Add")
    __rsub__ = partialmethod(_apply_reversed, "Sub")
    __rmul__ = partialmethod(_apply_reversed, "Mul")
    __rtruediv__ = partialmethod(_apply_reversed, "Div")
    __neg__ = partialmethod(apply, "Neg")
    __abs__ = partialmethod(apply, "Abs")
    __invert__ = partialmethod(apply, "Not")
    is_nan = partialmethod(apply, "IsNaN")

    def _as_term(self, value: ir.Value) -> Term:
        """Return an ONNX value as a term of the same builder and dtype."""
        return Term(self._b, value, self.dtype)

    def _to_value(self, operand: TermOperand) -> ir.Value:
        """Return the ONNX value of a term, or of a number as a constant."""
        return operand.value if isinstance(operand, Term) else self.number(operand).value

    def number(self, number: float | np.ndarray) -> Term:
        """Return a number or array as a constant of this term's dtype."""
        return self._as_term(self._b.const(number, self.dtype))

    def cast(self, dtype: Any) -> Term:
        """Return this term cast to another dtype."""
        return Term(self._b, self._b.cast(self.value, dtype), dtype)

    def supports(self, operator: str) -> bool:
        """Return True if the target supports the ONNX operator for this term's dtype."""
        return self._b.has_operator(operator, self.dtype)

    def where(self, yes: TermOperand, no: TermOperand) -> Term:
        """Return ``yes`` where this term, a condition, is true, else ``no``.

        A number gets the dtype of the other operand if that is a term, else the ``dtype`` of this
        term.
        """
        typed_term = next((term for term in (yes, no) if isinstance(term, Term)), self)
        return typed_term._as_term(
            self._b.op("Where", self.value, typed_term._to_value(yes), typed_term._to_value(no))
        )

    def polynomial(self, coefficients: Sequence[TermOperand]) -> Term:
        """Return the polynomial of this term by Horner's rule. The coefficients start with the
        highest power."""
        first, *further_coefficients = coefficients
        total = first if isinstance(first, Term) else self.number(first)
        for coefficient in further_coefficients:
            total = total * self + coefficient
        return total

    def ratio(self, polynomials: tuple[Sequence[float], Sequence[float]]) -> Term:
        """Return the quotient of two polynomials of this term, numerator and denominator."""
        numerator, denominator = polynomials
        return self.polynomial(numerator) / self.polynomial(denominator)


TermOperand: TypeAlias = Term | float
Formula: TypeAlias = Callable[..., Term]


def formulas(rows: Mapping[Op, Formula], since: int = OLDEST_OPSET) -> None:
    """Register a formula as the lowering rule of each operation.

    A formula gets the operands as terms and returns the result. The operations have no parameters.
    ``since`` is the first opset of the rules.
    """
    for op, formula in rows.items():
        lowers(op, since=since)(partial(_apply_formula, formula))


def _apply_formula(formula: Formula, b: Builder, *xs: ir.Value) -> ir.Value:
    """Return the ONNX value of a formula of the operands. The rules of `formulas` are partial
    applications of this function."""
    return formula(*(Term(b, x, v.dtype) for x, v in zip(xs, b.node.inputs, strict=True))).value


def operator_or_formula(operator: str, formula: Formula) -> Formula:
    """Return a formula of one term that emits the operator if the target supports it for the dtype,
    or else applies ``formula``."""
    return lambda x: x.apply(operator) if x.supports(operator) else formula(x)


# ---------------------------------------------------------------------------------------- the rules

_SAME_NAMES = (
    *(ops.abs, ops.add, ops.ceil, ops.cos, ops.div, ops.exp, ops.floor, ops.log, ops.max, ops.min),
    *(ops.mul, ops.neg, ops.pow, ops.sign, ops.sin, ops.sqrt, ops.sub, ops.tanh, ops.relu),
)
register_operators({op: op.name.capitalize() for op in _SAME_NAMES})
register_operators({ops.add_any: "Add", ops.matmul: "MatMul", ops.eq: "Equal"})
register_operators(
    {ops.lt: "Less", ops.le: "LessOrEqual", ops.gt: "Greater", ops.ge: "GreaterOrEqual"}
)

formulas(
    {
        ops.exp2: lambda x: x.number(2).apply("Pow", x),
        ops.is_finite: lambda x: abs(x) < math.inf,
        ops.one_minus_square: lambda x: 1 - x * x,  # jax >= 0.12: the derivative of tanh
        ops.rem: lambda x, y: x.apply("Mod", y, fmod=1),  # the result has the sign of the dividend
        ops.rsqrt: lambda x: x.apply("Sqrt").apply("Reciprocal"),
        ops.square: lambda x: x * x,
        # In this total order NaN is equal to itself and larger than all other numbers, and 0.0 is
        # equal to -0.0.
        ops.eq_to: lambda x, y: x.equals(y) | x.is_nan() & y.is_nan(),
        ops.le_to: lambda x, y: (x <= y) | y.is_nan(),
        ops.lt_to: lambda x, y: (x < y) | y.is_nan() & ~x.is_nan(),
    }
)


@lowers(ops.ne)
def _(b: Builder, x: ir.Value, y: ir.Value) -> ir.Value:
    """Lower an inequality. ``x != x`` is ``IsNaN``, because only NaN differs from itself."""
    if x is y and is_float(b.operand().dtype):
        return b.op("IsNaN", x)
    return b.op("Not", b.op("Equal", x, y))


@lowers(ops.polynomial)  # jax >= 0.12
def _(b: Builder, x: ir.Value, *coefficients: ir.Value) -> ir.Value:
    """Lower a polynomial by Horner's rule. Its coefficients start with the constant."""
    if len(coefficients) == 1:
        return b.expand(coefficients[0], b.operand(1).shape, b.out.shape)
    return Term(b, x).polynomial([Term(b, c) for c in reversed(coefficients)]).value


@lowers(ops.integer_pow)
def _(b: Builder, x: ir.Value, *, y: int) -> ir.Value:
    """Lower an integer power by repeated squaring.

    JAX computes it in the same way, so that integers wrap around and floats are rounded as in JAX.
    """
    if y == 0:
        return b.expand(b.like(1), (), b.out.shape)
    result, square, remaining_exponent = None, x, abs(y)
    while remaining_exponent:
        if remaining_exponent & 1:
            result = square if result is None else b.op("Mul", result, square)
        remaining_exponent >>= 1
        square = b.op("Mul", square, square) if remaining_exponent else square
    assert result is not None
    return b.op("Reciprocal", result) if y < 0 else result


@lowers(ops.round)
def _(b: Builder, x: ir.Value, *, rounding_method: int) -> ir.Value:
    """Lower rounding. Method 1 rounds halves to even, like ``Round``. Method 0 rounds them away
    from zero."""
    if int(rounding_method) == 1:
        return b.op("Round", x)
    term = Term(b, x)
    size = abs(term)
    floor = size.apply("Floor")
    # This is not floor(x + 0.5), because that would round 0.49999997 up to 1.
    up = (size - floor >= 0.5).where(1, 0)
    return ((floor + up) * term.apply("Sign")).value


@lowers(ops.clamp)
def _(b: Builder, low: ir.Value, x: ir.Value, high: ir.Value) -> ir.Value:
    """Lower a clamp to ``Clip`` if its bounds are scalars, otherwise to ``Max`` and ``Min``."""
    if b.operand(0).rank == b.operand(2).rank == 0:
        return b.op("Clip", x, low, high)
    return b.op("Min", b.op("Max", x, low), high)


@lowers(ops.select_n)
def _(b: Builder, selector: ir.Value, *cases: ir.Value) -> ir.Value:
    """Lower a selection: ``cases[selector]``, element by element.

    A Boolean selects one of two. An integer out of range selects the nearest case.
    """
    if b.operand().dtype == np.bool_:
        return b.op("Where", selector, *cases[::-1]) if len(cases) == 2 else cases[0]
    result = cases[-1]
    for i in reversed(range(len(cases) - 1)):
        result = b.op("Where", b.op("LessOrEqual", selector, b.like(i)), cases[i], result)
    return result


@lowers(ops.convert_element_type)
def _(b: Builder, x: ir.Value, *, new_dtype: Any) -> ir.Value:
    """Lower a conversion. Floats are converted to four-bit integers in two steps, with eight-bit
    integers in between, so that they are truncated."""
    eight_bit_dtype = {"int4": np.int8, "uint4": np.uint8}.get(np.dtype(new_dtype).name)
    return b.cast(x if eight_bit_dtype is None else b.cast(x, eight_bit_dtype), new_dtype)


# The float formats of ONNX by (exponent bits, mantissa bits).
PRECISIONS = {(8, 7): np.dtype(jnp.bfloat16), (5, 10): np.dtype(np.float16)}


@lowers(ops.reduce_precision)
def _(b: Builder, x: ir.Value, *, exponent_bits: int, mantissa_bits: int) -> ir.Value:
    """Lower a rounding to fewer bits by a cast to the ONNX format of that precision and back.

    As in XLA, numbers that are subnormal in that format become zero, unless the operand is in half
    precision or the format has as many exponent bits.

    **Raises** `UnsupportedError` if ONNX has no format of that precision.
    """
    info = jnp.finfo(b.out.dtype)
    if exponent_bits >= info.nexp and mantissa_bits >= info.nmant:
        return x
    narrow_dtype = PRECISIONS.get((exponent_bits, mantissa_bits))
    if narrow_dtype is None:
        raise unsupported(b.node, b.opset, "ONNX has no floating point format of that precision")
    rounded = Term(b, x).cast(narrow_dtype).cast(b.out.dtype)
    if exponent_bits == info.nexp or info.bits < 32:
        return rounded.value
    # XLA flushes numbers that are subnormal in the narrow format to zero, but not if the operand is
    # in half precision.
    smallest_normal = float(jnp.finfo(narrow_dtype).smallest_normal)
    return (abs(rounded) < smallest_normal).where(rounded * 0, rounded).value
