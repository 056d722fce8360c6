"""Lower functions without an operator in ONNX or a kernel in the target.

They are computed by formulas, which are accurate to a few units in the last place.
"""

import math

import numpy as np

from converter.ir import ops
from converter.jax_versions import DIGAMMA_OF_ZERO
from converter.lower import coefficients as c
from converter.lower.elementwise import Term, formulas, operator_or_formula


def expm1_formula(x: Term) -> Term:
    """Return exp(x) - 1 as ``tanh(x/2) (exp(x) + 1)``: nothing cancels near zero, and the limits
    are right."""
    return (x * 0.5).apply("Tanh") * (x.apply("Exp") + 1)


def sign_or_one_formula(x: Term) -> Term:
    """Return -1 where a number is negative, else 1 (also for zeros and NaN)."""
    return (x < 0).where(-1, x.number(1))


def log1p_formula(x: Term) -> Term:
    """Return log(1 + x) as ``x log(u) / (u - 1)`` with ``u = 1 + x``.

    Both factors have the same rounding error of ``u``, which cancels. The result keeps the sign of
    zero, which a division may depend on; ONNX Runtime's ``Where`` does not.
    """
    u = x + 1
    difference = u - 1
    # At these values the quotient would be NaN.
    at_limit = difference.equals(0) | difference.equals(math.inf)
    return x * at_limit.where(1, u.apply("Log") / difference)


# The difference between pi / 2 and its value in float64.
ATAN_RESIDUAL = 6.123233995736765886130e-17


def atan_formula(x: Term) -> Term:
    """Return the arctangent by a rational function (Cephes).

    The argument is reduced to less than 0.66 by ``-1 / x`` above tan(3 pi / 8), and by ``(x - 1) /
    (x + 1)`` between the two.
    """
    size = abs(x)
    big, middle = size >= math.tan(3 * math.pi / 8), size >= 0.66
    z = big.where(-1 / size, middle.where((size - 1) / (size + 1), size))
    base = big.where(math.pi / 2, middle.where(math.pi / 4, x.number(0)))
    residual = big.where(ATAN_RESIDUAL, middle.where(ATAN_RESIDUAL / 2, x.number(0)))
    square = z * z
    ratio = square.ratio(c.ATAN)
    return sign_or_one_formula(x) * (base + (z * square * ratio + residual + z))


def tan_formula(x: Term) -> Term:
    """Return the tangent as sin(x) / cos(x)."""
    return x.apply("Sin") / x.apply("Cos")


def _sinh(x: Term) -> Term:
    """Return the hyperbolic sine as ``(e + e / (e + 1)) / 2`` with ``e = exp(|x|) - 1``, and the
    sign of x."""
    size = abs(x)
    exp_minus_one = expm1_formula(size)
    small = (exp_minus_one + exp_minus_one / (exp_minus_one + 1)) * 0.5
    return sign_or_one_formula(x) * (size >= 22).where(_half_exp(size), small)


def _cosh(x: Term) -> Term:
    """Return the hyperbolic cosine, without overflow before the result overflows."""
    size = abs(x)
    power = size.apply("Exp")
    return (size >= 22).where(_half_exp(size), (power + 1 / power) * 0.5)


def _half_exp(x: Term) -> Term:
    """Return ``exp(x) / 2`` without computing ``exp(x)``, which may overflow."""
    root = (x * 0.5).apply("Exp")
    return root * 0.5 * root


# The square of this number is so large that adding one does not change it.
NEGLIGIBLE_ONE = 2.0**28


def _asinh(x: Term) -> Term:
    """Return the inverse hyperbolic sine by ``log1p``, and by ``log(2 |x|)`` for large numbers."""
    size = abs(x)
    square = size * size
    small = log1p_formula(size + square / ((square + 1).apply("Sqrt") + 1))
    return sign_or_one_formula(x) * (size >= NEGLIGIBLE_ONE).where(
        size.apply("Log") + math.log(2), small
    )


def _acosh(x: Term) -> Term:
    """Return the inverse hyperbolic cosine by ``log1p`` of x - 1, and NaN below 1."""
    above = x - 1
    small = log1p_formula(above + (above * (above + 2)).apply("Sqrt"))
    inside = (x >= NEGLIGIBLE_ONE).where(x.apply("Log") + math.log(2), small)
    return (x < 1).where(math.nan, inside)


def _atanh(x: Term) -> Term:
    """Return the inverse hyperbolic tangent, ``log1p(2 |x| / (1 - |x|)) / 2`` with the sign of
    x."""
    size = abs(x)
    return sign_or_one_formula(x) * 0.5 * log1p_formula(2.0 * size / (1 - size))


