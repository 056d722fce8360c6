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

    Interpolation is `rows · table · columnsᵀ`, with one matrix for each axis. It is exact at any
    size, known or symbolic.

    Sources: `interpolate_pos_encoding` of facebookresearch/dinov2, and of google-deepmind/tips for
    `linear`; torch's `upsample_bicubic2d` and `upsample_bilinear2d`.
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
        """**Arguments:**

        - `dim`: the number of channels of a token.
        - `grid`, `columns`: the rows and columns of the table's grid; None for as many columns as
          rows.
        - `cls_token`, `registers`: whether the table has a row for the class token, and its number
          of rows for registers.
        - `antialias`, `offset`, `linear`: as in `LearnedPositions` in `layer_options.py`.
        """
        self.sides, self.prefix = (grid, columns or grid), cls_token + registers
        self.antialias, self.offset, self.linear = antialias, offset, linear
        self.weight = 0.02 * jr.normal(key, (self.prefix + math.prod(self.sides), dim))

    def __call__(self, height: Size, width: Size) -> Float[Array, "tokens dim"]:
        """Return the position embeddings for a grid of patches.

        **Arguments:**

        - `height`, `width`: the numbers of patches along each side. They may be symbolic
          dimensions.

        **Returns** the rows of the class token and of registers, if the table has them, then those
        of `height · width` patches by rows. For the grid of training this is the table itself.
        """
        rows, columns = self.sides
        if height == rows and width == columns:
            return self.weight
        dim, prefix = self.weight.shape[-1], self.prefix
        is_native = (jnp.asarray(height) == rows) & (jnp.asarray(width) == columns)
        table = self.weight[prefix:].astype(jnp.float32).reshape(rows, columns, dim)
        for axis, (new_size, size) in enumerate(((height, rows), (width, columns))):
            # The grid of training is used without interpolation, even if there is an offset.
            scale = jnp.where(is_native, 1.0, (new_size + self.offset) / size)
            weights = self.interpolation(size, new_size, scale)
            table = jnp.tensordot(weights, table, (1, axis))
            table = jnp.moveaxis(table, 0, axis)
        patches = table.reshape(height * width, dim).astype(self.weight.dtype)
        return jnp.concatenate([self.weight[:prefix], patches])

    def interpolation(
        self, size: int, new_size: Size, scale: Float[Array, ""]
    ) -> Float[Array, "new_size size"]:
        """Return the matrix that interpolates `size` samples along one axis to `new_size` samples.
        `scale` is `(new_size + offset) / size`, or 1 for the grid of training."""
        if self.linear:
            return filter_weights(size, new_size, scale, lambda x: jnp.maximum(1 - jnp.abs(x), 0))
        return cubic_weights(size, new_size, scale, self.antialias)


def cubic_weights(
    size: int, new_size: Size, scale: Float[Array, ""], antialias: bool
) -> Float[Array, "new_size size"]:
    """Return the matrix that interpolates `size` samples to `new_size` samples by cubic
    convolution.

    Sample centres are at half-integers, and `scale` is the number of new samples for each old one.
    It may differ from `new_size / size`, because of an offset. With antialiasing the kernel (a =
    -0.5) is widened if `scale` is below 1, and its weights are normalised over the existing
    samples. Without it (a = -0.75), samples beyond the edge repeat the last one.

    Source: Keys, 1981, doi:10.1109/TASSP.1981.1163711, as torch computes it.
    """
    if antialias:
        return filter_weights(size, new_size, scale, partial(cubic_kernel, a=-0.5))
    centre = sample_centres(new_size, scale)
    taps = jnp.floor(centre) + jnp.arange(-1, 3, dtype=jnp.float32)
    weights = cubic_kernel(taps - centre, a=-0.75)
    samples = jnp.clip(taps, 0, size - 1)[:, :, None]
    is_sample = samples == jnp.arange(size, dtype=jnp.float32)
    return jnp.where(is_sample, weights[:, :, None], 0.0).sum(axis=1)


def filter_weights(
    size: int, new_size: Size, scale: Float[Array, ""], kernel: Callable[[Array], Array]
) -> Float[Array, "new_size size"]:
    """Return the matrix that interpolates `size` samples to `new_size` samples with a kernel.

    The kernel is a function of the distance in old samples. `scale` is the number of new samples
    for each old one; if it is below 1, the kernel is widened by `1 / scale`. The weights are
    normalised over the existing samples: each row of the matrix sums to 1.
    """
    width = jnp.maximum(1 / scale, 1.0)
    weights = kernel(
        (jnp.arange(size, dtype=jnp.float32) - sample_centres(new_size, scale)) / width
    )
    return weights / weights.sum(axis=1, keepdims=True)


def sample_centres(new_size: Size, scale: Float[Array, ""]) -> Float[Array, "new_size 1"]:
    """Return the positions of the new samples' centres, counted in old samples. `scale` is the
    number of new samples for each old one."""
    return (jnp.arange(new_size, dtype=jnp.float32)[:, None] + 0.5) / scale - 0.5


def cubic_kernel(x: Float[Array, "*shape"], a: float) -> Float[Array, "*shape"]:
    """Return the values of the piecewise cubic kernel of Keys with parameter `a`, at the distances
    `x`. They are 0 from the distance 2 on."""
    x = jnp.abs(x)
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    outer = (((x - 5) * x + 8) * x - 4) * a
    return jnp.where(x <= 1, inner, jnp.where(x < 2, outer, 0.0))
