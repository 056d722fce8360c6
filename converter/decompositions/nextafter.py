"""The next float in a direction."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from converter.decompositions.registered import decomposition


@decomposition("nextafter")
def nextafter(x: jax.Array, y: jax.Array) -> jax.Array:
    """Floats of one sign are in the order of their bits."""
    integer = jnp.dtype(f"int{8 * x.dtype.itemsize}")
    lowest = jnp.iinfo(integer).min
    x, y = jnp.broadcast_arrays(x, y)
    bits = lax.bitcast_convert_type(x, integer)
    size = jnp.where(bits < 0, bits - lowest, bits)
    grows = jnp.where(bits < 0, y < x, y > x)
    sign = jnp.where(jnp.where(size == 0, y < 0, bits < 0), lowest, 0).astype(integer)
    step = jnp.where((size == 0) | grows, 1, -1).astype(integer)
    moved = lax.bitcast_convert_type(size + step + sign, x.dtype)
    return jnp.where(x == y, y, jnp.where(jnp.isnan(x) | jnp.isnan(y), jnp.nan, moved))
