"""Functions of float64 that the target has no kernel for: a few units in the last place off."""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx_ir as ir

from converter.graph import ops
from converter.graph.op import Op
from converter.lower.build import Builder
from converter.lower.formula import Term
from converter.lower.functions import atan, expm1, log1p, sign, tan
from converter.lower.registry import Lowering, rule


def _asin(x: Term) -> Term:
    return atan(x / ((1 - x) * (1 + x)).apply("Sqrt"))


def _acos(x: Term) -> Term:
    return 2.0 * atan(((1 - x) / (1 + x)).apply("Sqrt"))


def _sinh(x: Term) -> Term:
    """``(e + e / (e + 1)) / 2`` with ``e = exp(|x|) - 1``."""
    size = abs(x)
    less = expm1(size)
    small = (less + less / (less + 1)) * 0.5
    return sign(x) * (size >= 22).where(_half_exp(size), small)


def _cosh(x: Term) -> Term:
    size = abs(x)
    power = size.apply("Exp")
    return (size >= 22).where(_half_exp(size), (power + 1 / power) * 0.5)


def _half_exp(x: Term) -> Term:
    """``exp(x) / 2`` where ``exp(x)`` may be too large."""
    root = (x * 0.5).apply("Exp")
    return root * 0.5 * root


LARGE = 2.0**28  # one more or less is not seen in the square of these


def _asinh(x: Term) -> Term:
    size = abs(x)
    square = size * size
    small = log1p(size + square / ((square + 1).apply("Sqrt") + 1))
    return sign(x) * (size >= LARGE).where(size.apply("Log") + math.log(2), small)


def _acosh(x: Term) -> Term:
    above = x - 1
    small = log1p(above + (above * (above + 2)).apply("Sqrt"))
    inside = (x >= LARGE).where(x.apply("Log") + math.log(2), small)
    return (x < 1).where(math.nan, inside)


def _atanh(x: Term) -> Term:
    size = abs(x)
    return sign(x) * 0.5 * log1p(2.0 * size / (1 - size))


def _logistic(x: Term) -> Term:
    return 1 / ((-x).apply("Exp") + 1)


FORMULAS: dict[Op, tuple[str, Callable[[Term], Term]]] = {
    ops.acos: ("Acos", _acos),
    ops.acosh: ("Acosh", _acosh),
    ops.asin: ("Asin", _asin),
    ops.asinh: ("Asinh", _asinh),
    ops.atan: ("Atan", atan),
    ops.atanh: ("Atanh", _atanh),
    ops.cosh: ("Cosh", _cosh),
    ops.logistic: ("Sigmoid", _logistic),
    ops.sinh: ("Sinh", _sinh),
    ops.tan: ("Tan", tan),
}
"""The operator of each function, and the formula where it has no kernel."""


def _either(operator: str, formula: Callable[[Term], Term]) -> Lowering:
    def lowering(b: Builder, x: ir.Value) -> ir.Value:
        if b.takes(operator, b.operand().dtype):
            return b.op(operator, x)
        return formula(Term(b, x)).value

    return lowering


for _op, (_operator, _formula) in FORMULAS.items():
    rule(_op)(_either(_operator, _formula))
