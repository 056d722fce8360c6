"""Network of Depth Anything V2 for depth estimation: a dense prediction transformer on DINOv2."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.architectures.base import NO_IDENTITY, Identity
from zoo.architectures.depth.aligned_resize import resize_aligned
from zoo.architectures.depth.depth_config import DepthConfig
from zoo.architectures.parts.layers import Size
from zoo.architectures.parts.output import Depth, check_layers
from zoo.architectures.vit.vit_network import BackboneNetwork, VisionTransformer

Map = Float[Array, "channels height width"]
NewMap = Float[Array, "channels2 height2 width2"]
FACTORS = (4.0, 2.0, 1.0, 0.5)
"""Ratio of the rows and columns of the maps of the four layers to those of the patches."""


def _conv(kernel: int, inputs: int, outputs: int, key: PRNGKeyArray) -> eqx.nn.Conv2d:
    """Return a convolution with a square kernel that keeps the numbers of rows and columns.
    `inputs` and `outputs` are numbers of channels."""
    return eqx.nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, key=key)


class Reassemble(eqx.Module):
    """Layer that changes the channels of a map of patches by a projection, and its rows and columns
    by a strided convolution."""

    projection: eqx.nn.Conv2d
    resize: eqx.nn.ConvTranspose2d | eqx.nn.Conv2d | None

    def __init__(self, dim: int, channels: int, factor: float, *, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of a token.
        - `channels`: the number of channels of the result.
        - `factor`: the ratio of the rows and columns of the result to those of the input: 4, 2, 1
          or 0.5.
        """
        key1, key2 = jr.split(key)
        self.projection = _conv(1, dim, channels, key1)
        self.resize = None
        if factor > 1:
            side = int(factor)
            self.resize = eqx.nn.ConvTranspose2d(channels, channels, side, side, key=key2)
        elif factor < 1:
            self.resize = eqx.nn.Conv2d(channels, channels, 3, int(1 / factor), 1, key=key2)

    def __call__(self, x: Map) -> NewMap:
        """Return the map with `channels` channels and `factor` times as many rows and columns."""
        x = self.projection(x)
        return x if self.resize is None else self.resize(x)