formulas(
    {
        ops.expm1: expm1_formula,
        ops.log1p: log1p_formula,
        ops.acos: operator_or_formula(
            "Acos", lambda x: 2.0 * atan_formula(((1 - x) / (1 + x)).apply("Sqrt"))
        ),
        ops.acosh: operator_or_formula("Acosh", _acosh),
        ops.asin: operator_or_formula(
            "Asin", lambda x: atan_formula(x / ((1 - x) * (1 + x)).apply("Sqrt"))
        ),
        ops.asinh: operator_or_formula("Asinh", _asinh),
        ops.atan: operator_or_formula("Atan", atan_formula),
        ops.atanh: operator_or_formula("Atanh", _atanh),
        ops.cosh: operator_or_formula("Cosh", _cosh),
        ops.logistic: operator_or_formula("Sigmoid", lambda x: 1 / ((-x).apply("Exp") + 1)),
        ops.sinh: operator_or_formula("Sinh", _sinh),
        ops.tan: operator_or_formula("Tan", tan_formula),
    }
)


def _cbrt(x: Term) -> Term:
    """Return the cube root: a power and one step of Newton's method, since 1/3 is not a float.

    Zeros keep their signs.
    """
    size = abs(x)
    root = size.apply("Pow", 1 / 3)
    better = root - (root - size / (root * root)) / 3.0
    at_limit = (better - better).is_nan()  # true if x is zero or infinite
    return x * at_limit.where(1, better / size)


LANCZOS_G = 7.0
LANCZOS_FIRST = 0.99999999999980993227684700473478


def _shifted_logarithm(z: Term) -> tuple[Term, Term]:
    """Return ``t = z + g + 1/2`` and its logarithm, with g of Lanczos' approximation."""
    t = z + (LANCZOS_G + 0.5)
    return t, log1p_formula(z / (LANCZOS_G + 0.5)) + math.log(LANCZOS_G + 0.5)


def _lgamma(x: Term) -> Term:
    """Return the log-gamma function by Lanczos' approximation.

    Below 1/2 it is reflected: ``log(pi / |sin(pi x)|) - lgamma(1 - x)``.
    """
    reflect = x < 0.5
    z = reflect.where(-x, x - 1)
    total = z.number(LANCZOS_FIRST)
    for i, coefficient in enumerate(c.LANCZOS):
        total = total + coefficient / (z + (i + 1))
    t, log_t = _shifted_logarithm(z)
    log_y = (z + 0.5 - t / log_t) * log_t + total.apply("Log") + math.log(2 * math.pi) / 2
    size = abs(x)
    part = size - size.apply("Floor")
    part = (part - 0.5 >= 0).where(1 - part, part)
    sine = (part * math.pi).apply("Sin").apply("Log")
    pole = sine.equals(-math.inf)  # the result is infinite here even if log_y is infinite too
    folded = pole.where(math.inf, math.log(math.pi) - sine - log_y)
    infinite = size.equals(math.inf)
    return infinite.where(math.inf, reflect.where(folded, log_y))


def _digamma(x: Term) -> Term:
    """Return the digamma function, the derivative of Lanczos' approximation.

    Below 1/2 it is reflected: ``digamma(1 - x) - pi / tan(pi x)``. It is NaN at its poles -1, -2, …
    At 0 it is NaN or -inf, as in the installed version of JAX.
    """
    reflect = x < 0.5
    z = reflect.where(-x, x - 1)
    top, bottom = z.number(0), z.number(LANCZOS_FIRST)
    for i, coefficient in enumerate(c.LANCZOS):
        step = z + (i + 1)
        top = top - coefficient / (step * step)
        bottom = bottom + coefficient / step
    t, log_t = _shifted_logarithm(z)
    y = log_t + top / bottom - LANCZOS_G / t
    fraction = (x + abs((x + 0.5).apply("Floor"))) * math.pi
    folded = y - math.pi / operator_or_formula("Tan", tan_formula)(fraction)
    pole = x.equals(x.apply("Floor")) & (x <= 0)
    value = pole.where(math.nan, reflect.where(folded, y))
    return x.equals(0).where(DIGAMMA_OF_ZERO, value) if DIGAMMA_OF_ZERO < 0 else value


