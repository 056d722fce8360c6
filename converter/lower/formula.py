"""Rules as formulas of ONNX values, and the arithmetic that they are written in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from converter.ir.op import Op
from converter.lower.builder import Builder
from converter.lower.lowerings import OLDEST, Lowering, lowers


def _operator_of(op: str) -> Callable[[Term, TermOperand], Term]:
    return lambda term, other: term.apply(op, other)


def _reflected_of(op: str) -> Callable[[Term, float], Term]:
    return lambda term, number: term.number(number).apply(op, term)


def _function_of(op: str) -> Callable[[Term], Term]:
    return lambda term: term.apply(op)


class Term:
    """An ONNX value with operators; numbers become constants of ``dtype``, which results keep.

    By default it is that of the first operand of the node being lowered.
    """

    __add__ = _operator_of("Add")
    __sub__ = _operator_of("Sub")
    __mul__ = _operator_of("Mul")
    __truediv__ = _operator_of("Div")
    __lt__ = _operator_of("Less")
    __le__ = _operator_of("LessOrEqual")
    __ge__ = _operator_of("GreaterOrEqual")
    __and__ = _operator_of("And")
    __or__ = _operator_of("Or")
    equals = _operator_of("Equal")
    __radd__ = _reflected_of("Add")
    __rsub__ = _reflected_of("Sub")
    __rmul__ = _reflected_of("Mul")
    __rtruediv__ = _reflected_of("Div")
    __neg__ = _function_of("Neg")
    __abs__ = _function_of("Abs")
    __invert__ = _function_of("Not")
    is_nan = _function_of("IsNaN")

    def __init__(self, b: Builder, value: ir.Value, dtype: Any = None) -> None:
        self._b = b
        self.value = value
        self.dtype = np.dtype(b.operand().dtype if dtype is None else dtype)

    def apply(self, op: str, *others: TermOperand, **attributes: Any) -> Term:
        values = [self._lift(other) for other in others]
        return self._term(self._b.op(op, self.value, *values, **attributes))

    def _term(self, value: ir.Value) -> Term:
        return Term(self._b, value, self.dtype)

    def _lift(self, operand: TermOperand) -> ir.Value:
        return operand.value if isinstance(operand, Term) else self.number(operand).value

    def number(self, number: float | np.ndarray) -> Term:
        return self._term(self._b.const(number, self.dtype))

    def cast(self, dtype: Any) -> Term:
        return Term(self._b, self._b.cast(self.value, dtype), dtype)

    def has(self, operator: str) -> bool:
        """Whether the target's operator takes the dtype."""
        return self._b.takes(operator, self.dtype)

    def where(self, yes: TermOperand, no: TermOperand) -> Term:
        """``yes`` where this condition holds, else ``no``; a number is of the other's dtype."""
        kind = next((term for term in (yes, no) if isinstance(term, Term)), self)
        return kind._term(self._b.op("Where", self.value, kind._lift(yes), kind._lift(no)))

    def polynomial(self, coefficients: Sequence[TermOperand]) -> Term:
        """Horner's rule, highest power first."""
        first, *rest = coefficients
        total = first if isinstance(first, Term) else self.number(first)
        for coefficient in rest:
            total = total * self + coefficient
        return total

    def ratio(self, of: tuple[Sequence[float], Sequence[float]]) -> Term:
        """Of two polynomials."""
        above, below = of
        return self.polynomial(above) / self.polynomial(below)


TermOperand: TypeAlias = Term | float
Formula: TypeAlias = Callable[..., Term]


def formulas(rows: Mapping[Op, Formula], since: int = OLDEST) -> None:
    """Register operations without parameters by formulas of their operands."""
    for op, formula in rows.items():
        lowers(op, since=since)(_lowering(formula))


def _lowering(formula: Formula) -> Lowering:
    def lowering(b: Builder, *xs: ir.Value) -> ir.Value:
        return formula(*(Term(b, x, v.dtype) for x, v in zip(xs, b.node.inputs, strict=True))).value

    return lowering


def either(operator: str, formula: Formula) -> Formula:
    """The operator of that name, and the formula where the target has no kernel of it."""
    return lambda x: x.apply(operator) if x.has(operator) else formula(x)
