"""Resizing maps as dense prediction does."""

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from zoo.models.layers import Size


def resize_aligned(
    x: Float[Array, "channels h w"], size: Sequence[Size]
) -> Float[Array, "channels height width"]:
    """Bilinear, the corners of both maps on each other, as torch's `interpolate` has it with
    `align_corners=True`."""
    for axis, count in enumerate(size, start=1):
        x = jnp.moveaxis(
            jnp.tensordot(x, _weights(x.shape[axis], count).astype(x.dtype), (axis, 0)), -1, axis
        )
    return x


def _weights(size: Size, count: Size) -> Float[Array, "size count"]:
    steps = jnp.maximum(jnp.asarray(count - 1, jnp.float32), 1)
    places = jnp.arange(count, dtype=jnp.float32) * (jnp.asarray(size - 1, jnp.float32) / steps)
    return jnp.maximum(0, 1 - jnp.abs(places - jnp.arange(size, dtype=jnp.float32)[:, None]))
