"""The error function, its complement and its inverse."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from converter.graph import ops
from converter.lower import coefficients as c
from converter.lower.build import Builder
from converter.lower.formula import Term
from converter.lower.functions import log1p, sign
from converter.lower.registry import rule


@dataclass(frozen=True)
class Pieces:
    """What the complement is made of in a precision.

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
    square = x * x
    return x * (square.polynomial(c.ERF_64_ABOVE) / square.polynomial(c.ERF_64_BELOW))


def _tail_64(x: Term) -> Term:
    near = x.polynomial(c.ERFC_64_NEAR_ABOVE) / x.polynomial(c.ERFC_64_NEAR_BELOW)
    far = x.polynomial(c.ERFC_64_FAR_ABOVE) / x.polynomial(c.ERFC_64_FAR_BELOW)
    return (x < 8).where(near, far)


SINGLE = Pieces(lambda x: x.apply("Erf"), _tail_32, steps=16)
DOUBLE = Pieces(_near_64, _tail_64, steps=1024)
ZERO_FROM = 28  # exp(-28^2) is none even in float64


def _erfc(x: Term, pieces: Pieces) -> Term:
    """``exp(-x^2)`` in two factors, as the rounding of ``x^2`` would be seen in it."""
    size = abs(x)
    capped = size.apply("Min", ZERO_FROM)
    head = (capped * pieces.steps).apply("Floor") / pieces.steps
    rest = (capped - head) * (capped + head)
    tail = (-(head * head)).apply("Exp") * (-rest).apply("Exp") * pieces.tail(capped)
    far = (x < 0).where(2 - tail, tail)
    return (size < 1).where(1 - pieces.near(x), far)


def _pieces(b: Builder) -> Pieces:
    return DOUBLE if b.operand().dtype == np.float64 else SINGLE


@rule(ops.erfc)
def _(b: Builder, x: ir.Value) -> ir.Value:
    return _erfc(Term(b, x), _pieces(b)).value


@rule(ops.erf)
def _(b: Builder, x: ir.Value) -> ir.Value:
    if b.takes("Erf", b.operand().dtype):
        return b.op("Erf", x)
    term = Term(b, x)
    size = abs(term)
    far = sign(term) * (1 - _erfc(size, DOUBLE))
    return (size < 1).where(_near_64(term), far).value


@rule(ops.erf_inv)
def _(b: Builder, x: ir.Value) -> ir.Value:
    term = Term(b, x)
    w = -log1p(-(term * term))
    factor = _inverse_64(w) if b.operand().dtype == np.float64 else _inverse_32(w)
    edge = abs(term).equals(1)
    return edge.where(term * math.inf, factor * term).value


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
