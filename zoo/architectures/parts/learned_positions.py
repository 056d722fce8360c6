"""Learned position embeddings, interpolated to other grids of patches."""

import math
from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.architectures.parts.layers import Size


class LearnedPositionEmbedding(eqx.Module):
    """A table with a row for each patch of a grid, interpolated to any other grid.

    Interpolation is `rows · table · columnsᵀ` with one matrix for each axis, which is exact at any
    size, known or symbolic.

    Sources: `interpolate_pos_encoding` of facebookresearch/dinov2 and of google-deepmind/tips,
    which is `linear`; torch's `upsample_bicubic2d` and `upsample_bilinear2d`.
    """

    weight: Float[Array, "rows dim"]
    sides: tuple[int, int] = eqx.field(static=True)
    prefix: int = eqx.field(static=True)
    antialias: bool = eqx.field(static=True)
    offset: float = eqx.field(static=True)
    linear: bool = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        grid: int,
        *,
        cls_token: bool,
        antialias: bool,
        offset: float,
        linear: bool,
        registers: int,
        columns: int | None = None,
        key: PRNGKeyArray,
    ):
        """**Arguments:** channels of a token; else as `LearnedPositions` of `layer_options.py`."""
        self.sides, self.prefix = (grid, columns or grid), cls_token + registers
        self.antialias, self.offset, self.linear = antialias, offset, linear
        self.weight = 0.02 * jr.normal(key, (self.prefix + math.prod(self.sides), dim))

    def __call__(self, height: Size, width: Size) -> Float[Array, "tokens dim"]:
        """**Arguments:** patches along each side, numbers or symbolic dimensions.

        **Returns** the rows of the class token and of registers where there are any, then
        `height · width` patches by rows.
        """
        tall, wide = self.sides
        if height == tall and width == wide:
            return self.weight
        dim, prefix = self.weight.shape[-1], self.prefix
        native = (jnp.asarray(height) == tall) & (jnp.asarray(width) == wide)
        table = self.weight[prefix:].astype(jnp.float32).reshape(tall, wide, dim)
        for axis, (size, own) in enumerate(((height, tall), (width, wide))):
            # The grid of training is taken as it is, even where an offset would move it.
            scale = jnp.where(native, 1.0, (size + self.offset) / own)
            weights = self.weights(own, size, scale)
            table = jnp.tensordot(weights, table, (1, axis))
            table = jnp.moveaxis(table, 0, axis)
        patches = table.reshape(height * width, dim).astype(self.weight.dtype)
        return jnp.concatenate([self.weight[:prefix], patches])

    def weights(self, own: int, size: Size, scale: Float[Array, ""]) -> Float[Array, "size own"]:
        """The matrix that interpolates one axis."""
        if self.linear:
            return widened(own, size, scale, lambda x: jnp.maximum(1 - jnp.abs(x), 0))
        return cubic_weights(own, size, scale, self.antialias)


def cubic_weights(
    size: int, new_size: Size, scale: Float[Array, ""], antialias: bool
) -> Float[Array, "new_size size"]:
    """The matrix that interpolates `size` samples to `new_size` by cubic convolution.

    Pixel centres are half-way, `scale` is new over old. With antialiasing the kernel (a = -0.5)
    widens where the image shrinks and its weights are normalised over the samples there are;
    without it (a = -0.75) samples beyond the edge repeat the last one.

    Source: Keys, 1981, doi:10.1109/TASSP.1981.1163711, as torch computes it.
    """
    if antialias:
        return widened(size, new_size, scale, partial(cubic_kernel, a=-0.5))
    centre = centres(new_size, scale)
    taps = jnp.floor(centre) + jnp.arange(-1, 3, dtype=jnp.float32)
    weights = cubic_kernel(taps - centre, a=-0.75)
    samples = jnp.clip(taps, 0, size - 1)[:, :, None]
    hits = samples == jnp.arange(size, dtype=jnp.float32)
    return jnp.where(hits, weights[:, :, None], 0.0).sum(axis=1)


def widened(
    size: int, new_size: Size, scale: Float[Array, ""], kernel: Callable[[Array], Array]
) -> Float[Array, "new_size size"]:
    """The same by a kernel that widens where the image shrinks; its weights are normalised over
    the samples there are."""
    width = jnp.maximum(1 / scale, 1.0)
    weights = kernel((jnp.arange(size, dtype=jnp.float32) - centres(new_size, scale)) / width)
    return weights / weights.sum(axis=1, keepdims=True)


def centres(new_size: Size, scale: Float[Array, ""]) -> Float[Array, "new_size 1"]:
    """Where new pixels lie among the old."""
    return (jnp.arange(new_size, dtype=jnp.float32)[:, None] + 0.5) / scale - 0.5


def cubic_kernel(x: Float[Array, "*shape"], a: float) -> Float[Array, "*shape"]:
    """The piecewise cubic of Keys, zero from 2 on."""
    x = jnp.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return jnp.where(x <= 1, near, jnp.where(x < 2, far, 0.0))
