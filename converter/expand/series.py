"""Special functions by their series and continued fractions.

Halves are computed in float32. Where JAX gives no number, these give none.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.expand.registry import expansion

Function = Callable[..., jax.Array]
State = tuple[jax.Array, ...]

ROUNDS = 2000
"""JAX's own limit; large arguments take about as many as their square root."""


def _in_float32(fn: Function) -> Function:
    """Halves become float32, and the result a half again."""

    @functools.wraps(fn)
    def wide(*xs: jax.Array) -> jax.Array:
        dtype = xs[0].dtype
        half = jnp.finfo(dtype).bits < 32
        return fn(*(x.astype(jnp.float32) for x in xs)).astype(dtype) if half else fn(*xs)

    return wide


def _eps(x: jax.Array) -> float:
    return float(jnp.finfo(x.dtype).eps)


def _polynomial(x: jax.Array, coefficients: Sequence[float]) -> jax.Array:
    """Horner's scheme, from the constant term on."""
    result = jnp.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = result * x + c
    return result


# ------------------------------------------------------------------------------------------ Bessel


def _scaled_bessel(x: jax.Array, order: int) -> jax.Array:
    """exp(-x) I_n(x) of a positive number.

    The power series up to where the asymptotic one has converged (Abramowitz and Stegun, Handbook
    of Mathematical Functions, 9.6.10 and 9.7.1).
    """
    switch, eps = (20.0, 1e-18) if x.dtype == np.float64 else (10.0, 1e-9)
    power, tail = [1.0], [1.0]
    while power[-1] > eps * sum(power):
        k = len(power)
        power.append(power[-1] * (switch / 2) ** 2 / (k * (k + order)))
    while abs(tail[-1]) > eps:
        k = len(tail)
        tail.append(tail[-1] * ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k * switch))
    near, far = jnp.minimum(x, switch), jnp.maximum(x, switch)
    small = jnp.exp(-near) * _polynomial((near / switch) ** 2, power)
    large = _polynomial(switch / far, tail) / jnp.sqrt(2 * math.pi * far)
    return jnp.where(x < switch, near / 2 * small if order else small, large)


@expansion("bessel_i0e")
@_in_float32
def bessel_i0e(x: jax.Array) -> jax.Array:
    return _scaled_bessel(jnp.abs(x), 0)


@expansion("bessel_i1e")
@_in_float32
def bessel_i1e(x: jax.Array) -> jax.Array:
    return jnp.sign(x) * _scaled_bessel(jnp.abs(x), 1)


# -------------------------------------------------------------------------------------------- zeta

BERNOULLI = (
    *(1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798),
    *(-174611 / 330, 854513 / 138, -236364091 / 2730),
)
DIRECT = 9
"""Terms that are added one by one."""


@expansion("zeta")
@_in_float32
def zeta(s: jax.Array, q: jax.Array) -> jax.Array:
    """Hurwitz' zeta function by Euler and Maclaurin's sum (Abramowitz and Stegun, 23.2.9)."""
    terms = [(q + float(k)) ** -s for k in range(DIRECT)]
    a = q + float(DIRECT)
    last = a**-s
    # What is not finite in it comes of terms that are, times a zero.
    total = sum(terms, last * (a / jnp.where(s == 1, jnp.ones_like(s), s - 1) + 0.5))
    factor = s * last / a
    for k, bernoulli in enumerate(BERNOULLI):
        total = total + factor * (bernoulli / math.factorial(2 * k + 2))
        factor = factor * ((s + (2 * k + 1)) / a) * ((s + (2 * k + 2)) / a)
    bare = jnp.isinf(terms[0]) | (jnp.abs(last) < _eps(s) ** 2 * jnp.abs(terms[0]))
    total = jnp.where(bare, sum(terms[1:], terms[0]), total)
    below = q <= 0
    whole = q == jnp.floor(q)
    even = (s == jnp.floor(s)) & (s / 2 == jnp.floor(s / 2))
    undefined = (s < 1) | (below & whole & ~even) | (below & (s != jnp.floor(s)))
    infinite = (s == 1) | (below & whole & even)
    return jnp.where(s < 1, jnp.nan, jnp.where(infinite, jnp.inf, _without(total, undefined)))


def _without(x: jax.Array, undefined: jax.Array) -> jax.Array:
    return jnp.where(undefined, jnp.full_like(x, jnp.nan), x)


@expansion("polygamma")
@_in_float32
def polygamma(n: jax.Array, x: jax.Array) -> jax.Array:
    """The derivatives of digamma, by zeta (Abramowitz and Stegun, 6.4.10)."""
    sign = jnp.where(n / 2 == jnp.floor(n / 2), -1.0, 1.0).astype(x.dtype)
    made = sign * jnp.exp(lax.lgamma(n + 1)) * zeta(n + 1, x)
    made = jnp.where(n == 0, lax.digamma(x), made)
    return _without(made, (n != jnp.floor(n)) | (n < 0))


# --------------------------------------------------------------------------- continued fractions


