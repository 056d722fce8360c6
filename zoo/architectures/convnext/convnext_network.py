"""Network of ConvNeXt (Liu et al., 2022, arXiv:2201.03545), of its second version (Woo et al.,
2023, arXiv:2301.00808), and of the models that DINOv3 and EUPE distilled.

Except in convolutions, maps have the channels last, also in the residual stream, because norms and
matrix products need them there. ONNX Runtime reorders around every convolution anyway and merges
all transposes into that (measured: none is left). Pointwise convolutions of 1 x 1 would be 6 %
faster in float32. In int8, however, matrix products become 2.4 times as fast, and convolutions 4
times slower.
"""

import math
from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.architectures.base import NO_IDENTITY, FeatureNetwork, Identity
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.parts.layers import (
    ACTIVATIONS,
    Activation,
    LayerScale,
    MakeNorm,
    Norm,
    pointwise,
)
from zoo.architectures.parts.output import Output, check_layers


def convolve(
    conv: eqx.nn.Conv2d, x: Float[Array, "height width dim"]
) -> Float[Array, "height2 width2 dim2"]:
    """Apply a convolution to a map whose channels are its last axis."""
    return conv(x.transpose(2, 0, 1)).transpose(1, 2, 0)


class Stem(eqx.Module):
    """Projection of patches of 4 x 4 pixels: `norm(conv(image))`.

    Source: section 2.2 of the paper, "patchify stem".
    """

    conv: eqx.nn.Conv2d
    norm: Norm

    def __init__(self, dim: int, *, in_channels: int = 3, norm: MakeNorm, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of the result.
        - `in_channels`: the number of channels of the picture.
        - `norm`: a function that returns a norm.
        """
        self.conv = eqx.nn.Conv2d(in_channels, dim, 4, stride=4, key=key)
        self.norm = norm(dim)

    def __call__(self, image: Float[Array, "in_channels H W"]) -> Float[Array, "height width dim"]:
        """Return a map with `height = H // 4` and `width = W // 4`.

        Pixels at the right and bottom edge that do not fill a patch are ignored.
        """
        return pointwise(self.norm, self.conv(image).transpose(1, 2, 0))


class Downsampler(eqx.Module):
    """Layer between stages that halves height and width: `conv(norm(x))`.

    Source: section 2.6 of the paper, "separate downsampling layers".
    """

    norm: Norm
    conv: eqx.nn.Conv2d

    def __init__(self, dim: int, new_dim: int, *, norm: MakeNorm, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of the input.
        - `new_dim`: the number of channels of the result.
        - `norm`: a function that returns a norm.
        """
        self.norm = norm(dim)
        self.conv = eqx.nn.Conv2d(dim, new_dim, 2, stride=2, key=key)

    def __call__(
        self, x: Float[Array, "height width dim"]
    ) -> Float[Array, "height2 width2 new_dim"]:
        """Return a map with `height2 = height // 2` and `width2 = width // 2`."""
        return convolve(self.conv, pointwise(self.norm, x))


class GlobalResponseNorm(eqx.Module):
    """Global response norm: `x + weight * x * n + bias`.

    `n` is the L2 norm of a channel over all pixels, divided by the mean of these norms.

    Source: section 3.2 of the second paper; `GRN` of facebookresearch/ConvNeXt-V2.
    """

    weight: Float[Array, " dim"]
    bias: Float[Array, " dim"]

    def __init__(self, dim: int):
        """**Arguments:**

        - `dim`: the number of channels.
        """
        self.weight, self.bias = jnp.zeros(dim), jnp.zeros(dim)

    def __call__(self, x: Float[Array, "height width dim"]) -> Float[Array, "height width dim"]:
        """Return the map with channels scaled by their response: `x + weight * x * n + bias`."""
        length = jnp.sqrt((x * x).sum(axis=(0, 1)))
        ratio = length / (length.mean() + 1e-6)
        return x * (1 + self.weight * ratio) + self.bias


class ConvNeXtBlock(eqx.Module):
    """Block of a ConvNeXt: `x + ls(pwconv2(grn(activation(pwconv1(norm(dwconv(x)))))))`.

    The depthwise convolution of 7 x 7 mixes pixels. The two linear layers, which the paper calls
    pointwise convolutions, mix channels. `ls` is the layer scale, which the second version replaces
    by the global response norm `grn`.

    Source: sections 2.4 to 2.6 of the paper.
    """

    dwconv: eqx.nn.Conv2d
    norm: Norm
    pwconv1: eqx.nn.Linear
    grn: GlobalResponseNorm | None
    pwconv2: eqx.nn.Linear
    ls: LayerScale | None
    activation: Activation = eqx.field(static=True)

    def __init__(self, dim: int, config: ConvNeXtConfig, *, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels; there are four times as many between the linear layers.
        - `config`: options that all blocks share.
        """
        conv_key, key1, key2 = jr.split(key, 3)
        self.dwconv = eqx.nn.Conv2d(dim, dim, 7, padding=3, groups=dim, key=conv_key)
        self.norm = eqx.nn.LayerNorm(dim, eps=config.norm_eps)
        self.pwconv1 = eqx.nn.Linear(dim, 4 * dim, key=key1)
        self.pwconv2 = eqx.nn.Linear(4 * dim, dim, key=key2)
        self.grn = GlobalResponseNorm(4 * dim) if config.response_norm else None
        self.ls = None if config.layer_scale is None else LayerScale(dim, config.layer_scale)
        self.activation = ACTIVATIONS[config.activation]

    @eqx.filter_jit  # traced once for all blocks of one width
    def __call__(self, x: Float[Array, "height width dim"]) -> Float[Array, "height width dim"]:
        """Return the map after the block, of the same shape."""
        y = pointwise(self.norm, convolve(self.dwconv, x))
        y = self.activation(pointwise(self.pwconv1, y))
        y = pointwise(self.pwconv2, y if self.grn is None else self.grn(y))
        return x + (y if self.ls is None else self.ls(y))


class Stage(eqx.Module):
    """Downsampling followed by blocks: `blocks(downsample(x))`."""

    downsample: Stem | Downsampler
    blocks: tuple[ConvNeXtBlock, ...]

    def __init__(self, config: ConvNeXtConfig, stage: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `config`: the sizes.
        - `stage`: the index of the stage, counted from 0. The first stage takes the picture.
        """
        down_key, *keys = jr.split(key, 1 + config.depths[stage])
        norm = partial(eqx.nn.LayerNorm, eps=config.norm_eps)
        previous_dim, dim = config.dims[max(0, stage - 1)], config.dims[stage]
        make = partial(Downsampler, previous_dim) if stage else Stem
        self.downsample = make(dim, norm=norm, key=down_key)
        self.blocks = tuple(ConvNeXtBlock(dim, config, key=block_key) for block_key in keys)

    def __call__(
        self, x: Float[Array, "height2 width2 narrower"] | Float[Array, "3 H W"]
    ) -> Float[Array, "height width dim"]:
        """Return the map after the stage.

        The first stage takes a picture, and returns a map of a quarter of its height and width. The
        other stages take the map of the stage before and halve height and width.
        """
        x = self.downsample(x)
        for block in self.blocks:
            x = block(x)
        return x


class ConvNeXt(FeatureNetwork):
    """ConvNeXt: stages, each with half the height and width of the one before, and a final norm.

        x = stage(x)                                for every stage; the first takes the image
        last_hidden_state = norm([mean(x), x])      rows: the mean, then the pixels
        pooler_output = last_hidden_state[0]
        logits = head(pooler_output)

    DINOv3's ConvNeXt-T, with initial parameters:

        config = ConvNeXtConfig(depths=(3, 3, 9, 3), dims=(96, 192, 384, 768))
        model = build_model(config, key=jax.random.key(0))
        output = model(image)  # [3, H, W]; for a batch jax.vmap(model)(images)

    Leaves have the names of Equimo's `ConvNeXt`: `blocks` are the stages. Pointwise convolutions
    are linear layers.

    Source: `dinov3/models/convnext.py` of facebookresearch/dinov3.
    """

    blocks: tuple[Stage, ...]
    norm: Norm
    head: eqx.nn.Linear | None

    def __init__(
        self, config: ConvNeXtConfig, *, identity: Identity = NO_IDENTITY, key: PRNGKeyArray
    ):
        """**Arguments:**

        - `config`: the sizes.
        - `identity`: the metadata of the network.
        - `key`: draws the initial parameters.
        """
        dims, eps = config.dims, config.final_norm_eps or config.norm_eps
        keys = jr.split(key, len(dims))
        self.blocks = tuple(
            Stage(config, stage, key=stage_key) for stage, stage_key in enumerate(keys)
        )
        self.norm = eqx.nn.LayerNorm(dims[-1], eps=eps)
        # This key keeps the draws of all other leaves the same with and without a classifier.
        head = partial(eqx.nn.Linear, dims[-1], key=jr.fold_in(key, len(dims)))
        self.head = head(config.classes) if config.classes else None
        self.identity = identity

    @property
    def stride(self) -> int:
        """Side, in pixels, of the square of the picture that one pixel of the last map covers: 32
        for four stages."""
        return math.prod(stage.downsample.conv.stride[0] for stage in self.blocks)

    @property
    def prefix_tokens(self) -> int:
        """Number of rows before the pixels of the last map: 1, their mean."""
        return 1

    def __call__(
        self,
        pixel_values: Float[Array, "3 H W"],
        layers: Sequence[int] = (),
        *,
        as_maps: bool = False,
    ) -> Output:
        """Return the features of one picture. Use `jax.vmap` for a batch.

        **Arguments:**

        - `pixel_values`: preprocessed RGB, not necessarily square. Pixels at the right and bottom
          edge that do not fill a stride are ignored.
        - `layers`: numbers of stages, counted from 1, whose maps are returned as `hidden_states` in
          this order. The map of the last stage is normalised. The others are not, because the
          reference trains no norm for them.
        - `as_maps`: whether `hidden_states` are maps `[dim, height, width]`. Otherwise they are
          rows: the mean of the map, then its pixels.

        **Returns** an `Output` whose `last_hidden_state` has `1 + height * width` normalised rows
        of the last stage. The first row is the norm of the map's mean, and also the
        `pooler_output`.

        **Raises** `ValueError` for a stage that does not exist.
        """
        check_layers(layers, self.num_hidden_states)
        x, maps = pixel_values, []
        for stage in self.blocks:
            x = stage(x)
            maps.append(x)
        rows = pointwise(self.norm, prepend_mean(x))
        if as_maps:
            maps[-1] = rows[1:].reshape(x.shape)
            states = [state.transpose(2, 0, 1) for state in maps]
        else:
            states = [*map(prepend_mean, maps[:-1]), rows]
        logits = None if self.head is None else self.head(rows[0])
        return Output(rows, rows[0], logits, tuple(states[number - 1] for number in layers))


def prepend_mean(x: Float[Array, "height width dim"]) -> Float[Array, "tokens dim"]:
    """Return the mean of all pixels, followed by the pixels by rows."""
    height, width, dim = x.shape
    return jnp.concatenate([x.mean(axis=(0, 1))[None], x.reshape(height * width, dim)])
