"""The error function, its complement and its inverse."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from converter.ir import ops
from converter.lower import coefficients as c
from converter.lower.formula import Term, either, formulas
from converter.lower.shared_formulas import lowered_log1p, lowered_sign


@dataclass(frozen=True)
class Pieces:
    """Of what the complement is made in a precision.

    ``near`` is erf(x) below 1, ``tail`` is exp(x^2) erfc(x) from there on; numbers of ``1 / steps``
    have exact squares.
    """

    near: Callable[[Term], Term]
    tail: Callable[[Term], Term]
    steps: int


def _tail_32(x: Term) -> Term:
    inverse = 1 / x
    square = inverse * inverse
    near, far = square.polynomial(c.ERFC_32_NEAR), square.polynomial(c.ERFC_32_FAR)
    return inverse * (x < 2).where(near, far)


def _near_64(x: Term) -> Term:
    return x * (x * x).ratio(c.ERF_64)


def _tail_64(x: Term) -> Term:
    near, far = x.ratio(c.ERFC_64_NEAR), x.ratio(c.ERFC_64_FAR)
    return (x < 8).where(near, far)


SINGLE = Pieces(lambda x: x.apply("Erf"), _tail_32, steps=16)
DOUBLE = Pieces(_near_64, _tail_64, steps=1024)
ZERO_FROM = 28  # exp(-28^2) is none even in float64


def _erfc(x: Term, pieces: Pieces | None = None) -> Term:
    """``exp(-x^2)`` in two factors, as the rounding of ``x^2`` would be seen in it."""
    pieces = pieces or (DOUBLE if x.dtype == np.float64 else SINGLE)
    size = abs(x)
    capped = size.apply("Min", ZERO_FROM)
    head = (capped * pieces.steps).apply("Floor") / pieces.steps
    rest = (capped - head) * (capped + head)
    tail = (-(head * head)).apply("Exp") * (-rest).apply("Exp") * pieces.tail(capped)
    far = (x < 0).where(2 - tail, tail)
    return (size < 1).where(1 - pieces.near(x), far)


def _erf(x: Term) -> Term:
    size = abs(x)
    far = lowered_sign(x) * (1 - _erfc(size, DOUBLE))
    return (size < 1).where(_near_64(x), far)


def _erf_inv(x: Term) -> Term:
    w = -lowered_log1p(-(x * x))
    factor = _inverse_64(w) if x.dtype == np.float64 else _inverse_32(w)
    return abs(x).equals(1).where(x * math.inf, factor * x)


def _inverse_32(w: Term) -> Term:
    near = w < 5
    y = near.where(w - 2.5, w.apply("Sqrt") - 3)
    pairs = zip(c.ERF_INV_NEAR, c.ERF_INV_FAR, strict=True)
    return y.polynomial([near.where(n, f) for n, f in pairs])


def _inverse_64(w: Term) -> Term:
    root = w.apply("Sqrt")
    far = (root - 5).polynomial(c.ERF_INV_64_FAR)
    middle = (root - 3.25).polynomial(c.ERF_INV_64_MIDDLE)
    near = (w - 3.125).polynomial(c.ERF_INV_64_NEAR)
    return (w < 6.25).where(near, (w < 16).where(middle, far))


formulas({ops.erf: either("Erf", _erf), ops.erfc: _erfc, ops.erf_inv: _erf_inv})
