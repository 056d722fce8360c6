"""Functions that ONNX lacks, by formulas accurate to a few units in the last place of float32."""

from __future__ import annotations

import math

import onnx_ir as ir

from converter.graph import ops
from converter.lower.build import Builder
from converter.lower.formula import Term
from converter.lower.functions import atan, expm1, log1p, sign, tan
from converter.lower.registry import rule


@rule(ops.cbrt)
def _(b: Builder, x: ir.Value) -> ir.Value:
    """A power, and one step of Newton's method, as 1/3 is no float."""
    size = abs(Term(b, x))
    root = size.apply("Pow", 1 / 3)
    better = root - (root - size / (root * root)) / 3.0
    at_limit = (better - better).apply("IsNaN")  # of 0 and inf
    return (sign(Term(b, x)) * at_limit.where(root, better)).value


@rule(ops.expm1)
def _(b: Builder, x: ir.Value) -> ir.Value:
    return expm1(Term(b, x)).value


@rule(ops.log1p)
def _(b: Builder, x: ir.Value) -> ir.Value:
    return log1p(Term(b, x)).value


# Lanczos' approximation, g = 7, nine coefficients
LANCZOS_G = 7.0
LANCZOS = (
    676.520368121885098567009190444019,
    -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,
    -176.61502916214059906584551354,
    12.507343278686904814458936853,
    -0.13857109526572011689554707,
    9.984369578019570859563e-6,
    1.50563273514931155834e-7,
)


@rule(ops.lgamma)
def _(b: Builder, x: ir.Value) -> ir.Value:
    """Reflected below 1/2: ``log(pi / |sin(pi x)|) - lgamma(1 - x)``."""
    term = Term(b, x)
    reflect = term < 0.5
    z = reflect.where(-term, term - 1)
    total: Term = z.number(0.99999999999980993227684700473478)
    for i, coefficient in enumerate(LANCZOS):
        total = total + coefficient / (z + (i + 1))
    t = z + (LANCZOS_G + 0.5)
    log_t = log1p(z / (LANCZOS_G + 0.5)) + math.log(LANCZOS_G + 0.5)
    log_y = (z + 0.5 - t / log_t) * log_t + total.apply("Log") + math.log(2 * math.pi) / 2
    size = abs(term)
    part = size - size.apply("Floor")
    part = (part - 0.5 >= 0).where(1 - part, part)
    sine = (part * math.pi).apply("Sin").apply("Log")
    pole = sine.equals(-math.inf)  # also where log_y is infinite
    folded = pole.where(math.inf, math.log(math.pi) - sine - log_y)
    infinite = size.equals(math.inf)
    return infinite.where(math.inf, reflect.where(folded, log_y)).value


@rule(ops.digamma)
def _(b: Builder, x: ir.Value) -> ir.Value:
    """Reflected below 1/2: ``digamma(1 - x) - pi / tan(pi x)``; a pole at 0, -1, -2 …"""
    term = Term(b, x)
    reflect = term < 0.5
    z = reflect.where(-term, term - 1)
    top: Term = z.number(0)
    bottom: Term = z.number(0.99999999999980993227684700473478)
    for i, coefficient in enumerate(LANCZOS):
        step = z + (i + 1)
        top = top - coefficient / (step * step)
        bottom = bottom + coefficient / step
    t = z + (LANCZOS_G + 0.5)
    log_t = log1p(z / (LANCZOS_G + 0.5)) + math.log(LANCZOS_G + 0.5)
    y = log_t + top / bottom - LANCZOS_G / t
    fraction = (term + abs((term + 0.5).apply("Floor"))) * math.pi
    tangent = fraction.apply("Tan") if b.takes("Tan", b.out.dtype) else tan(fraction)
    folded = y - math.pi / tangent
    pole = _both(b, term.equals(term.apply("Floor")), term <= 0)
    return pole.where(math.nan, reflect.where(folded, y)).value


def _both(b: Builder, x: Term, y: Term) -> Term:
    return Term(b, b.op("And", x.value, y.value))


@rule(ops.atan2)
def _(b: Builder, y: ir.Value, x: ir.Value) -> ir.Value:
    """``atan(|y| / |x|)`` brought to its quadrant."""
    rise, run = Term(b, y), Term(b, x)
    diagonal = abs(rise).equals(abs(run))  # also inf / inf and 0 / 0
    ratio = abs(rise) / abs(run)
    turned = ratio.apply("Atan") if b.takes("Atan", b.out.dtype) else atan(ratio)
    angle = diagonal.where(math.pi / 4, turned)
    angle = _both(b, diagonal, rise.equals(0)).where(0, angle)
    angle = _signed(b, run).where(math.pi - angle, angle)
    return _signed(b, rise).where(-angle, angle).value


def _signed(b: Builder, x: Term) -> Term:
    """Below zero, or the negative zero."""
    return Term(b, b.op("Or", (x < 0).value, (1 / x < 0).value))


# ------------------------------------------------------------------------------------------- bits


@rule(ops.population_count, since=18)
def _(b: Builder, x: ir.Value) -> ir.Value:
    return b.cast(_population(b, _words(b, x)), b.out.dtype)


@rule(ops.clz, since=18)
def _(b: Builder, x: ir.Value) -> ir.Value:
    """Spread the leading one to the right, then count the zeros."""
    bits = b.out.dtype.itemsize * 8
    word = _words(b, x)
    for step in (1, 2, 4, 8, 16, 32):
        if step < bits:
            word = b.op("BitwiseOr", word, _right(b, word, step))
    return b.cast(b.op("Sub", b.const(bits, "uint64"), _population(b, word)), b.out.dtype)


def _words(b: Builder, x: ir.Value) -> ir.Value:
    """The bits of an integer in uint64, zeros on the left."""
    return b.cast(b.cast(x, f"uint{b.out.dtype.itemsize * 8}"), "uint64")


def _right(b: Builder, x: ir.Value, by: int) -> ir.Value:
    return b.op("BitShift", x, b.const(by, "uint64"), direction="RIGHT")


MASKS = (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F)  # every 2nd, 4th, 8th field


def _population(b: Builder, x: ir.Value) -> ir.Value:
    """Ones in a uint64: sums of pairs, of fours, of bytes, then all bytes by one product."""
    one, two, four = (b.const(mask, "uint64") for mask in MASKS)
    pairs = b.op("Sub", x, b.op("BitwiseAnd", _right(b, x, 1), one))
    low, high = (b.op("BitwiseAnd", v, two) for v in (pairs, _right(b, pairs, 2)))
    fours = b.op("Add", low, high)
    octets = b.op("BitwiseAnd", b.op("Add", fours, _right(b, fours, 4)), four)
    return _right(b, b.op("Mul", octets, b.const(0x0101010101010101, "uint64")), 56)
