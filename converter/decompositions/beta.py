"""The regularised incomplete beta function, by Lentz' method for its continued fraction."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from converter.decompositions.narrow_floats import widened
from converter.decompositions.registered import decomposition

MOST_STEPS = 300


@decomposition("regularized_incomplete_beta")
@widened
def regularized_incomplete_beta(a: jax.Array, b: jax.Array, x: jax.Array) -> jax.Array:
    """I_x(a, b) by DLMF 8.17.22; I_x(a, b) = 1 - I_{1-x}(b, a) where that converges faster."""
    left, right = (a == 0) | (b == jnp.inf), (b == 0) | (a == jnp.inf)
    outside = (a < 0) | (b < 0) | ~((x >= 0) & (x <= 1)) | (left & right)
    outside = outside | jnp.isnan(a) | jnp.isnan(b)
    fast = x < (a + 1) / (a + b + 2)
    p, q, y = jnp.where(fast, a, b), jnp.where(fast, b, a), jnp.where(fast, x, 1 - x)
    power = p * jnp.log(y) + q * jnp.log1p(-y)
    size = lax.lgamma(p) + (lax.lgamma(q) - lax.lgamma(p + q))
    plain = ~(outside | left | right | (x == 0) | (x == 1))
    value = _fraction(p, q, y, plain) * jnp.exp(power - size) / p
    value = jnp.where(fast, value, 1 - value)
    value = jnp.where((right & (x != 1)) | (x == 0), 0, value)
    value = jnp.where((left & (x != 0)) | (x == 1), 1, value)
    return jnp.where(outside, jnp.nan, value)


def _fraction(a: jax.Array, b: jax.Array, x: jax.Array, wanted: jax.Array) -> jax.Array:
    """The fraction with ones for denominators; its numerators come in pairs."""
    half_unit = jnp.finfo(x.dtype).eps / 2
    tiny = jnp.finfo(x.dtype).tiny

    def lifted(y: jax.Array) -> jax.Array:
        return jnp.where(jnp.abs(y) < tiny, tiny, y)

    def step(state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        live, m, c, d, before = state
        m = m + 1
        value, twice = before, a + 2 * m
        odd = m * (b - m) * x / ((twice - 1) * twice)
        even = -(a + m) * (a + b + m) * x / (twice * (twice + 1))
        for numerator in (odd, even):
            c, d = lifted(1 + numerator / c), 1 / lifted(1 + numerator * d)
            value = value * c * d
        moving = jnp.abs(c * d - 1) > half_unit
        return live & moving, m, c, d, jnp.where(live, value, before)

    def unfinished(state: tuple[jax.Array, ...]) -> jax.Array:
        return jnp.any(state[0]) & (state[1] < MOST_STEPS)

    d = 1 / lifted(1 - (a + b) * x / (a + 1))
    none, ones = jnp.zeros((), x.dtype), jnp.ones_like(x)
    first: tuple[jax.Array, ...] = (wanted, none, ones, d, d)
    return lax.while_loop(unfinished, step, first)[-1]
