"""Roots, exponentials, logarithms, and the trigonometric and hyperbolic functions with their
inverses.

``asin``, ``acos`` and ``acosh`` are computed above the real axis and mirrored: ``f(conj(x)) =
conj(f(x))``. For these and for ``sqrt``, a number on a branch cut is treated as a number above the
cut, whatever the sign of its zero. For ``rsqrt``, ``log``, ``log1p``, ``pow`` and ``atanh``, the
sign of a zero determines the side of the cut, as in XLA. ``asinh`` and ``atan`` are computed by
``asin`` and ``atanh``. The formulas are from Kahan, Branch Cuts for Complex Elementary Functions,
1987.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from converter.decompositions.complex import algebra
from converter.decompositions.complex.algebra import (
    divide,
    larger_and_smaller_part,
    magnitude,
    one_like,
    polar_product,
)
from converter.decompositions.complex.complex_rules import complex_rule, register_complex_rules
from converter.ir.complex_pairs import Pair


def is_negative(x: jax.Array) -> jax.Array:
    """Return True where the sign is minus, also for a negative zero."""
    return (x < 0) | (1 / x < 0)


def copy_minus(x: jax.Array, like: jax.Array) -> jax.Array:
    """Return ``x`` with its sign changed where ``like`` is negative or a negative zero."""
    return jnp.where(is_negative(like), -x, x)


def first_quadrant_sqrt(x: Pair) -> Pair:
    """Return the square root of ``re + i |im|`` for ``x = re + i im``. It is in the first quadrant.

    The half-angle formula is used for the part that does not cancel; the other part follows from
    it.
    """
    high = jnp.abs(x.im)
    long = jnp.sqrt(jnp.abs(x.re) / 2 + magnitude(x) / 2)
    short = high / jnp.where((long == 0) | (high == jnp.inf), 1, long + long)
    forward = x.re >= 0
    return Pair(jnp.where(forward, long, short), jnp.where(forward, short, long))


@complex_rule("sqrt")
def sqrt(x: Pair) -> Pair:
    """Return the square root whose real part is not negative.

    On the negative real axis it has a positive imaginary part, whatever the sign of the zero, as in
    XLA.
    """
    principal = first_quadrant_sqrt(x)
    return Pair(principal.re, jnp.where(x.im < 0, -principal.im, principal.im))


@complex_rule("rsqrt")
def rsqrt(x: Pair) -> Pair:
    """Return ``1 / sqrt(x)``. On the negative real axis the sign of the imaginary zero decides the
    side."""
    principal = first_quadrant_sqrt(x)
    return divide(one_like(x), Pair(principal.re, copy_minus(principal.im, x.im)))


@complex_rule("exp")
def exp(x: Pair) -> Pair:
    """Return ``exp(x)``."""
    return polar_product(jnp.exp(x.re / 2), x.im)


SATURATED = 20
"""Real part from which on ``exp(-2 * x)`` is below the rounding error of one, also in float64."""


@complex_rule("expm1")
def expm1(x: Pair) -> Pair:
    """Return ``exp(x) - 1`` for ``x = a + i b``.

    The real part is ``expm1(a) cos(b) + (cos(b) - 1)``, where the second term is ``-2 sin(b /
    2)**2``.
    """
    large, half = exp(x), jnp.sin(x.im / 2)
    re = jnp.expm1(x.re) * jnp.cos(x.im) - 2 * half * half
    return Pair(jnp.where(x.re > SATURATED, large.re, re), large.im)


def log_magnitude(x: Pair, above_one: jax.Array) -> jax.Array:
    """Return the logarithm of the magnitude of ``x``.

    If the larger part is between 1/2 and 2, it is computed from ``above_one``, the square of the
    magnitude minus one. Elsewhere it is computed from the larger part.
    """
    large, small = larger_and_smaller_part(x)
    is_near_one = (large > 0.5) & (large < 2)
    ratio = small / jnp.where(algebra.is_finite_nonzero(large), large, 1)
    general = jnp.log(large) + jnp.log1p(ratio * ratio) / 2
    return jnp.where(is_near_one, jnp.log1p(jnp.where(is_near_one, above_one, 0)) / 2, general)


@complex_rule("log")
def log(x: Pair) -> Pair:
    """Return the logarithm, with an imaginary part from -π to π. On the negative real axis the sign
    of the imaginary zero decides between them."""
    large, small = larger_and_smaller_part(x)
    above_one = (large - 1) * (large + 1) + small * small
    return Pair(log_magnitude(x, above_one), jnp.arctan2(x.im, x.re))


@complex_rule("log1p")
def log1p(x: Pair) -> Pair:
    """Return ``log(1 + x)``."""
    above_one = x.re * (x.re + 2) + x.im * x.im
    y = Pair(1 + x.re, x.im)
    return Pair(log_magnitude(y, above_one), jnp.arctan2(y.im, y.re))


@complex_rule("pow")
def power(x: Pair, y: Any) -> Pair:
    """Return ``x ** y`` by magnitude and angle. ``y`` is a pair, or an array of integers. The angle
    is that of `log`."""
    if not isinstance(y, Pair):
        exponent = y.astype(x.re.dtype)
        y = Pair(exponent, jnp.zeros_like(exponent))
    polar = log(x)
    turn = jnp.where(y.im == 0, 0, y.im * polar.re)
    length = jnp.power(magnitude(x), y.re) * jnp.exp(-y.im * polar.im)
    angle = turn + y.re * polar.im
    return Pair(length * jnp.cos(angle), jnp.where(angle == 0, angle, length * jnp.sin(angle)))


@complex_rule("logistic")
def logistic(x: Pair) -> Pair:
    """Return ``1 / (1 + exp(-x))``."""
    decay = exp(Pair(-x.re, -x.im))
    return divide(one_like(x), Pair(1 + decay.re, decay.im))


@complex_rule("sinh")
def sinh(x: Pair) -> Pair:
    """Return ``sinh(x)``."""
    re, im = jnp.sinh(x.re) * jnp.cos(x.im), jnp.cosh(x.re) * jnp.sin(x.im)
    return Pair(re, jnp.where(x.im == 0, x.im, im))


@complex_rule("cosh")
def cosh(x: Pair) -> Pair:
    """Return ``cosh(x)``."""
    re, im = jnp.cosh(x.re) * jnp.cos(x.im), jnp.sinh(x.re) * jnp.sin(x.im)
    return Pair(re, jnp.where((x.re == 0) | (x.im == 0), 0, im))


def times_i(x: Pair) -> Pair:
    """Return ``i x``."""
    return Pair(-x.im, x.re)


def times_minus_i(x: Pair) -> Pair:
    """Return ``-i x``."""
    return Pair(x.im, -x.re)


@complex_rule("tanh")
def tanh(x: Pair) -> Pair:
    """Return ``tanh(x)`` for ``x = a + i b``.

    It is ``(sinh(2a) + i sin(2b)) / (cosh(2a) + cos(2b))``, by half angles, which do not cancel.
    """
    high, cosine = jnp.sinh(x.re), jnp.cos(x.im)
    length = high * high + cosine * cosine
    inner = Pair(high * jnp.cosh(x.re) / length, jnp.sin(x.im) * cosine / length)
    is_saturated = jnp.abs(x.re) > SATURATED
    return algebra.select(is_saturated, Pair(jnp.sign(x.re), jnp.zeros_like(x.im)), inner)


def _roots(x: Pair) -> tuple[Pair, Pair]:
    """Return the square roots of ``1 - conj(z)`` and of ``1 + z``, for ``z = re + i |im|`` with the
    parts of ``x``."""
    return first_quadrant_sqrt(Pair(1 - x.re, x.im)), first_quadrant_sqrt(Pair(1 + x.re, x.im))


def _imaginary_of_asin(root_below: Pair, root_above: Pair) -> jax.Array:
    """Return the magnitude of the imaginary part of ``asin(x)`` from the results of `_roots` for
    ``x``."""
    return jnp.arcsinh(root_below.re * root_above.im + root_below.im * root_above.re)


def _mirror(im: jax.Array, x: Pair) -> jax.Array:
    """Return ``im`` with its sign changed where the imaginary part of ``x`` is negative."""
    return jnp.where(x.im < 0, -im, im)


@complex_rule("asin")
def asin(x: Pair) -> Pair:
    """Return ``asin(x)``, computed above the real axis and mirrored."""
    root_below, root_above = _roots(x)
    angle = jnp.arctan2(x.re, root_below.re * root_above.re + root_below.im * root_above.im)
    return Pair(angle, _mirror(_imaginary_of_asin(root_below, root_above), x))


@complex_rule("acos")
def acos(x: Pair) -> Pair:
    """Return ``acos(x)``, computed above the real axis and mirrored."""
    root_below, root_above = _roots(x)
    return Pair(
        2 * jnp.arctan2(root_below.re, root_above.re),
        _mirror(-_imaginary_of_asin(root_below, root_above), x),
    )


@complex_rule("acosh")
def acosh(x: Pair) -> Pair:
    """Return ``acosh(x)``, computed above the real axis and mirrored."""
    root_below, root_above = _roots(x)
    return Pair(
        _imaginary_of_asin(root_below, root_above),
        _mirror(2 * jnp.arctan2(root_below.re, root_above.re), x),
    )


HUGE = 2.0**60
"""Magnitude beyond which the inverse tangent changes less than its rounding error; its square is
finite."""


@complex_rule("atanh")
def atanh(x: Pair) -> Pair:
    """Return ``atanh(x)``. The signs of zeros decide the side of a branch cut."""
    real_size, high = (jnp.minimum(jnp.abs(part), HUGE) for part in x)
    below_one = 1 - real_size
    re = jnp.log1p(4 * real_size / (below_one * below_one + high * high)) / 4
    im = jnp.arctan2(2 * high, below_one * (1 + real_size) - high * high) / 2
    return Pair(copy_minus(re, x.re), copy_minus(im, x.im))


register_complex_rules(
    {
        "exp2": lambda x: polar_product(jnp.exp2(x.re / 2), x.im * np.log(2).astype(x.im.dtype)),
        "sin": lambda x: times_minus_i(sinh(times_i(x))),
        "cos": lambda x: cosh(times_i(x)),
        "tan": lambda x: times_minus_i(tanh(times_i(x))),
        "asinh": lambda x: times_minus_i(asin(times_i(x))),
        "atan": lambda x: times_minus_i(atanh(times_i(x))),
    }
)
