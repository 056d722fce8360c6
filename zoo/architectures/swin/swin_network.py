"""Network of Swin V2 (Liu et al., 2021, arXiv:2111.09883): attention in windows, which every second
block shifts.

All maps have the channels last. A map whose size is not a multiple of the window is padded with
zeros at the right and bottom edge, and cropped again afterwards.
"""

import math
from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from zoo.architectures.base import NO_IDENTITY, FeatureNetwork, Identity
from zoo.architectures.parts.attention import weighted_means
from zoo.architectures.parts.block import Mlp
from zoo.architectures.parts.layers import (
    ACTIVATIONS,
    Norm,
    PatchEmbedding,
    Size,
    pointwise,
)
from zoo.architectures.parts.output import Output, check_layers
from zoo.architectures.swin.swin_config import SwinConfig, TwoInts

BIAS_HIDDEN = 512  # hidden channels of the network that computes position biases
MAX_LOGIT_SCALE = math.log(100)
DISTANCE_FACTOR = 8  # factor of relative distances before the logarithm
BIAS_RANGE = 16
MASK_VALUE = -100.0


def pad_to_multiples(
    x: Float[Array, "height width dim"], multiples: TwoInts
) -> Float[Array, "height2 width2 dim"]:
    """Pad a map with zeros at the right and bottom edge, so that its height and width become
    multiples of the two numbers."""
    # Older versions of JAX can divide open sizes only if they are written as multiples.
    sides = zip(x.shape, multiples, strict=False)
    missing = [(side + multiple - 1) // multiple * multiple - side for side, multiple in sides]
    return jnp.pad(x, [(0, missing[0]), (0, missing[1]), (0, 0)]) if missing != [0, 0] else x


def relative_distances(window: TwoInts, pretrained: int) -> Float[np.ndarray, "distances 2"]:
    """Return the possible distances (rows, columns) between two pixels of a window, on a
    logarithmic scale. There is one row for each distance, from the most negative one on; the
    distance in columns changes fastest.

    A distance `d`, relative to the largest one in a window of earlier training, or else in this
    window, becomes `sign(d) log2(1 + 8 |d|) / 3`.

    **Arguments:**

    - `window`: (height, width) of the window.
    - `pretrained`: the side of the window in earlier training; 0 if there was none.

    Source: section 3.3 of the paper.
    """
    limits = [max((pretrained or side) - 1, 1) for side in window]
    axes = [np.arange(1 - side, side) / limit for side, limit in zip(window, limits, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    scaled = (
        np.sign(grid) * np.log2(1 + DISTANCE_FACTOR * np.abs(grid)) / math.log2(DISTANCE_FACTOR)
    )
    return scaled.astype(np.float32)


def distance_indices(window: TwoInts) -> Int[np.ndarray, "pixels pixels"]:
    """Return, for each pair of pixels of a window, the row of `relative_distances` that has their
    distance."""
    height, width = window
    rows, columns = (axis.reshape(-1) for axis in np.indices(window))
    down, across = (axis[:, None] - axis[None, :] for axis in (rows, columns))
    return (down + height - 1) * (2 * width - 1) + across + width - 1


def label_regions(size: Size, window: int, shift: int) -> Int[Array, " size"]:
    """Return a label for each index along an axis of a shifted map.

    The label is 0 for the first pixels, 1 within the last window, and 2 for the pixels that the
    shift has moved to the end. Pixels of a window with different labels were not neighbours before
    the shift.

    **Arguments:**

    - `size`: the number of pixels along the axis.
    - `window`: the side of a window.
    - `shift`: the number of pixels by which windows are shifted.
    """
    index = jnp.arange(size)
    return (index >= size - window).astype(int) + (index >= size - shift).astype(int)


class WindowAttention(eqx.Module):
    """Attention among the pixels of a window, by the angle between queries and keys:

        softmax(scale · cos(Q, K) + bias) V

    `scale` is `exp(logit_scale)`, one number for each head and at most 100. `bias` is computed from
    the distance of two pixels by two layers, `16 · sigmoid(cpb2(relu(cpb1(distance))))`.

    Source: sections 3.2 and 3.3 of the paper.
    """

    qkv: eqx.nn.Linear
    q_bias: Float[Array, " dim"] | None
    v_bias: Float[Array, " dim"] | None
    proj: eqx.nn.Linear
    logit_scale: Float[Array, " heads"]
    cpb1: eqx.nn.Linear
    cpb2: eqx.nn.Linear
    window: TwoInts = eqx.field(static=True)
    pretrained: int = eqx.field(static=True)

    def __init__(self, config: SwinConfig, stage: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `config`: the sizes.
        - `stage`: the index of the stage, counted from 0.

        Keys have no bias.
        """
        qkv_key, proj_key, key1, key2 = jr.split(key, 4)
        dim, heads = config.dims[stage], config.heads[stage]
        self.qkv = eqx.nn.Linear(dim, 3 * dim, use_bias=False, key=qkv_key)
        self.q_bias, self.v_bias = (jnp.zeros(dim) if config.qkv_bias else None for _ in "qv")
        self.proj = eqx.nn.Linear(dim, dim, key=proj_key)
        self.logit_scale = jnp.full((heads,), math.log(10))
        self.cpb1 = eqx.nn.Linear(2, BIAS_HIDDEN, key=key1)
        self.cpb2 = eqx.nn.Linear(BIAS_HIDDEN, heads, use_bias=False, key=key2)
        self.window, self.pretrained = config.windows[stage].size, config.pretrained[stage]

    def compute_bias(self) -> Float[Array, "heads pixels pixels"]:
        """Return the bias of each head for each pair of pixels of a window, which depends on their
        distance."""
        distances = jnp.asarray(
            relative_distances(self.window, self.pretrained), self.cpb1.weight.dtype
        )
        table = pointwise(self.cpb2, jax.nn.relu(pointwise(self.cpb1, distances)))
        return BIAS_RANGE * jax.nn.sigmoid(table[distance_indices(self.window)].transpose(2, 0, 1))

    def __call__(
        self,
        x: Float[Array, "windows pixels dim"],
        mask: Float[Array, "windows pixels pixels"] | None,
    ) -> Float[Array, "windows pixels dim"]:
        """Return the pixels of every window after attention.

        **Arguments:**

        - `x`: the pixels of every window.
        - `mask`: numbers that are added to the logits: 0, or a large negative number for two pixels
          that were not neighbours before the shift. None if windows are not shifted.
        """
        windows, pixels, dim = x.shape
        heads = len(self.logit_scale)
        projected = pointwise(self.qkv, x)
        if self.q_bias is not None and self.v_bias is not None:
            no_bias = jnp.zeros_like(self.q_bias)
            projected = projected + jnp.concatenate([self.q_bias, no_bias, self.v_bias])
        parts = projected.reshape(windows, pixels, 3, heads, dim // heads)
        q, k, v = parts.transpose(2, 0, 3, 1, 4)
        scale = jnp.exp(jnp.minimum(self.logit_scale, MAX_LOGIT_SCALE))
        q = normalize(q) * scale[:, None, None]
        bias, bias_axis = self.compute_bias(), None if mask is None else 0
        if mask is not None:
            bias = bias + mask[:, None].astype(bias.dtype)
        out = jax.vmap(attend_with_bias, in_axes=(0, 0, 0, bias_axis))(q, normalize(k), v, bias)
        return pointwise(self.proj, out)


def normalize(x: Float[Array, "*lead dim"]) -> Float[Array, "*lead dim"]:
    """Return vectors, along the last axis, scaled to length 1. A vector of zeros stays a vector of
    zeros."""
    return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-12)


def attend_with_bias(
    q: Float[Array, "heads pixels head_dim"],
    k: Float[Array, "heads pixels head_dim"],
    v: Float[Array, "heads pixels head_dim"],
    bias: Float[Array, "heads pixels pixels"],
) -> Float[Array, "pixels dim"]:
    """Return `softmax(Q Kᵀ + bias) V` of every head, with the results of the heads concatenated.

    The scores are not divided by `√head_dim`: `q` and `k` are scaled before. The softmax is
    computed in float32.
    """
    scores = (jnp.einsum("hqd,hkd->hqk", q, k) + bias).astype(jnp.float32)
    return weighted_means(jax.nn.softmax(scores, axis=-1).astype(q.dtype), v)


class SwinBlock(eqx.Module):
    """Block with norms after its branches: `y = x + norm1(attn(x))`, `z = y + norm2(mlp(y))`.

    Source: section 3.2 of the paper, "post normalization".
    """

    attn: WindowAttention
    norm1: Norm
    mlp: Mlp
    norm2: Norm
    shift: TwoInts = eqx.field(static=True)
    pads_first: bool = eqx.field(static=True)  # whether maps are padded before the shift
    masked: float = eqx.field(static=True)  # see `make_mask`

    def __init__(self, config: SwinConfig, stage: int, *, is_shifted: bool, key: PRNGKeyArray):
        """**Arguments:**

        - `config`: the sizes.
        - `stage`: the index of the stage, counted from 0.
        - `is_shifted`: whether windows are shifted.
        """
        attn_key, mlp_key = jr.split(key)
        dim, activation = config.dims[stage], ACTIVATIONS[config.activation]
        self.attn = WindowAttention(config, stage, key=attn_key)
        self.mlp = Mlp(dim, int(config.ratio * dim), activation=activation, key=mlp_key)
        self.norm1, self.norm2 = (eqx.nn.LayerNorm(dim, eps=config.norm_eps) for _ in range(2))
        self.shift = config.windows[stage].shift if is_shifted else (0, 0)
        self.pads_first = config.library == "transformers"
        self.masked = MASK_VALUE * (2 if self.pads_first else 1)

    @eqx.filter_jit  # traced once for all blocks of one width
    def __call__(self, x: Float[Array, "height width dim"]) -> Float[Array, "height width dim"]:
        """Return the map after the block, of the same shape."""
        x = x + pointwise(self.norm1, self.attend_windows(x))
        rows = self.mlp(x.reshape(-1, x.shape[-1]))
        return x + pointwise(self.norm2, rows.reshape(x.shape))

    def attend_windows(
        self, x: Float[Array, "height width dim"]
    ) -> Float[Array, "height width dim"]:
        """Return the map after attention within its windows, of the same shape.

        The map is shifted by `shift` if that is not (0, 0), and padded to complete windows. Both
        are undone afterwards. The residual and the norm are not applied.
        """
        height, width, _ = x.shape
        window, (down, across) = self.attn.window, self.shift
        y = pad_to_multiples(x, window) if self.pads_first else x
        y = jnp.roll(y, (-down, -across), (0, 1)) if any(self.shift) else y
        y = pad_to_multiples(y, window)
        mask = self.make_mask(y.shape[0], y.shape[1]) if any(self.shift) else None
        y = join_windows(self.attn(split_windows(y, window), mask), window, y.shape)
        y = y if self.pads_first else y[:height, :width]
        y = jnp.roll(y, (down, across), (0, 1)) if any(self.shift) else y
        return y[:height, :width]

    def make_mask(self, height: Size, width: Size) -> Float[Array, "windows pixels pixels"]:
        """Return the numbers that are added to the attention logits of a shifted map: 0, or
        `masked` for two pixels of a window that were not neighbours before the shift.

        `height` and `width` are those of the padded map.
        """
        rows, columns = (
            label_regions(side, window, shift)
            for side, window, shift in zip(
                (height, width), self.attn.window, self.shift, strict=True
            )
        )
        labels = split_windows((3 * rows[:, None] + columns[None, :])[..., None], self.attn.window)[
            ..., 0
        ]
        return jnp.where(labels[:, :, None] == labels[:, None, :], 0.0, self.masked)


def split_windows(
    x: Shaped[Array, "height width dim"], window: TwoInts
) -> Shaped[Array, "windows pixels dim"]:
    """Return the windows of a map by rows. Each window has its pixels by rows.

    The sides of the map are multiples of `window` (height, width).
    """
    height, width, dim = x.shape
    down, across = height // window[0], width // window[1]
    parts = x.reshape(down, window[0], across, window[1], dim).transpose(0, 2, 1, 3, 4)
    return parts.reshape(down * across, window[0] * window[1], dim)


def join_windows(
    windows: Float[Array, "windows pixels dim"], window: TwoInts, shape: Sequence[Size]
) -> Float[Array, "height width dim"]:
    """Return the map of shape `shape` whose windows these are; the inverse of `split_windows`."""
    height, width, dim = shape
    down, across = height // window[0], width // window[1]
    parts = windows.reshape(down, across, *window, dim).transpose(0, 2, 1, 3, 4)
    return parts.reshape(height, width, dim)


class PatchMerging(eqx.Module):
    """Layer that halves height and width and doubles the channels: `norm(reduction(four pixels))`.

    Source: section 3.1 of Liu et al., 2021, arXiv:2103.14030. In this version the norm comes after
    the reduction.
    """

    reduction: eqx.nn.Linear
    norm: Norm

    def __init__(self, dim: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of the input.
        """
        self.reduction = eqx.nn.Linear(4 * dim, 2 * dim, use_bias=False, key=key)
        self.norm = eqx.nn.LayerNorm(2 * dim)

    def __call__(self, x: Float[Array, "height width dim"]) -> Float[Array, "height2 width2 dim2"]:
        """Return a map of half the height and width, rounded up."""
        x = pad_to_multiples(x, (2, 2))
        height, width, dim = x.shape
        # The pixel below comes before the pixel on the right.
        groups = x.reshape(height // 2, 2, width // 2, 2, dim).transpose(0, 2, 3, 1, 4)
        groups = groups.reshape(height // 2, width // 2, 4 * dim)
        return pointwise(self.norm, pointwise(self.reduction, groups))


class SwinStage(eqx.Module):
    """Blocks of one width, and the layer that halves their map for the next stage."""

    blocks: tuple[SwinBlock, ...]
    downsample: PatchMerging | None

    def __init__(self, config: SwinConfig, stage: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `config`: the sizes.
        - `stage`: the index of the stage, counted from 0.
        """
        dim = config.dims[stage]
        down_key, *keys = jr.split(key, 1 + config.depths[stage])
        self.blocks = tuple(
            SwinBlock(config, stage, is_shifted=bool(index % 2), key=block_key)
            for index, block_key in enumerate(keys)
        )
        is_last = stage == len(config.depths) - 1
        self.downsample = None if is_last else PatchMerging(dim, key=down_key)

    def __call__(self, x: Float[Array, "height width dim"]) -> Float[Array, "height width dim"]:
        """Return the map after the blocks. It is not halved yet, because networks return this map
        as a state."""
        for block in self.blocks:
            x = block(x)
        return x


class SwinTransformer(FeatureNetwork):
    """Swin V2: stages of blocks, each with half the height and width of the one before, and a final
    norm.

        x = patch_norm(patch_embed(image))
        x = stage(x)                            for every stage; between them x = downsample(x)
        last_hidden_state = norm(x)             rows: the pixels of the last map
        pooler_output = mean(last_hidden_state)
        logits = head(pooler_output)

    Source: `models/swin_transformer_v2.py` of microsoft/Swin-Transformer.
    """

    patch_embed: PatchEmbedding
    patch_norm: Norm
    blocks: tuple[SwinStage, ...]
    norm: Norm
    head: eqx.nn.Linear | None

    def __init__(self, config: SwinConfig, *, identity: Identity = NO_IDENTITY, key: PRNGKeyArray):
        """**Arguments:**

        - `config`: the sizes.
        - `identity`: the metadata of the network.
        - `key`: draws the initial parameters.
        """
        dims = config.dims
        patch_key, head_key, *keys = jr.split(key, 2 + len(dims))
        self.patch_embed = PatchEmbedding(dims[0], config.patch_size, key=patch_key)
        self.patch_norm = eqx.nn.LayerNorm(dims[0])
        self.blocks = tuple(
            SwinStage(config, stage, key=stage_key) for stage, stage_key in enumerate(keys)
        )
        self.norm = eqx.nn.LayerNorm(dims[-1], eps=config.norm_eps)
        head = partial(eqx.nn.Linear, dims[-1], key=head_key)
        self.head = head(config.classes) if config.classes else None
        self.identity = identity

    @property
    def stride(self) -> int:
        """Side, in pixels, of the square of the picture that one pixel of the last map covers: 32
        for four stages."""
        return self.patch_embed.patch_size << (len(self.blocks) - 1)

    def __call__(
        self,
        pixel_values: Float[Array, "3 H W"],
        layers: Sequence[int] = (),
        *,
        as_maps: bool = False,
    ) -> Output:
        """Return the features of one picture. Use `jax.vmap` for a batch.

        **Arguments:**

        - `pixel_values`: preprocessed RGB, not necessarily square. Incomplete patches at the right
          and bottom edge are filled with zeros.
        - `layers`: numbers of stages, counted from 1, whose maps are returned as `hidden_states` in
          this order, before they are halved. Only the map of the last stage is normalised.
        - `as_maps`: whether `hidden_states` are maps `[dim, height, width]`. Otherwise they are
          rows of pixels.

        **Returns** an `Output` whose `last_hidden_state` has a row for each pixel of the last map,
        and whose `pooler_output` is their mean.

        **Raises** `ValueError` for a stage that does not exist.
        """
        check_layers(layers, self.num_hidden_states)
        patch = self.patch_embed.patch_size
        image = pad_to_multiples(pixel_values.transpose(1, 2, 0), (patch, patch)).transpose(2, 0, 1)
        x = pointwise(self.patch_norm, self.patch_embed(image).transpose(1, 2, 0))
        maps = []
        for stage in self.blocks:
            maps.append(stage(x))
            x = maps[-1] if stage.downsample is None else stage.downsample(maps[-1])
        maps[-1] = pointwise(self.norm, x)
        requested = [maps[number - 1] for number in layers]
        rows = maps[-1].reshape(-1, x.shape[-1])
        pooled = rows.mean(axis=0)
        states = [
            state.transpose(2, 0, 1) if as_maps else state.reshape(-1, state.shape[-1])
            for state in requested
        ]
        logits = None if self.head is None else self.head(pooled)
        return Output(rows, pooled, logits, tuple(states))
