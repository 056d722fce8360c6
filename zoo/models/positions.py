"""Position embeddings on a grid of image patches: rotary and learned.

Every size may be symbolic, which is how one file serves images of any size.
"""

from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.models.config import LearnedPositions, RotaryGrid, RotaryPeriods

Tables = tuple[Float[Array, "tokens head_dim"], Float[Array, "tokens head_dim"]]

# A number, or a symbolic dimension of `jax.export`, whose type is not public.
Size: TypeAlias = Any


class AxialRoPE(eqx.Module):
    """Sine and cosine tables of a two-dimensional rotary embedding, as DINOv3 has it.

    The centre of patch `i` of `n` along an axis has the coordinate `2 (i + 0.5) / n - 1`, and
    its angles are `2π · coordinate / periods`, the height's first and the width's after them.
    The periods are a leaf and not recomputed: published files hold them rounded to bfloat16,
    and the exact ones move the features by 3e-3.

    Source: `dinov3/layers/rope_position_encoding.py` of facebookresearch/dinov3.
    """

    periods: Float[Array, " quarter"]

    def __init__(self, config: RotaryPeriods, head_dim: int):
        """Periods `base^(2k / (head_dim / 2))` for `k < head_dim / 4`."""
        if head_dim % 4:
            raise ValueError(f"head_dim must be a multiple of 4 (two axes, two halves): {head_dim}")
        exponent = 2 * jnp.arange(head_dim // 4, dtype=jnp.float32) / (head_dim // 2)
        self.periods = config.base**exponent

    def __call__(self, height: Size, width: Size, prefix: int) -> Tables:
        """Tables for `prefix` tokens without a position, then `height · width` patches by rows.

        **Returns** (sine, cosine). A prefix token's rows are 0 and 1: it is rotated by nothing,
        and one multiplication serves the whole sequence.
        """
        # Angles want float32, whatever the parameters' type.
        periods = jax.lax.stop_gradient(self.periods).astype(jnp.float32)
        coordinates = patch_centres(height, width)
        angles = 2 * jnp.pi * coordinates[:, :, None] / periods
        angles = angles.reshape(height * width, 2 * periods.shape[0])
        return tables(still(jnp.concatenate([angles, angles], axis=-1), prefix))

    @staticmethod
    def rotate(x: Float[Array, "*lead head_dim"]) -> Float[Array, "*lead head_dim"]:
        """A quarter turn of each pair (i, i + head_dim / 2): [a, b] → [-b, a]."""
        first, second = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([-second, first], axis=-1)


class GridRoPE(eqx.Module):
    """Tables of ViT-5: row and column, scaled to the grid of training, times frequencies.

    The class token is rotated by nothing, the registers as the patches of a small square image
    with frequencies of their own.

    Source: `rope.py` of wangf3014/ViT-5 (`VisionRotaryEmbedding`).
    """

    freqs: Float[Array, " quarter"]
    reg_freqs: Float[Array, " quarter"]
    length: int = eqx.field(static=True)

    def __init__(self, config: RotaryGrid, head_dim: int):
        """Frequencies `theta^(-2k / (head_dim / 2))` for `k < head_dim / 4`."""
        exponent = -2 * jnp.arange(head_dim // 4, dtype=jnp.float32) / (head_dim // 2)
        self.freqs = config.theta**exponent
        self.reg_freqs = config.register_theta**exponent
        self.length = config.length

    def __call__(self, height: Size, width: Size, prefix: int) -> Tables:
        """Tables for the class token, `prefix - 1` registers and the patches by rows.

        **Returns** (sine, cosine), each angle twice in a row.
        """
        side = round((prefix - 1) ** 0.5)
        registers = self.angles(self.reg_freqs, side, side, side)
        patches = self.angles(self.freqs, height, width, self.length)
        return tables(still(jnp.concatenate([registers, patches]), 1))

    @staticmethod
    def angles(
        freqs: Float[Array, " quarter"], height: Size, width: Size, length: int
    ) -> Float[Array, "patches head_dim"]:
        """Angles of a grid that is stretched over `length` steps along each axis."""
        freqs = jax.lax.stop_gradient(freqs).astype(jnp.float32)
        rows = jnp.arange(height, dtype=jnp.float32) / height * length
        columns = jnp.arange(width, dtype=jnp.float32) / width * length
        position = jnp.stack(jnp.meshgrid(rows, columns, indexing="ij"), axis=-1)
        angles = (position[..., None] * freqs).reshape(height * width, 2 * freqs.shape[0])
        return jnp.repeat(angles, 2, axis=-1)

    @staticmethod
    def rotate(x: Float[Array, "*lead head_dim"]) -> Float[Array, "*lead head_dim"]:
        """A quarter turn of each pair of neighbours: [a, b, c, d] → [-b, a, -d, c]."""
        pairs = x.reshape(*x.shape[:-1], -1, 2)
        return jnp.stack([-pairs[..., 1], pairs[..., 0]], axis=-1).reshape(x.shape)


RoPE = AxialRoPE | GridRoPE


def rotary(config: RotaryPeriods | RotaryGrid, head_dim: int) -> RoPE:
    """The rotary embedding that a configuration describes."""
    if isinstance(config, RotaryPeriods):
        return AxialRoPE(config, head_dim)
    return GridRoPE(config, head_dim)


def patch_centres(height: Size, width: Size) -> Float[Array, "patches 2"]:
    """(row, column) of every patch centre in [-1, 1], by rows."""
    # Not arange(0.5, n): that needs to know n while tracing.
    rows = 2 * ((jnp.arange(height, dtype=jnp.float32) + 0.5) / height) - 1
    columns = 2 * ((jnp.arange(width, dtype=jnp.float32) + 0.5) / width) - 1
    grid = jnp.meshgrid(rows, columns, indexing="ij")
    return jnp.stack(grid, axis=-1).reshape(height * width, 2)


def still(
    angles: Float[Array, "positions head_dim"], count: int
) -> Float[Array, "tokens head_dim"]:
    """`count` tokens that are not rotated, then those that are."""
    return jnp.concatenate([jnp.zeros((count, angles.shape[-1]), angles.dtype), angles])


def tables(angles: Float[Array, "tokens head_dim"]) -> Tables:
    """(sine, cosine)."""
    return jnp.sin(angles), jnp.cos(angles)


class LearnedPosEmbed(eqx.Module):
    """A learned table with a row for each patch, interpolated to any other grid.

    Interpolation is one matrix for each axis, which is exact at any size, known or symbolic.
    Sources: `interpolate_pos_encoding` of facebookresearch/dinov2; torch's `upsample_bicubic2d`.
    """

    weight: Float[Array, "rows dim"]
    grid: int = eqx.field(static=True)
    prefix: int = eqx.field(static=True)
    antialias: bool = eqx.field(static=True)
    offset: float = eqx.field(static=True)

    def __init__(self, config: LearnedPositions, dim: int, *, key: PRNGKeyArray):
        self.grid, self.prefix = config.grid, int(config.cls_token)
        self.antialias, self.offset = config.antialias, config.offset
        self.weight = 0.02 * jr.normal(key, (self.prefix + self.grid**2, dim))

    def __call__(self, height: Size, width: Size) -> Float[Array, "tokens dim"]:
        """The table for a grid: the class token's row where there is one, then the patches'."""
        if height == width == self.grid:
            return self.weight
        dim = self.weight.shape[-1]
        native = (jnp.asarray(height) == self.grid) & (jnp.asarray(width) == self.grid)
        table = self.weight[self.prefix :].astype(jnp.float32).reshape(self.grid, self.grid, dim)
        for axis, size in ((0, height), (1, width)):
            # The grid of training is taken as it is, even where an offset would move it.
            scale = jnp.where(native, 1.0, (size + self.offset) / self.grid)
            weights = cubic_weights(self.grid, size, scale, self.antialias)
            table = jnp.tensordot(weights, table, (1, axis))
            table = jnp.moveaxis(table, 0, axis)
        patches = table.reshape(height * width, dim).astype(self.weight.dtype)
        return jnp.concatenate([self.weight[: self.prefix], patches])


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
