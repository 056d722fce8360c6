"""The incomplete gamma functions: a power series, or a continued fraction where x is large.

Both are Cephes' (Moshier): DLMF 8.11.4 and 8.9.2, which JAX follows too.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from converter.decompositions.narrow_floats import widened
from converter.decompositions.registered import decomposition

MOST_STEPS = 2000


@decomposition("igamma")
@widened
def igamma(a: jax.Array, x: jax.Array) -> jax.Array:
    """The lower one, P(a, x)."""
    far = (x >= 1) & (x > a)
    value = jnp.where(far, 1 - _fraction(a, x, far), _series(a, x, ~far))
    value = jnp.where(x == 0, 0, jnp.where(x == jnp.inf, 1, value))
    return jnp.where(_outside(a, x), jnp.nan, value)


@decomposition("igammac")
@widened
def igammac(a: jax.Array, x: jax.Array) -> jax.Array:
    """The upper one, Q(a, x) = 1 - P(a, x)."""
    near = (x < 1) | (x < a)
    value = jnp.where(near, 1 - _series(a, x, near), _fraction(a, x, ~near))
    value = jnp.where((x == jnp.inf) | (a == 0), 0, value)
    return jnp.where(_outside(a, x), jnp.nan, value)


def _outside(a: jax.Array, x: jax.Array) -> jax.Array:
    """Where neither is defined."""
    return (x < 0) | (a < 0) | ((a == 0) & (x == 0)) | jnp.isnan(a) | jnp.isnan(x)


def _factor(a: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """x^a exp(-x) / gamma(a), and where that is more than nothing."""
    power = a * jnp.log(x) - x - lax.lgamma(a)
    return jnp.exp(power), power >= -jnp.log(jnp.finfo(x.dtype).max)


def _series(a: jax.Array, x: jax.Array, wanted: jax.Array) -> jax.Array:
    """P(a, x) as a sum of x^n / ((a + 1) … (a + n))."""
    factor, some = _factor(a, x)
    live = wanted & some & (x > 0) & ~_outside(a, x)

    def step(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        live, n, term, total = state
        n = n + 1
        term = term * (x / n)
        new = jnp.where(live, total + term, total)
        return live & (term > new * jnp.finfo(x.dtype).eps), n, term, new

    ones = jnp.ones_like(a)
    first: tuple[jax.Array, ...] = (live, a, ones, ones)
    total = lax.while_loop(lambda state: jnp.any(state[0]), step, first)[-1]
    return total * factor / a


def _fraction(a: jax.Array, x: jax.Array, wanted: jax.Array) -> jax.Array:
    """Q(a, x) as a continued fraction, from its convergents p / q."""
    factor, some = _factor(a, x)
    live = wanted & some & (x < jnp.inf) & ~_outside(a, x)
    eps = jnp.finfo(x.dtype).eps

    def step(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        live, n, before, p, q, p_before, q_before = state
        n = n + 1
        y, z = n * (n + 1 - a), x - a + (2 * n + 2)
        p_next, q_next = p * z - p_before * y, q * z - q_before * y
        found = p_next / q_next
        value = jnp.where(live & (q_next != 0), found, before)
        moving = (q_next == 0) | (jnp.abs(before - found) > eps * jnp.abs(found))
        scale = jnp.where(jnp.abs(p_next) > 1 / eps, eps, 1).astype(x.dtype)
        parts = (p_next, q_next, p, q)
        return live & moving, n, value, *(part * scale for part in parts)

    def unfinished(state: tuple[jax.Array, ...]) -> jax.Array:
        return jnp.any(state[0]) & (state[1] < MOST_STEPS)

    p, q = x + 1, (x - a + 2) * x
    none, ones = jnp.zeros((), x.dtype), jnp.ones_like(x)
    first: tuple[jax.Array, ...] = (live, none, p / q, p, q, ones, x)
    return lax.while_loop(unfinished, step, first)[2] * factor
