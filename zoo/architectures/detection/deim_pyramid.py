"""Pyramid of DEIMv2: maps of three sizes, which are joined from details of the picture and
patches."""

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
NewMap = Float[Array, "channels2 height2 width2"]
AnyMap = Float[Array, "_ _ _"]
"""A map in a list of maps of different sizes."""
Activation = Callable[[Map], Map]


class ConvBatchNorm(eqx.Module):
    """Convolution with batch norm: `activation(batch_norm(conv(x)))`. With zero padding, an odd
    kernel keeps the numbers of rows and columns at stride 1."""

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
        """**Arguments:**

        - `inputs`, `outputs`: the numbers of channels.
        - `kernel`: the number of pixels along a side of the kernel.
        - `stride`: the step of the kernel in pixels.
        - `groups`: the number of groups of channels.
        - `activation`: the activation; None for none.
        """
        self.conv = eqx.nn.Conv2d(
            *(inputs, outputs, kernel, stride, kernel // 2),
            groups=groups,
            use_bias=False,
            key=key,
        )
        self.batch_norm = BatchNorm(outputs)
        self.activation = activation

    def __call__(self, x: Map) -> NewMap:
        """Return the map after convolution, batch norm and activation."""
        x = self.batch_norm(self.conv(x).transpose(1, 2, 0)).transpose(2, 0, 1)
        return x if self.activation is None else self.activation(x)


class Adapter(eqx.Module):
    """Convolutions that extract details of a picture at an eighth, a sixteenth and a thirty-second
    of its size.

    Source: `SpatialTuningAdapter` of Huang et al., 2025, arXiv:2509.20787.
    """

    stem: ConvBatchNorm
    convs: tuple[ConvBatchNorm, ...]
    pool: eqx.nn.MaxPool2d

    def __init__(self, planes: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `planes`: the number of channels of the stem. The three maps have two, four and four times
          as many channels.
        """
        stem_key, *keys = jr.split(key, 1 + LEVELS)
        self.stem = ConvBatchNorm(3, planes, 3, stride=2, activation=gelu, key=stem_key)
        widths = (planes, 2 * planes, 4 * planes, 4 * planes)
        self.convs = tuple(
            ConvBatchNorm(width, next_width, 3, stride=2, key=key)
            for width, next_width, key in zip(widths, widths[1:], keys, strict=False)
        )
        self.pool = eqx.nn.MaxPool2d(3, 2, padding=1)

    def __call__(self, pixel_values: Float[Array, "3 H W"]) -> list[AnyMap]:
        """Return the maps of details, of an eighth, a sixteenth and a thirty-second of the
        picture's size."""
        x = self.pool(self.stem(pixel_values))
        maps = [self.convs[0](x)]
        for conv in self.convs[1:]:
            maps.append(conv(gelu(maps[-1])))
        return maps


class Bottleneck(eqx.Module):
    """Sum of two convolutions, with kernels of 3 x 3 pixels and of one pixel: `silu(conv1(x) +
    conv2(x))`.

    Source: Ding et al., 2021, arXiv:2101.03697.
    """

    conv1: ConvBatchNorm
    conv2: ConvBatchNorm

    def __init__(self, dim: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels.
        """
        key1, key2 = jr.split(key)
        self.conv1, self.conv2 = (
            ConvBatchNorm(dim, dim, 3, key=key1),
            ConvBatchNorm(dim, dim, key=key2),
        )

    def __call__(self, x: Map) -> Map:
        """Return the map after the layer, of the same shape."""
        return jax.nn.silu(self.conv1(x) + self.conv2(x))


class Branch(eqx.Module):
    """Convolution, then bottlenecks on one half of its channels: `a + bottlenecks(b)`, where `a, b
    = conv(x)` are the two halves."""

    conv: ConvBatchNorm
    bottlenecks: tuple[Bottleneck, ...]

    def __init__(self, inputs: int, narrow: int, bottlenecks: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `inputs`: the number of channels of the input.
        - `narrow`: the number of channels of the result.
        - `bottlenecks`: the number of bottlenecks.
        """
        conv_key, *keys = jr.split(key, 1 + bottlenecks)
        self.conv = ConvBatchNorm(inputs, 2 * narrow, activation=jax.nn.silu, key=conv_key)
        self.bottlenecks = tuple(Bottleneck(narrow, key=bottleneck_key) for bottleneck_key in keys)

    def __call__(self, x: Map) -> NewMap:
        """Return the map with `narrow` channels and the same rows and columns."""
        skip, x = jnp.split(self.conv(x), 2)
        for bottleneck in self.bottlenecks:
            x = bottleneck(x)
        return skip + x


class JoinLayer(eqx.Module):
    """Layer that keeps the number of channels, and concatenates the results of all its steps.

        parts = two halves of conv1(x)
        parts += [branch1(last of parts)], then [branch2(last of parts)]
        result = conv2(parts)

    `conv2` takes the parts concatenated along the channels.
    """

    conv1: ConvBatchNorm
    branch1: Branch
    branch2: Branch
    conv2: ConvBatchNorm

    def __init__(self, dim: int, narrow: int, bottlenecks: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of the map.
        - `narrow`: the number of channels of a branch.
        - `bottlenecks`: the number of bottlenecks of a branch.
        """
        keys = jr.split(key, 4)
        self.conv1 = ConvBatchNorm(dim, 2 * dim, activation=jax.nn.silu, key=keys[0])
        self.branch1 = Branch(dim, narrow, bottlenecks, key=keys[1])
        self.branch2 = Branch(narrow, narrow, bottlenecks, key=keys[2])
        self.conv2 = ConvBatchNorm(2 * dim + 2 * narrow, dim, activation=jax.nn.silu, key=keys[3])

    def __call__(self, x: Map) -> Map:
        """Return the map after the layer, of the same shape."""
        parts = jnp.split(self.conv1(x), 2)
        parts.append(self.branch1(parts[-1]))
        parts.append(self.branch2(parts[-1]))
        return self.conv2(jnp.concatenate(parts))


class HalvingLayer(eqx.Module):
    """Layer that halves rows and columns: a pointwise convolution, then a depthwise convolution of
    stride 2."""

    conv1: ConvBatchNorm
    conv2: ConvBatchNorm

    def __init__(self, dim: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of the map.
        """
        key1, key2 = jr.split(key)
        self.conv1 = ConvBatchNorm(dim, dim, key=key1)
        self.conv2 = ConvBatchNorm(dim, dim, 3, stride=2, groups=dim, key=key2)

    def __call__(self, x: Map) -> NewMap:
        """Return the map with half the rows and columns."""
        return self.conv2(self.conv1(x))


class PositionedBlock(eqx.Module):
    """Post-norm transformer block over the pixels of a map. Attention adds their positions."""

    attn: QueryAttention
    norm1: eqx.nn.LayerNorm
    mlp: Mlp
    norm2: eqx.nn.LayerNorm

    def __init__(self, dim: int, config: PyramidConfig, *, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of the map.
        - `config`: the sizes of the block.
        """
        key1, key2 = jr.split(key)
        self.attn = QueryAttention(dim, config.heads, key=key1)
        self.mlp = Mlp(dim, config.hidden, activation=gelu, key=key2)
        self.norm1, self.norm2 = eqx.nn.LayerNorm(dim), eqx.nn.LayerNorm(dim)

    def __call__(
        self, x: Float[Array, "pixels dim"], positions: Float[Array, "pixels dim"]
    ) -> Float[Array, "pixels dim"]:
        """Return the pixels after the block.

        **Arguments:**

        - `x`: the pixels of the map, by rows.
        - `positions`: the embedding of each pixel's position, which attention adds to the inputs of
          queries and keys.
        """
        x = pointwise(self.norm1, x + self.attn(x, positions))
        return pointwise(self.norm2, x + self.mlp(x))


class Pyramid(eqx.Module):
    """Layers that exchange information between maps, from the smallest to the largest, and back.

    Source: `HybridEncoder` of Zhao et al., 2024, arXiv:2304.08069, with sums instead of
    concatenations.
    """

    blocks: tuple[PositionedBlock, ...]
    laterals: tuple[ConvBatchNorm, ...]
    joins: tuple[JoinLayer, ...]
    halvings: tuple[HalvingLayer, ...]
    joins_back: tuple[JoinLayer, ...]
    adds_positions: bool = eqx.field(static=True)

    def __init__(self, dim: int, config: PyramidConfig, adds_positions: bool, *, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of all maps.
        - `config`: the other sizes.
        - `adds_positions`: whether the positions of pixels are added in the smallest map.
        """
        steps = LEVELS - 1
        block_key, *keys = jr.split(key, 1 + 4 * steps)
        self.blocks = tuple(
            PositionedBlock(dim, config, key=key) for key in jr.split(block_key, config.depth)
        )
        self.laterals = tuple(ConvBatchNorm(dim, dim, key=key) for key in keys[:steps])
        self.halvings = tuple(HalvingLayer(dim, key=key) for key in keys[steps : 2 * steps])
        joins = tuple(
            JoinLayer(dim, config.narrow, config.bottlenecks, key=key) for key in keys[2 * steps :]
        )
        self.joins, self.joins_back = joins[:steps], joins[steps:]
        self.adds_positions = adds_positions

    def __call__(self, maps: Sequence[AnyMap]) -> list[AnyMap]:
        """Return the maps after the exchange, in the order and of the shapes of the input.

        **Arguments:**

        - `maps`: maps of a picture, from the largest to the smallest. Each has half the height and
          width of the one before.
        """
        *larger, smallest = maps
        chain = [self.attend_pixels(smallest)]
        for lateral, join, larger_map in zip(
            self.laterals, self.joins, reversed(larger), strict=True
        ):
            chain[-1] = lateral(chain[-1])
            chain.append(join(upsample_twice(chain[-1]) + larger_map))
        result = [chain.pop()]
        for halving, join in zip(self.halvings, self.joins_back, strict=True):
            result.append(join(halving(result[-1]) + chain.pop()))
        return result

    def attend_pixels(self, x: Map) -> Map:
        """Return the map after transformer blocks over all its pixels, of the same shape."""
        dim, height, width = x.shape
        rows = x.reshape(dim, height * width).T
        positions = (
            compute_map_positions(height, width, dim)
            if self.adds_positions
            else jnp.zeros_like(rows)
        )
        for block in self.blocks:
            rows = block(rows, positions.astype(rows.dtype))
        return rows.T.reshape(dim, height, width)


def upsample_twice(x: Map) -> NewMap:
    """Return the map with twice the height and width: every row and every column is repeated
    once."""
    channels, height, width = x.shape
    repeated = jnp.broadcast_to(x[:, :, None, :, None], (channels, height, 2, width, 2))
    return repeated.reshape(channels, 2 * height, 2 * width)


def compute_map_positions(height: Size, width: Size, dim: int) -> Float[Array, "pixels dim"]:
    """Return position embeddings of the pixels of a map, by rows.

    The embedding of a pixel is `[sin(y·f), cos(y·f), sin(x·f), cos(x·f)]` for its row `y`, its
    column `x` and `dim / 4` frequencies `f`.
    """
    quarter = dim // 4
    frequencies = 1 / 10000 ** (jnp.arange(quarter, dtype=jnp.float32) / quarter)
    y, x = jnp.meshgrid(
        jnp.arange(height, dtype=jnp.float32), jnp.arange(width, dtype=jnp.float32), indexing="ij"
    )
    waves = [
        wave(axis.reshape(-1, 1) * frequencies) for axis in (y, x) for wave in (jnp.sin, jnp.cos)
    ]
    return jnp.concatenate(waves, axis=-1)
