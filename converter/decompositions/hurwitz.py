"""Hurwitz' zeta function and the derivatives of digamma, which are made of it."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax

from converter.decompositions.narrow_floats import widened
from converter.decompositions.registered import decomposition

TERMS = 10
# B(2j) / (2j)! for j = 1, 2 …: of Euler and Maclaurin's formula
BERNOULLI = (
    *(1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000),
    *(1 / 74724249600, -3617 / 10670622842880000, 43867 / 5109094217170944000),
)


@decomposition("zeta")
@widened
def zeta(x: jax.Array, q: jax.Array) -> jax.Array:
    """The sum of 1 / (q + n)^x for n = 0, 1 …: ten terms, and what their integral lacks."""
    total = sum((jnp.power(q + n, -x) for n in range(TERMS)), jnp.zeros_like(x))
    end = q + TERMS
    power = jnp.power(end, -x)
    total = total + power * end / (x - 1) + power / 2
    factor = power * x / end
    for j, coefficient in enumerate(BERNOULLI):
        total = total + coefficient * factor
        factor = factor * ((x + (2 * j + 1)) / end) * ((x + (2 * j + 2)) / end)
    return _by_kind(x, q, total)


def _by_kind(x: jax.Array, q: jax.Array, value: jax.Array) -> jax.Array:
    """Poles, and where there is no real number."""
    poles = (q <= 0) & (q == jnp.floor(q))
    undefined = (x < 1) | ((q <= 0) & (x != jnp.floor(x)))
    value = jnp.where(undefined, jnp.nan, value)
    value = jnp.where(poles, jnp.where(x % 2 == 0, jnp.inf, jnp.nan), value)
    return jnp.where(x == 1, jnp.inf, value)


@decomposition("polygamma")
@widened
def polygamma(n: jax.Array, x: jax.Array) -> jax.Array:
    """(-1)^(n+1) n! zeta(n + 1, x); digamma if n is 0."""
    sign = jnp.where(n % 2 == 0, -1, 1).astype(x.dtype)
    value = sign * jnp.exp(lax.lgamma(n + 1)) * zeta(n + 1, x)
    value = jnp.where(n == 0, lax.digamma(x), value)
    return jnp.where((n < 0) | (n != jnp.floor(n)), math.nan, value)
