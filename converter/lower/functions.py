"""Formulas that several rules share, accurate to a few units in the last place."""

from __future__ import annotations

import math

from converter.lower.formula import Term


def expm1(x: Term) -> Term:
    """``tanh(x/2) (exp(x) + 1)``: nothing cancels near zero, and the limits are right."""
    return (x * 0.5).apply("Tanh") * (x.apply("Exp") + 1)


def sign(x: Term) -> Term:
    """-1 below zero, else 1."""
    return (x < 0).where(-1, x.number(1))


def log1p(x: Term) -> Term:
    """``log(u) + (x - (u - 1)) / u`` with ``u = 1 + x``: what rounding ``u`` lost is added back."""
    u = x + 1
    lost = (x - (u - 1)) / u
    at_limit = lost.apply("IsNaN")  # x = -1, inf or itself NaN: log(u) alone is right
    return u.apply("Log") + at_limit.where(0, lost)


# Cephes' (Moshier)
ATAN_P = (
    -8.750608600031904122785e-1,
    -1.615753718733365076637e1,
    -7.500855792314704667340e1,
    -1.228866684490136173410e2,
    -6.485021904942025371773e1,
)
ATAN_Q = (
    1.0,
    2.485846490142306297962e1,
    1.650270098316988542046e2,
    4.328810604912902668951e2,
    4.853903996359136964868e2,
    1.945506571482613964425e2,
)
ATAN_LOST = 6.123233995736765886130e-17  # of pi / 2, beyond float64


def atan(x: Term) -> Term:
    """Brought below tan(pi / 8) by ``-1 / x`` and ``(x - 1) / (x + 1)``."""
    size = abs(x)
    big, middle = size >= math.tan(3 * math.pi / 8), size >= 0.66
    z = big.where(-1 / size, middle.where((size - 1) / (size + 1), size))
    base = big.where(math.pi / 2, middle.where(math.pi / 4, x.number(0)))
    lost = big.where(ATAN_LOST, middle.where(ATAN_LOST / 2, x.number(0)))
    square = z * z
    ratio = square.polynomial(ATAN_P) / square.polynomial(ATAN_Q)
    return sign(x) * (base + (z * square * ratio + lost + z))


def tan(x: Term) -> Term:
    return x.apply("Sin") / x.apply("Cos")
