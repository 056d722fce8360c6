"""Resizing maps as dense prediction does."""

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from zoo.architectures.parts.layers import Size


def resize_aligned(
    x: Float[Array, "channels h w"], size: Sequence[Size]
) -> Float[Array, "channels height width"]:
    """A map resized bilinearly, its corners on those of the result.

    Equals torch's `interpolate(…, mode="bilinear", align_corners=True)`: one row or column is
    repeated, and where one is wanted it is the first. Becomes one `Resize` in ONNX.

    **Arguments:** the map, and (height, width) of the result.
    """
    for axis, count in enumerate(size, start=1):
        weights = _weights(x.shape[axis], count).astype(x.dtype)
        product = jnp.tensordot(x, weights, (axis, 0), precision="highest")
        x = jnp.moveaxis(product, -1, axis)
    return x


def _weights(size: Size, count: Size) -> Float[Array, "size count"]:
    steps = jnp.maximum(jnp.asarray(count - 1, jnp.float32), 1)
    places = jnp.arange(count, dtype=jnp.float32) * (jnp.asarray(size - 1, jnp.float32) / steps)
    return jnp.maximum(0, 1 - jnp.abs(places - jnp.arange(size, dtype=jnp.float32)[:, None]))
