"""Functions that ONNX lacks, by formulas accurate to a few units in the last place of float32."""

from __future__ import annotations

import math

from converter.ir import ops
from converter.lower.coefficients import LANCZOS
from converter.lower.formula import Term, either, formulas
from converter.lower.shared_formulas import lowered_atan, lowered_log1p, lowered_sign, lowered_tan


def _cbrt(x: Term) -> Term:
    """A power, and one step of Newton's method, as 1/3 is no float."""
    size = abs(x)
    root = size.apply("Pow", 1 / 3)
    better = root - (root - size / (root * root)) / 3.0
    at_limit = (better - better).is_nan()  # of 0 and inf
    return lowered_sign(x) * at_limit.where(root, better)


LANCZOS_G = 7.0
LANCZOS_FIRST = 0.99999999999980993227684700473478


def _special_shifted(z: Term) -> tuple[Term, Term]:
    """``t = z + g + 1/2`` and its logarithm."""
    t = z + (LANCZOS_G + 0.5)
    return t, lowered_log1p(z / (LANCZOS_G + 0.5)) + math.log(LANCZOS_G + 0.5)


def _lgamma(x: Term) -> Term:
    """Reflected below 1/2: ``log(pi / |sin(pi x)|) - lgamma(1 - x)``."""
    reflect = x < 0.5
    z = reflect.where(-x, x - 1)
    total = z.number(LANCZOS_FIRST)
    for i, coefficient in enumerate(LANCZOS):
        total = total + coefficient / (z + (i + 1))
    t, log_t = _special_shifted(z)
    log_y = (z + 0.5 - t / log_t) * log_t + total.apply("Log") + math.log(2 * math.pi) / 2
    size = abs(x)
    part = size - size.apply("Floor")
    part = (part - 0.5 >= 0).where(1 - part, part)
    sine = (part * math.pi).apply("Sin").apply("Log")
    pole = sine.equals(-math.inf)  # also where log_y is infinite
    folded = pole.where(math.inf, math.log(math.pi) - sine - log_y)
    infinite = size.equals(math.inf)
    return infinite.where(math.inf, reflect.where(folded, log_y))


def _digamma(x: Term) -> Term:
    """Reflected below 1/2: ``digamma(1 - x) - pi / tan(pi x)``; a pole at 0, -1, -2 …"""
    reflect = x < 0.5
    z = reflect.where(-x, x - 1)
    top, bottom = z.number(0), z.number(LANCZOS_FIRST)
    for i, coefficient in enumerate(LANCZOS):
        step = z + (i + 1)
        top = top - coefficient / (step * step)
        bottom = bottom + coefficient / step
    t, log_t = _special_shifted(z)
    y = log_t + top / bottom - LANCZOS_G / t
    fraction = (x + abs((x + 0.5).apply("Floor"))) * math.pi
    folded = y - math.pi / either("Tan", lowered_tan)(fraction)
    pole = x.equals(x.apply("Floor")) & (x <= 0)
    return pole.where(math.nan, reflect.where(folded, y))


def _atan2(rise: Term, run: Term) -> Term:
    """``atan(|y| / |x|)`` brought to its quadrant."""
    diagonal = abs(rise).equals(abs(run))  # also inf / inf and 0 / 0
    turned = either("Atan", lowered_atan)(abs(rise) / abs(run))
    angle = diagonal.where(math.pi / 4, turned)
    angle = (diagonal & rise.equals(0)).where(0, angle)
    angle = _signed(run).where(math.pi - angle, angle)
    return _signed(rise).where(-angle, angle)


def _signed(x: Term) -> Term:
    """Below zero, or the negative zero."""
    return (x < 0) | (1 / x < 0)


formulas(
    {
        ops.atan2: _atan2,
        ops.cbrt: _cbrt,
        ops.digamma: _digamma,
        ops.lgamma: _lgamma,
    }
)
