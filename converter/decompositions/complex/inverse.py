"""Inverse trigonometric and hyperbolic functions.

All of them are found for numbers above the real axis and mirrored: ``f(conj(x)) = conj(f(x))``. As
in XLA the sign of a zero says on which side of a branch cut of ``atanh`` a number is, and what is
on one of the others is above it. The formulas are those of Kahan, Branch
Cuts for Complex Elementary Functions, 1987.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from converter.decompositions.complex.complex_rules import meaning
from converter.decompositions.complex.elementary import HINTS, root, signed, times_i, times_minus_i
from converter.ir.complex_pairs import Pair


def _roots(x: Pair) -> tuple[Pair, Pair]:
    """Roots of ``1 - x``, mirrored, and ``1 + x``, for ``x`` above the axis."""
    return root(Pair(1 - x.re, x.im)), root(Pair(1 + x.re, x.im))


def _height(less: Pair, more: Pair) -> jax.Array:
    """The imaginary part of ``asin`` above the axis."""
    return jnp.arcsinh(less.re * more.im + less.im * more.re)


def _mirrored(im: jax.Array, x: Pair) -> jax.Array:
    return jnp.where(x.im < 0, -im, im)


@meaning("asin", ignores=HINTS)
def asin(x: Pair) -> Pair:
    less, more = _roots(x)
    angle = jnp.arctan2(x.re, less.re * more.re + less.im * more.im)
    return Pair(angle, _mirrored(_height(less, more), x))


@meaning("acos", ignores=HINTS)
def acos(x: Pair) -> Pair:
    less, more = _roots(x)
    return Pair(2 * jnp.arctan2(less.re, more.re), _mirrored(-_height(less, more), x))


@meaning("acosh", ignores=HINTS)
def acosh(x: Pair) -> Pair:
    less, more = _roots(x)
    return Pair(_height(less, more), _mirrored(2 * jnp.arctan2(less.re, more.re), x))


@meaning("asinh", ignores=HINTS)
def asinh(x: Pair) -> Pair:
    return times_minus_i(asin(times_i(x)))


HUGE = 2.0**60
"""What is larger has the same inverse tangent, but for less than rounding; squares still fit."""


@meaning("atanh", ignores=HINTS)
def atanh(x: Pair) -> Pair:
    wide, high = (jnp.minimum(jnp.abs(part), HUGE) for part in x)
    left = 1 - wide
    re = jnp.log1p(4 * wide / (left * left + high * high)) / 4
    im = jnp.arctan2(2 * high, left * (1 + wide) - high * high) / 2
    return Pair(signed(re, x.re), signed(im, x.im))


@meaning("atan", ignores=HINTS)
def atan(x: Pair) -> Pair:
    return times_minus_i(atanh(times_i(x)))
