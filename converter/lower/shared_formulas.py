"""Functions that targets lack, most of them in float64 alone: a few units in the last place off."""

from __future__ import annotations

import math

from converter.ir import ops
from converter.lower.coefficients import ATAN
from converter.lower.formula import Term, either, formulas


def lowered_expm1(x: Term) -> Term:
    """``tanh(x/2) (exp(x) + 1)``: nothing cancels near zero, and the limits are right."""
    return (x * 0.5).apply("Tanh") * (x.apply("Exp") + 1)


def lowered_sign(x: Term) -> Term:
    """-1 below zero, else 1."""
    return (x < 0).where(-1, x.number(1))


def lowered_log1p(x: Term) -> Term:
    """``log(u) + (x - (u - 1)) / u`` with ``u = 1 + x``: what rounding ``u`` lost is added back."""
    u = x + 1
    lost = (x - (u - 1)) / u
    at_limit = lost.is_nan()  # x = -1, inf or itself NaN: log(u) alone is right
    return u.apply("Log") + at_limit.where(0, lost)


ATAN_LOST = 6.123233995736765886130e-17  # of pi / 2, beyond float64


def lowered_atan(x: Term) -> Term:
    """Brought below tan(pi / 8) by ``-1 / x`` and ``(x - 1) / (x + 1)``."""
    size = abs(x)
    big, middle = size >= math.tan(3 * math.pi / 8), size >= 0.66
    z = big.where(-1 / size, middle.where((size - 1) / (size + 1), size))
    base = big.where(math.pi / 2, middle.where(math.pi / 4, x.number(0)))
    lost = big.where(ATAN_LOST, middle.where(ATAN_LOST / 2, x.number(0)))
    square = z * z
    ratio = square.ratio(ATAN)
    return lowered_sign(x) * (base + (z * square * ratio + lost + z))


def lowered_tan(x: Term) -> Term:
    return x.apply("Sin") / x.apply("Cos")


def _sinh(x: Term) -> Term:
    """``(e + e / (e + 1)) / 2`` with ``e = exp(|x|) - 1``."""
    size = abs(x)
    less = lowered_expm1(size)
    small = (less + less / (less + 1)) * 0.5
    return lowered_sign(x) * (size >= 22).where(_half_exp(size), small)


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
    small = lowered_log1p(size + square / ((square + 1).apply("Sqrt") + 1))
    return lowered_sign(x) * (size >= LARGE).where(size.apply("Log") + math.log(2), small)


def _acosh(x: Term) -> Term:
    above = x - 1
    small = lowered_log1p(above + (above * (above + 2)).apply("Sqrt"))
    inside = (x >= LARGE).where(x.apply("Log") + math.log(2), small)
    return (x < 1).where(math.nan, inside)


def _atanh(x: Term) -> Term:
    size = abs(x)
    return lowered_sign(x) * 0.5 * lowered_log1p(2.0 * size / (1 - size))


formulas(
    {
        ops.expm1: lowered_expm1,
        ops.log1p: lowered_log1p,
        ops.acos: either("Acos", lambda x: 2.0 * lowered_atan(((1 - x) / (1 + x)).apply("Sqrt"))),
        ops.acosh: either("Acosh", _acosh),
        ops.asin: either("Asin", lambda x: lowered_atan(x / ((1 - x) * (1 + x)).apply("Sqrt"))),
        ops.asinh: either("Asinh", _asinh),
        ops.atan: either("Atan", lowered_atan),
        ops.atanh: either("Atanh", _atanh),
        ops.cosh: either("Cosh", _cosh),
        ops.logistic: either("Sigmoid", lambda x: 1 / ((-x).apply("Exp") + 1)),
        ops.sinh: either("Sinh", _sinh),
        ops.tan: either("Tan", lowered_tan),
    }
)
