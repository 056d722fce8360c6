"""Pyramid of DEIMv2: maps of three sizes, joined from image details and patches."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.architectures.detection.detection_config import LEVELS, PyramidConfig
from zoo.architectures.detection.rf_detr_network import QueryAttention
from zoo.architectures.parts.block import Mlp
from zoo.architectures.parts.layers import BatchNorm, Size, gelu, pointwise

Map = Float[Array, "channels height width"]
Other = Float[Array, "channels2 height2 width2"]
AnyMap = Float[Array, "_ _ _"]
"""One of several maps, no two of which are of one size."""
Activation = Callable[[Map], Map]


class ConvBatchNorm(eqx.Module):
    """`activation(batch_norm(conv(x)))`, with the edge of zeros that keeps rows and columns."""

    conv: eqx.nn.Conv2d
    batch_norm: BatchNorm
    activation: Activation | None = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int = 1,
        *,
        stride: int = 1,
        groups: int = 1,
        activation: Activation | None = None,
        key: PRNGKeyArray,
    ):
        """**Arguments:** channels before and behind it, pixels along a side of the kernel; how far
        it moves, and in how many groups channels are."""
        self.conv = eqx.nn.Conv2d(
            *(inputs, outputs, kernel, stride, kernel // 2),
            groups=groups,
            use_bias=False,
            key=key,
        )
        self.batch_norm = BatchNorm(outputs)
        self.activation = activation

    def __call__(self, x: Map) -> Other:
        x = self.batch_norm(self.conv(x).transpose(1, 2, 0)).transpose(2, 0, 1)
        return x if self.activation is None else self.activation(x)


class Adapter(eqx.Module):
    """Details of an image at an eighth, a sixteenth and a thirty-second of its size.

    Source: `SpatialTuningAdapter` of Huang et al., 2025, arXiv:2509.20787.
    """

    stem: ConvBatchNorm
    convs: tuple[ConvBatchNorm, ...]
    pool: eqx.nn.MaxPool2d

    def __init__(self, planes: int, *, key: PRNGKeyArray):
        """**Arguments:** channels of the stem; the maps have two and four times as many."""
        stem_key, *keys = jr.split(key, 1 + LEVELS)
        self.stem = ConvBatchNorm(3, planes, 3, stride=2, activation=gelu, key=stem_key)
        widths = (planes, 2 * planes, 4 * planes, 4 * planes)
        self.convs = tuple(
            ConvBatchNorm(one, other, 3, stride=2, key=key)
            for one, other, key in zip(widths, widths[1:], keys, strict=False)
        )
        self.pool = eqx.nn.MaxPool2d(3, 2, padding=1)

    def __call__(self, pixel_values: Float[Array, "3 H W"]) -> list[AnyMap]:
        x = self.pool(self.stem(pixel_values))
        maps = [self.convs[0](x)]
        for conv in self.convs[1:]:
            maps.append(conv(gelu(maps[-1])))
        return maps


class Bottleneck(eqx.Module):
    """`silu(conv1(x) + conv2(x))`, of which one kernel is of 3 x 3 pixels and one of a pixel.

    Source: Ding et al., 2021, arXiv:2101.03697.
    """

    conv1: ConvBatchNorm
    conv2: ConvBatchNorm

    def __init__(self, dim: int, *, key: PRNGKeyArray):
        """**Arguments:** channels."""
        key1, key2 = jr.split(key)
        self.conv1, self.conv2 = (
            ConvBatchNorm(dim, dim, 3, key=key1),
            ConvBatchNorm(dim, dim, key=key2),
        )

    def __call__(self, x: Map) -> Map:
        return jax.nn.silu(self.conv1(x) + self.conv2(x))


class Branch(eqx.Module):
    """One half of `conv(x)`, and the other behind all bottlenecks, added."""

    conv: ConvBatchNorm
    bottlenecks: tuple[Bottleneck, ...]

    def __init__(self, inputs: int, narrow: int, bottlenecks: int, *, key: PRNGKeyArray):
        """**Arguments:** channels before and behind it, and how many bottlenecks there are."""
        conv_key, *keys = jr.split(key, 1 + bottlenecks)
        self.conv = ConvBatchNorm(inputs, 2 * narrow, activation=jax.nn.silu, key=conv_key)
        self.bottlenecks = tuple(Bottleneck(narrow, key=each) for each in keys)

    def __call__(self, x: Map) -> Other:
        kept, x = jnp.split(self.conv(x), 2)
        for bottleneck in self.bottlenecks:
            x = bottleneck(x)
        return kept + x


class Join(eqx.Module):
    """A map of as many channels, of which every step is kept.

    parts = two halves of conv1(x)
    parts += [branch1(last of parts)], then [branch2(last of parts)]
    result = conv2(parts)
    """

    conv1: ConvBatchNorm
    branch1: Branch
    branch2: Branch
    conv2: ConvBatchNorm

    def __init__(self, dim: int, narrow: int, bottlenecks: int, *, key: PRNGKeyArray):
        """**Arguments:** channels of the map and of a branch, and the bottlenecks of that."""
        keys = jr.split(key, 4)
        self.conv1 = ConvBatchNorm(dim, 2 * dim, activation=jax.nn.silu, key=keys[0])
        self.branch1 = Branch(dim, narrow, bottlenecks, key=keys[1])
        self.branch2 = Branch(narrow, narrow, bottlenecks, key=keys[2])
        self.conv2 = ConvBatchNorm(2 * dim + 2 * narrow, dim, activation=jax.nn.silu, key=keys[3])

    def __call__(self, x: Map) -> Map:
        parts = jnp.split(self.conv1(x), 2)
        parts.append(self.branch1(parts[-1]))
        parts.append(self.branch2(parts[-1]))
        return self.conv2(jnp.concatenate(parts))


class Halving(eqx.Module):
    """Half as many rows and columns: a layer, then a convolution of each channel alone."""

    conv1: ConvBatchNorm
    conv2: ConvBatchNorm

    def __init__(self, dim: int, *, key: PRNGKeyArray):
        """**Arguments:** channels of the map."""
        key1, key2 = jr.split(key)
        self.conv1 = ConvBatchNorm(dim, dim, key=key1)
        self.conv2 = ConvBatchNorm(dim, dim, 3, stride=2, groups=dim, key=key2)

    def __call__(self, x: Map) -> Other:
        return self.conv2(self.conv1(x))


class PlacedBlock(eqx.Module):
    """Post-norm transformer block over the pixels of a map, whose places are told to attention."""

    attn: QueryAttention
    norm1: eqx.nn.LayerNorm
    mlp: Mlp
    norm2: eqx.nn.LayerNorm

    def __init__(self, dim: int, config: PyramidConfig, *, key: PRNGKeyArray):
        """**Arguments:** channels of the map, and the sizes of the block."""
        key1, key2 = jr.split(key)
        self.attn = QueryAttention(dim, config.heads, key=key1)
        self.mlp = Mlp(dim, config.hidden, activation=gelu, key=key2)
        self.norm1, self.norm2 = eqx.nn.LayerNorm(dim), eqx.nn.LayerNorm(dim)

    def __call__(
        self, x: Float[Array, "pixels dim"], places: Float[Array, "pixels dim"]
    ) -> Float[Array, "pixels dim"]:
        x = pointwise(self.norm1, x + self.attn(x, places))
        return pointwise(self.norm2, x + self.mlp(x))


class Pyramid(eqx.Module):
    """Maps that know of each other: of the smallest down to the largest, and back.

    Source: `HybridEncoder` of Zhao et al., 2024, arXiv:2304.08069, with sums in place of
    concatenations.
    """

    blocks: tuple[PlacedBlock, ...]
    laterals: tuple[ConvBatchNorm, ...]
    joins: tuple[Join, ...]
    halvings: tuple[Halving, ...]
    joins_back: tuple[Join, ...]
    placed: bool = eqx.field(static=True)

    def __init__(self, dim: int, config: PyramidConfig, placed: bool, *, key: PRNGKeyArray):
        """**Arguments:** channels of all maps, the other sizes, and whether the smallest map is
        told where its pixels are."""
        steps = LEVELS - 1
        block_key, *keys = jr.split(key, 1 + 4 * steps)
        self.blocks = tuple(
            PlacedBlock(dim, config, key=each) for each in jr.split(block_key, config.depth)
        )
        self.laterals = tuple(ConvBatchNorm(dim, dim, key=each) for each in keys[:steps])
        self.halvings = tuple(Halving(dim, key=each) for each in keys[steps : 2 * steps])
        joins = tuple(
            Join(dim, config.narrow, config.bottlenecks, key=each) for each in keys[2 * steps :]
        )
        self.joins, self.joins_back = joins[:steps], joins[steps:]
        self.placed = placed

    def __call__(self, maps: Sequence[AnyMap]) -> list[AnyMap]:
        """**Arguments:** maps, each of half the size of the one before."""
        *larger, smallest = maps
        chain = [self.attended(smallest)]
        for lateral, join, larger_map in zip(
            self.laterals, self.joins, reversed(larger), strict=True
        ):
            chain[-1] = lateral(chain[-1])
            chain.append(join(doubled(chain[-1]) + larger_map))
        result = [chain.pop()]
        for halving, join in zip(self.halvings, self.joins_back, strict=True):
            result.append(join(halving(result[-1]) + chain.pop()))
        return result

    def attended(self, x: Map) -> Map:
        """A map whose pixels have attended to each other."""
        dim, height, width = x.shape
        rows = x.reshape(dim, height * width).T
        places = map_positions(height, width, dim) if self.placed else jnp.zeros_like(rows)
        for block in self.blocks:
            rows = block(rows, places.astype(rows.dtype))
        return rows.T.reshape(dim, height, width)


def doubled(x: Map) -> Other:
    """Every pixel four times."""
    channels, height, width = x.shape
    wide = jnp.broadcast_to(x[:, :, None, :, None], (channels, height, 2, width, 2))
    return wide.reshape(channels, 2 * height, 2 * width)


def map_positions(height: Size, width: Size, dim: int) -> Float[Array, "pixels dim"]:
    """Sines and cosines of a pixel's row, then of its column, by rows."""
    quarter = dim // 4
    frequencies = 1 / 10000 ** (jnp.arange(quarter, dtype=jnp.float32) / quarter)
    y, x = jnp.meshgrid(
        jnp.arange(height, dtype=jnp.float32), jnp.arange(width, dtype=jnp.float32), indexing="ij"
    )
    waves = [
        wave(axis.reshape(-1, 1) * frequencies) for axis in (y, x) for wave in (jnp.sin, jnp.cos)
    ]
    return jnp.concatenate(waves, axis=-1)
