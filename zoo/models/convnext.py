"""ConvNeXt (Liu et al., 2022, arXiv:2201.03545), as DINOv3 and EUPE distilled it."""

from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.models.config import ConvNeXtConfig
from zoo.models.layers import LayerScale, gelu
from zoo.models.output import Output

# Everything but a convolution has the channels last, the residual stream too: norms and matrix
# products want them there, and ONNX Runtime, which reorders around every convolution anyway, then
# takes all transposes into that (measured: none is left). Pointwise convolutions of 1 x 1 would be
# 6 % faster in float32 there, but int8 makes matrix products 2.4 times as fast and convolutions
# four times as slow.


def convolve(
    conv: eqx.nn.Conv2d, x: Float[Array, "height width dim"]
) -> Float[Array, "height2 width2 dim2"]:
    """A convolution of a map whose channels are its last axis."""
    return conv(x.transpose(2, 0, 1)).transpose(1, 2, 0)


def per_pixel(
    layer: eqx.nn.Linear | eqx.nn.LayerNorm, x: Float[Array, "height width dim"]
) -> Float[Array, "height width dim2"]:
    """A layer applied to each pixel alone."""
    return jax.vmap(jax.vmap(layer))(x)


class Stem(eqx.Module):
    """Cuts the image into patches of 4 x 4 pixels: `norm(conv(x))`."""

    conv: eqx.nn.Conv2d
    norm: eqx.nn.LayerNorm

    def __init__(self, dim: int, eps: float, *, key: PRNGKeyArray):
        self.conv = eqx.nn.Conv2d(3, dim, 4, stride=4, key=key)
        self.norm = eqx.nn.LayerNorm(dim, eps=eps)

    def __call__(self, image: Float[Array, "3 H W"]) -> Float[Array, "height width dim"]:
        """What does not fill a patch at the right and bottom edge is dropped."""
        return per_pixel(self.norm, self.conv(image).transpose(1, 2, 0))


class Downsampler(eqx.Module):
    """Halves height and width between stages: `conv(norm(x))`."""

    norm: eqx.nn.LayerNorm
    conv: eqx.nn.Conv2d

    def __init__(self, dim: int, wider: int, eps: float, *, key: PRNGKeyArray):
        self.norm = eqx.nn.LayerNorm(dim, eps=eps)
        self.conv = eqx.nn.Conv2d(dim, wider, 2, stride=2, key=key)

    def __call__(self, x: Float[Array, "height width dim"]) -> Float[Array, "height2 width2 wider"]:
        """An odd last row or column is dropped."""
        return convolve(self.conv, per_pixel(self.norm, x))


class Block(eqx.Module):
    """`x + ls(pwconv2(gelu(pwconv1(norm(dwconv(x))))))`, a depthwise 7 x 7 and an MLP."""

    dwconv: eqx.nn.Conv2d
    norm: eqx.nn.LayerNorm
    pwconv1: eqx.nn.Linear
    pwconv2: eqx.nn.Linear
    ls: LayerScale
    gelu: Literal["erf", "tanh"] = eqx.field(static=True)

    def __init__(self, config: ConvNeXtConfig, dim: int, *, key: PRNGKeyArray):
        conv_key, key1, key2 = jr.split(key, 3)
        self.dwconv = eqx.nn.Conv2d(dim, dim, 7, padding=3, groups=dim, key=conv_key)
        self.norm = eqx.nn.LayerNorm(dim, eps=config.norm_eps)
        self.pwconv1 = eqx.nn.Linear(dim, 4 * dim, key=key1)
        self.pwconv2 = eqx.nn.Linear(4 * dim, dim, key=key2)
        self.ls = LayerScale(dim, config.layer_scale)
        self.gelu = config.gelu

    def __call__(self, x: Float[Array, "height width dim"]) -> Float[Array, "height width dim"]:
        """Height and width stay."""
        y = per_pixel(self.norm, convolve(self.dwconv, x))
        y = per_pixel(self.pwconv2, gelu(per_pixel(self.pwconv1, y), self.gelu))
        return x + self.ls(y)


class Stage(eqx.Module):
    """Fewer pixels of more channels, then blocks."""

    downsample: Stem | Downsampler
    blocks: tuple[Block, ...]

    def __init__(self, config: ConvNeXtConfig, index: int, *, key: PRNGKeyArray):
        dim, eps = config.dims[index], config.norm_eps
        down_key, *block_keys = jr.split(key, 1 + config.depths[index])
        self.downsample = (
            Downsampler(config.dims[index - 1], dim, eps, key=down_key)
            if index
            else Stem(dim, eps, key=down_key)
        )
        self.blocks = tuple(Block(config, dim, key=block_key) for block_key in block_keys)

    def __call__(self, x: Float[Array, "_ _ _"]) -> Float[Array, "height width dim"]:
        """From the map of the stage before, or from the image `[3, H, W]`."""
        x = self.downsample(x)
        for block in self.blocks:
            x = block(x)
        return x


class ConvNeXt(eqx.Module):
    """Four stages, each with half the height and width of the one before, and a final norm.

    Mirrors Equimo's `ConvNeXt` in names and semantics; pointwise convolutions are linear layers.

    Source: `dinov3/models/convnext.py` of facebookresearch/dinov3.
    """

    blocks: tuple[Stage, ...]
    norm: eqx.nn.LayerNorm
    config: ConvNeXtConfig = eqx.field(static=True)

    def __init__(self, config: ConvNeXtConfig, *, key: PRNGKeyArray):
        """Draw initial parameters from `key`."""
        keys = jr.split(key, config.layers)
        self.blocks = tuple(Stage(config, i, key=stage_key) for i, stage_key in enumerate(keys))
        self.norm = eqx.nn.LayerNorm(config.dim, eps=config.norm_eps)
        self.config = config

    def __call__(
        self,
        pixel_values: Float[Array, "3 H W"],
        layers: Sequence[int] = (),
        *,
        as_maps: bool = False,
    ) -> Output:
        """Features of one image; `jax.vmap` gives a batch.

        **Arguments:**

        - `pixel_values`: preprocessed RGB. Height and width need not be equal; what does not
          fill 32 pixels at the right and bottom edge is dropped.
        - `layers`: stages, counted from 1, whose maps are wanted as well, their mean in front.
          Only the last has a norm: the reference trains none for the others.
        - `as_maps`: give those as `[dim, height, width]`, without the mean.
        """
        x, maps = pixel_values, []
        for stage in self.blocks:
            x = stage(x)
            maps.append(x)
        rows = jax.vmap(self.norm)(with_mean(x))
        states = as_images(maps, rows) if as_maps else [*map(with_mean, maps[:-1]), rows]
        return Output(rows, rows[0], None, tuple(states[number - 1] for number in layers))


def with_mean(x: Float[Array, "height width dim"]) -> Float[Array, "tokens dim"]:
    """The mean of all pixels, then the pixels by rows."""
    height, width, dim = x.shape
    return jnp.concatenate([x.mean(axis=(0, 1))[None], x.reshape(height * width, dim)])


def as_images(maps: Sequence[Array], rows: Float[Array, "tokens dim"]) -> list[Array]:
    """Each stage's map as `[dim, height, width]`, the last one's pixels from `rows`."""
    last = rows[1:].reshape(maps[-1].shape)
    return [x.transpose(2, 0, 1) for x in (*maps[:-1], last)]