def _converged(step: Callable[[jax.Array, State], State], state: State, active: jax.Array) -> State:
    """Rounds until every last change is within rounding; the change is the state's last part."""

    def go_on(loop: tuple[jax.Array, jax.Array, State]) -> jax.Array:
        return (loop[0] < ROUNDS) & jnp.any(loop[1])

    def body(loop: tuple[jax.Array, jax.Array, State]) -> tuple[jax.Array, jax.Array, State]:
        count, active, state = loop
        after = step((count + 1).astype(state[0].dtype), state)
        kept = tuple(jnp.where(active, new, old) for new, old in zip(after, state, strict=True))
        return count + 1, active & (after[-1] > _eps(state[0]) / 2), kept

    return lax.while_loop(go_on, body, (jnp.int32(0), active, state))[-1]


def _safe(x: jax.Array) -> jax.Array:
    tiny = float(jnp.finfo(x.dtype).tiny) * 1e4
    return jnp.where(jnp.abs(x) < tiny, jnp.full_like(x, tiny), x)


def _gamma_series(a: jax.Array, x: jax.Array, active: jax.Array) -> jax.Array:
    """P(a, x) without its power (Abramowitz and Stegun, 6.5.29)."""

    def step(n: jax.Array, state: State) -> State:
        total, term, _ = state
        term = term * x / (a + n)
        return total + term, term, term / (total + term)

    one = jnp.ones_like(x)
    return _converged(step, (one, one, one), active)[0] / a


def _gamma_fraction(a: jax.Array, x: jax.Array, active: jax.Array) -> jax.Array:
    """Q(a, x) without its power (6.5.31), by Lentz' method (Numerical Recipes, 5.2)."""

    def step(n: jax.Array, state: State) -> State:
        value, c, d, _ = state
        numerator, denominator = -n * (n - a), x + 1 - a + 2 * n
        d = 1 / _safe(numerator * d + denominator)
        c = _safe(denominator + numerator / c)
        return value * c * d, c, d, jnp.abs(c * d - 1)

    one = jnp.ones_like(x)
    first = 1 / _safe(x + 1 - a)
    return _converged(step, (first, one / jnp.finfo(x.dtype).tiny / 1e4, first, one), active)[0]


def _gammas(a: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """P(a, x) and Q(a, x), the smaller one first computed."""
    both = ((a == 0) & (x == 0)) | (jnp.isinf(a) & (x > 0) & ~jnp.isinf(x))
    undefined = jnp.isnan(a) | jnp.isnan(x) | (a < 0) | (x < 0) | both
    none, all_ = x == 0, (a == 0) | jnp.isinf(x)
    inside = ~(undefined | none | all_)
    one = jnp.ones_like(x)
    a, x = jnp.where(inside, a, one), jnp.where(inside, x, one)
    power = jnp.exp(a * jnp.log(x) - x - lax.lgamma(a))
    low = (x <= 1) | (x <= a)
    lower = power * _gamma_series(a, jnp.where(low, x, one), inside & low)
    upper = power * _gamma_fraction(a, jnp.where(low, a + 2, x), inside & ~low)
    lower, upper = jnp.where(low, lower, 1 - upper), jnp.where(low, 1 - lower, upper)
    lower = jnp.where(none, 0, jnp.where(all_, 1, lower))
    upper = jnp.where(none, 1, jnp.where(all_, 0, upper))
    return _without(lower, undefined), _without(upper, undefined)


@expansion("igamma")
@_in_float32
def igamma(a: jax.Array, x: jax.Array) -> jax.Array:
    return _gammas(a, x)[0]


@expansion("igammac")
@_in_float32
def igammac(a: jax.Array, x: jax.Array) -> jax.Array:
    return _gammas(a, x)[1]


@expansion("regularized_incomplete_beta")
@_in_float32
def betainc(a: jax.Array, b: jax.Array, x: jax.Array) -> jax.Array:
    """By its continued fraction (Abramowitz and Stegun, 26.5.8; Numerical Recipes, 6.4)."""
    given = jnp.isnan(a) | jnp.isnan(b) | jnp.isnan(x)
    undefined = given | (a <= 0) | (b <= 0) | (x < 0) | (x > 1)
    inside = ~undefined & (x > 0) & (x < 1)
    half = jnp.full_like(x, 0.5)
    a, b = (jnp.where(undefined, jnp.ones_like(y), y) for y in (a, b))
    z = jnp.where(inside, x, half)
    power = jnp.exp(
        lax.lgamma(a + b) - lax.lgamma(a) - lax.lgamma(b) + a * jnp.log(z) + b * jnp.log1p(-z)
    )
    low = z < (a + 1) / (a + b + 2)
    p, q, y = jnp.where(low, a, b), jnp.where(low, b, a), jnp.where(low, z, 1 - z)
    part = power * _beta_fraction(p, q, y, inside) / p
    result = jnp.where(low, part, 1 - part)
    return _without(jnp.where(x <= 0, 0, jnp.where(x >= 1, 1, result)), undefined)


def _beta_fraction(a: jax.Array, b: jax.Array, x: jax.Array, active: jax.Array) -> jax.Array:
    def step(m: jax.Array, state: State) -> State:
        value, c, d, _ = state
        for numerator in (
            m * (b - m) * x / ((a - 1 + 2 * m) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 1 + 2 * m)),
        ):
            d = 1 / _safe(1 + numerator * d)
            c = _safe(1 + numerator / c)
            value = value * c * d
        return value, c, d, jnp.abs(c * d - 1)

    one = jnp.ones_like(x)
    first = 1 / _safe(1 - (a + b) * x / (a + 1))
    return _converged(step, (first, one, first, one), active)[0]
