"""A learned position for every patch, on any grid."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.models.layers import Size


class LearnedPositionEmbedding(eqx.Module):
    """A table with a row for each patch of a square grid, interpolated to any other grid.

    Interpolation is by cubic convolution, `rows · table · columnsᵀ` with one matrix for each axis,
    which is exact at any size, known or symbolic.

    Sources: `interpolate_pos_encoding` of facebookresearch/dinov2; torch's `upsample_bicubic2d`.
    """

    weight: Float[Array, "rows dim"]
    grid: int = eqx.field(static=True)
    cls_token: bool = eqx.field(static=True)
    antialias: bool = eqx.field(static=True)
    offset: float = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        grid: int,
        *,
        cls_token: bool,
        antialias: bool,
        offset: float,
        key: PRNGKeyArray,
    ):
        """**Arguments:** channels of a token; else as `LearnedPositions` of `config.py`."""
        self.grid, self.cls_token = grid, cls_token
        self.antialias, self.offset = antialias, offset
        self.weight = 0.02 * jr.normal(key, (cls_token + grid**2, dim))

    def __call__(self, height: Size, width: Size) -> Float[Array, "tokens dim"]:
        """**Arguments:** patches along each side, numbers or symbolic dimensions.

        **Returns** the class token's row where there is one, then `height · width` patches by rows.
        """
        if height == width == self.grid:
            return self.weight
        dim, prefix = self.weight.shape[-1], int(self.cls_token)
        native = (jnp.asarray(height) == self.grid) & (jnp.asarray(width) == self.grid)
        table = self.weight[prefix:].astype(jnp.float32).reshape(self.grid, self.grid, dim)
        for axis, size in ((0, height), (1, width)):
            # The grid of training is taken as it is, even where an offset would move it.
            scale = jnp.where(native, 1.0, (size + self.offset) / self.grid)
            weights = cubic_weights(self.grid, size, scale, self.antialias)
            table = jnp.tensordot(weights, table, (1, axis))
            table = jnp.moveaxis(table, 0, axis)
        patches = table.reshape(height * width, dim).astype(self.weight.dtype)
        return jnp.concatenate([self.weight[:prefix], patches])


def cubic_weights(
    size: int, new_size: Size, scale: Float[Array, ""], antialias: bool
) -> Float[Array, "new_size size"]:
    """The matrix that interpolates `size` samples to `new_size` by cubic convolution.

    Pixel centres are half-way, `scale` is new over old. With antialiasing the kernel (a = -0.5)
    widens where the image shrinks and its weights are normalised over the samples there are;
    without it (a = -0.75) samples beyond the edge repeat the last one.

    Source: Keys, 1981, doi:10.1109/TASSP.1981.1163711, as torch computes it.
    """
    centre = (jnp.arange(new_size, dtype=jnp.float32)[:, None] + 0.5) / scale - 0.5
    if antialias:
        width = jnp.maximum(1 / scale, 1.0)
        weights = cubic_kernel((jnp.arange(size, dtype=jnp.float32) - centre) / width, a=-0.5)
        return weights / weights.sum(axis=1, keepdims=True)
    taps = jnp.floor(centre) + jnp.arange(-1, 3, dtype=jnp.float32)
    weights = cubic_kernel(taps - centre, a=-0.75)
    samples = jnp.clip(taps, 0, size - 1)[:, :, None]
    hits = samples == jnp.arange(size, dtype=jnp.float32)
    return jnp.where(hits, weights[:, :, None], 0.0).sum(axis=1)


def cubic_kernel(x: Float[Array, "*shape"], a: float) -> Float[Array, "*shape"]:
    """The piecewise cubic of Keys, zero from 2 on."""
    x = jnp.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return jnp.where(x <= 1, near, jnp.where(x < 2, far, 0.0))
