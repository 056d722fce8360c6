"""The floating point number next to another one, by arithmetic alone."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from converter.expand.registry import expansion


@expansion("nextafter")
def nextafter(x: jax.Array, y: jax.Array) -> jax.Array:
    """The neighbour of ``x`` on the way to ``y``.

    A little more than half a unit in the last place is added, and rounding does the rest (Rump,
    Zimmermann, Boldo and Melquiond, Computing predecessor and successor in rounding to nearest,
    BIT 49, 2009). Numbers so small that this would be lost are scaled; those of the smallest
    exponents have one distance to all of their neighbours. Halves are computed in float32.
    Zeros have either sign: ONNX Runtime's ``Where`` does not keep it.
    """
    info = jnp.finfo(x.dtype)
    eps, tiny, least = float(info.eps), float(info.tiny), float(info.smallest_subnormal)
    wide = x.dtype if info.bits >= 32 else jnp.dtype(jnp.float32)
    a, b = x.astype(wide), y.astype(wide)
    way = jnp.where(b > a, 1, -1).astype(wide)
    more = eps / 2 * (1 + eps)
    scale = jnp.ones_like(a)
    if wide == x.dtype:
        scale = jnp.where(jnp.abs(a) < tiny / eps**2, 1 / eps**2, 1).astype(wide)
    scaled = a * scale
    moved = ((scaled + way * jnp.abs(scaled) * more) / scale).astype(x.dtype)
    step = jnp.where(b > a, least, -least).astype(wide)
    moved = jnp.where(jnp.abs(a) < 2 * tiny, (a + step).astype(x.dtype), moved)
    largest = jnp.where(a > 0, float(info.max), float(info.min)).astype(x.dtype)
    moved = jnp.where(jnp.isinf(x), largest, moved)
    return jnp.where(jnp.isnan(x) | jnp.isnan(y), x + y, jnp.where(a == b, y, moved))