class ResidualUnit(eqx.Module):
    """Residual unit: `x + conv2(relu(conv1(relu(x))))`.

    Source: He et al., 2016, arXiv:1603.05027.
    """

    conv1: eqx.nn.Conv2d
    conv2: eqx.nn.Conv2d

    def __init__(self, channels: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `channels`: the number of channels of the map.
        """
        key1, key2 = jr.split(key)
        self.conv1 = _conv(3, channels, channels, key1)
        self.conv2 = _conv(3, channels, channels, key2)

    def __call__(self, x: Map) -> Map:
        """Return the map after the unit, of the same shape."""
        return x + self.conv2(jax.nn.relu(self.conv1(jax.nn.relu(x))))


class Fusion(eqx.Module):
    """Layer that adds a finer map and enlarges the sum: `projection(resized(residual2(x +
    residual1(finer))))`."""

    residual1: ResidualUnit
    residual2: ResidualUnit
    projection: eqx.nn.Conv2d

    def __init__(self, channels: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `channels`: the number of channels of all maps.
        """
        key1, key2, key3 = jr.split(key, 3)
        self.residual1 = ResidualUnit(channels, key=key1)
        self.residual2 = ResidualUnit(channels, key=key2)
        self.projection = _conv(1, channels, channels, key3)

    def __call__(self, x: Map, finer: Map | None, size: Sequence[Size]) -> NewMap:
        """Return the fused map.

        **Arguments:**

        - `x`: the map so far.
        - `finer`: the map that is added; None for the coarsest map, which comes first, so that
          `residual1` is not used.
        - `size`: (height, width) of the result.
        """
        x = x if finer is None else x + self.residual1(finer)
        return self.projection(resize_aligned(self.residual2(x), size))


class DepthDecoder(eqx.Module):
    """Decoder that fuses four maps of patches to one map of pixels, from the coarsest to the
    finest.

    Source: Ranftl et al., 2021, arXiv:2103.13413.
    """

    reassemble: tuple[Reassemble, ...]
    convs: tuple[eqx.nn.Conv2d, ...]
    fusion: tuple[Fusion, ...]
    conv1: eqx.nn.Conv2d
    conv2: eqx.nn.Conv2d
    conv3: eqx.nn.Conv2d
    max_depth: float | None = eqx.field(static=True)

    def __init__(self, config: DepthConfig, *, key: PRNGKeyArray):
        """**Arguments:**

        - `config`: the sizes.
        """
        keys, fused = jr.split(key, 4), config.fused
        parts = zip(config.channels, FACTORS, jr.split(keys[0], 4), strict=True)
        self.reassemble = tuple(
            Reassemble(config.dim, count, factor, key=part_key) for count, factor, part_key in parts
        )
        self.convs = tuple(
            eqx.nn.Conv2d(count, fused, 3, padding=1, use_bias=False, key=key)
            for count, key in zip(config.channels, jr.split(keys[1], 4), strict=True)
        )
        self.fusion = tuple(Fusion(fused, key=key) for key in jr.split(keys[2], 4))
        key1, key2, key3 = jr.split(keys[3], 3)
        self.conv1 = _conv(3, fused, fused // 2, key1)
        self.conv2 = _conv(3, fused // 2, config.hidden, key2)
        self.conv3 = _conv(1, config.hidden, 1, key3)
        self.max_depth = config.max_depth

    def __call__(self, maps: Sequence[Map], size: Sequence[Size]) -> Float[Array, "H W"]:
        """Return the depth of every pixel: in metres if the network has a largest depth, otherwise
        a number without a unit that is larger for nearer pixels.

        **Arguments:**

        - `maps`: the patches of four layers on their grid, `[dim, height, width]`. The first is
          enlarged by 4, the others by 2, 1 and 1/2.
        - `size`: (height, width) of the result.
        """
        parts = zip(self.convs, self.reassemble, maps, strict=True)
        fine, middle, coarse, coarsest = (conv(reassemble(x)) for conv, reassemble, x in parts)
        x = self.fusion[0](coarsest, None, coarse.shape[1:])
        x = self.fusion[1](x, coarse, middle.shape[1:])
        x = self.fusion[2](x, middle, fine.shape[1:])
        x = self.fusion[3](x, fine, [2 * side for side in fine.shape[1:]])
        x = resize_aligned(self.conv1(x), size)
        x = self.conv3(jax.nn.relu(self.conv2(x)))[0]
        return jax.nn.relu(x) if self.max_depth is None else self.max_depth * jax.nn.sigmoid(x)


class DepthAnything(BackboneNetwork):
    """Depth Anything: patches of four blocks of a vision transformer are read as maps, and decoded
    to depths.

        maps = normed patches of the blocks in `layers`, on their grid
        predicted_depth = decoder(maps), at the size of the image

    Depth Anything V2's small model, with initial parameters:

        model = zoo.create("depth_anything_v2_vits", key=jax.random.key(0))
        depth = model(image).predicted_depth  # image is [3, H, W], depth is [H, W]

    Source: Yang et al., 2024, arXiv:2406.09414; `depth_anything_v2/dpt.py` of
    DepthAnything/Depth-Anything-V2.
    """

    backbone: VisionTransformer
    decoder: DepthDecoder
    layers: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, config: DepthConfig, *, identity: Identity = NO_IDENTITY, key: PRNGKeyArray):
        """**Arguments:**

        - `config`: the sizes.
        - `identity`: the metadata of the network.
        - `key`: draws the initial parameters.

        **Raises** `ValueError` if the backbone lacks a block in `config.layers`.
        """
        key1, key2 = jr.split(key)
        self.backbone = VisionTransformer(config.backbone, key=key1)
        self.decoder = DepthDecoder(config, key=key2)
        check_layers(config.layers, self.backbone.num_hidden_states)
        self.layers, self.identity = config.layers, identity

    def __call__(self, pixel_values: Float[Array, "3 H W"]) -> Depth:
        """Return the depths of the pixels of one picture. Use `jax.vmap` for a batch.

        **Arguments:**

        - `pixel_values`: preprocessed RGB, not necessarily square. Pixels at the right and bottom
          edge that do not fill a patch are ignored, and get no depth.
        """
        height, width = (side // self.stride * self.stride for side in pixel_values.shape[1:])
        maps = self.backbone(pixel_values, self.layers, as_maps=True).hidden_states
        return Depth(self.decoder(maps, (height, width)))