def _atan2(rise: Term, run: Term) -> Term:
    """Return the angle of the point (``run``, ``rise``): ``atan(|rise| / |run|)``, moved to the
    quadrant of the point."""
    # Also true for inf / inf and 0 / 0, which would be NaN.
    diagonal = abs(rise).equals(abs(run))
    angle_from_axis = operator_or_formula("Atan", atan_formula)(abs(rise) / abs(run))
    angle = diagonal.where(math.pi / 4, angle_from_axis)
    angle = (diagonal & rise.equals(0)).where(0, angle)
    angle = _has_minus_sign(run).where(math.pi - angle, angle)
    return _has_minus_sign(rise).where(-angle, angle)


def _has_minus_sign(x: Term) -> Term:
    """Return a condition that is true where a number is negative or the negative zero."""
    return (x < 0) | (1 / x < 0)


formulas({ops.atan2: _atan2, ops.cbrt: _cbrt, ops.digamma: _digamma, ops.lgamma: _lgamma})


def _scaled_erfc_32(x: Term) -> Term:
    """Return exp(x^2) erfc(x) for x of at least 1, to single precision."""
    inverse = 1 / x
    square = inverse * inverse
    below_2, above_2 = square.polynomial(c.ERFC_32_NEAR), square.polynomial(c.ERFC_32_FAR)
    return inverse * (x < 2).where(below_2, above_2)


def _small_erf_64(x: Term) -> Term:
    """Return erf(x) for numbers of size below 1, to double precision."""
    return x * (x * x).ratio(c.ERF_64)


def _scaled_erfc_64(x: Term) -> Term:
    """Return exp(x^2) erfc(x) for x of at least 1, to double precision."""
    below_8, above_8 = x.ratio(c.ERFC_64_NEAR), x.ratio(c.ERFC_64_FAR)
    return (x < 8).where(below_8, above_8)


ZERO_FROM = 28  # from this number on, exp(-x^2) is zero even in float64


def _erfc(x: Term, double: bool | None = None) -> Term:
    """Return erfc(x): 1 - erf(x) below 1, else exp(-x^2) times the scaled function exp(x^2)
    erfc(x).

    exp(-x^2) is computed in two factors, so that the rounding of x^2 does not matter: multiples of
    ``1 / steps`` have exact squares. ``double`` selects double precision, by default if x is
    float64.
    """
    double = x.dtype == np.float64 if double is None else double
    scaled_erfc, steps = (_scaled_erfc_64, 1024) if double else (_scaled_erfc_32, 16)
    size = abs(x)
    capped = size.apply("Min", ZERO_FROM)
    head = (capped * steps).apply("Floor") / steps
    remainder = (capped - head) * (capped + head)
    small = (-(head * head)).apply("Exp") * (-remainder).apply("Exp") * scaled_erfc(capped)
    outer = (x < 0).where(2 - small, small)
    below = size < 1
    return below.where(1 - (_small_erf_64(x) if double else x.apply("Erf")), outer)


def _erf(x: Term) -> Term:
    """Return erf(x) to double precision."""
    size = abs(x)
    outer = sign_or_one_formula(x) * (1 - _erfc(size, double=True))
    return (size < 1).where(_small_erf_64(x), outer)


def _erf_inv(x: Term) -> Term:
    """Return the inverse of erf by Giles' polynomials in w = -log(1 - x^2)."""
    w = -log1p_formula(-(x * x))
    factor = _erf_inv_ratio_64(w) if x.dtype == np.float64 else _erf_inv_ratio_32(w)
    return abs(x).equals(1).where(x * math.inf, factor * x)


def _erf_inv_ratio_32(w: Term) -> Term:
    """Return erf_inv(x) / x as a function of w = -log(1 - x^2), to single precision."""
    is_central = w < 5
    y = is_central.where(w - 2.5, w.apply("Sqrt") - 3)
    pairs = zip(c.ERF_INV_NEAR, c.ERF_INV_FAR, strict=True)
    return y.polynomial([is_central.where(n, f) for n, f in pairs])


def _erf_inv_ratio_64(w: Term) -> Term:
    """Return erf_inv(x) / x as a function of w = -log(1 - x^2), to double precision."""
    root = w.apply("Sqrt")
    outer = (root - 5).polynomial(c.ERF_INV_64_FAR)
    middle = (root - 3.25).polynomial(c.ERF_INV_64_MIDDLE)
    central = (w - 3.125).polynomial(c.ERF_INV_64_NEAR)
    return (w < 6.25).where(central, (w < 16).where(middle, outer))


formulas({ops.erf: operator_or_formula("Erf", _erf), ops.erfc: _erfc, ops.erf_inv: _erf_inv})
