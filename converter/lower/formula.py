"""Arithmetic on ONNX values that reads like a formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import onnx_ir as ir

from converter.lower.build import Builder


class Term:
    """An ONNX value with operators; numbers become constants of the dtype of ``like``."""

    def __init__(self, b: Builder, value: ir.Value) -> None:
        self._b = b
        self.value = value

    def apply(self, op: str, *others: Operand) -> Term:
        return Term(self._b, self._b.op(op, self.value, *(self._lift(o) for o in others)))

    def _lift(self, operand: Operand) -> ir.Value:
        return operand.value if isinstance(operand, Term) else self._b.like(operand)

    def number(self, number: float) -> Term:
        return Term(self._b, self._b.like(number))

    def __add__(self, other: Operand) -> Term:
        return self.apply("Add", other)

    def __sub__(self, other: Operand) -> Term:
        return self.apply("Sub", other)

    def __mul__(self, other: Operand) -> Term:
        return self.apply("Mul", other)

    def __truediv__(self, other: Operand) -> Term:
        return self.apply("Div", other)

    def __radd__(self, number: float) -> Term:
        return self.number(number).apply("Add", self)

    def __rsub__(self, number: float) -> Term:
        return self.number(number).apply("Sub", self)

    def __rmul__(self, number: float) -> Term:
        return self.number(number).apply("Mul", self)

    def __rtruediv__(self, number: float) -> Term:
        return self.number(number).apply("Div", self)

    def __neg__(self) -> Term:
        return self.apply("Neg")

    def __abs__(self) -> Term:
        return self.apply("Abs")

    def __lt__(self, other: Operand) -> Term:
        return self.apply("Less", other)

    def __le__(self, other: Operand) -> Term:
        return self.apply("LessOrEqual", other)

    def __ge__(self, other: Operand) -> Term:
        return self.apply("GreaterOrEqual", other)

    def equals(self, other: Operand) -> Term:
        return self.apply("Equal", other)

    def where(self, yes: Operand, no: Operand) -> Term:
        """``yes`` where this condition holds, else ``no``."""
        return self.apply("Where", yes, no)

    def polynomial(self, coefficients: Sequence[Operand]) -> Term:
        """Horner's rule, highest power first."""
        first, *rest = coefficients
        total = first if isinstance(first, Term) else self.number(first)
        for coefficient in rest:
            total = total * self + coefficient
        return total


Operand: TypeAlias = Term | float
