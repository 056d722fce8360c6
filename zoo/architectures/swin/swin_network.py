"""Swin V2 (Liu et al., 2021, arXiv:2111.09883): attention in windows, which every second block
moves.

All maps have the channels last. What windows do not divide is padded with zeros at the right and
bottom edge, and cut off again.
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
from zoo.architectures.parts.attention import mixed
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

HIDDEN = 512  # channels of the network that makes biases of positions
LARGEST_SCALE = math.log(100)
FARTHEST = 8  # what the largest distance in a window is before its logarithm is taken
BIAS_RANGE = 16
MASKED = -100.0


def padded(
    x: Float[Array, "height width dim"], multiples: TwoInts
) -> Float[Array, "height2 width2 dim"]:
    """Pad with zeros at the right and bottom edge, up to multiples of these sides."""
    # As multiples, which older versions of JAX can divide where sizes are open.
    sides = zip(x.shape, multiples, strict=False)
    missing = [(side + multiple - 1) // multiple * multiple - side for side, multiple in sides]
    return jnp.pad(x, [(0, missing[0]), (0, missing[1]), (0, 0)]) if missing != [0, 0] else x


def distances(window: TwoInts, pretrained: int) -> Float[np.ndarray, "distances 2"]:
    """How far pixels of a window are apart, each pair of heights and widths once, on a logarithmic
    scale: `sign(d) log2(1 + 8 |d|) / 3`, where the largest distance in training was 1.

    Source: section 3.3 of the paper.
    """
    longest = [max((pretrained or side) - 1, 1) for side in window]
    axes = [np.arange(1 - side, side) / far for side, far in zip(window, longest, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    scaled = np.sign(grid) * np.log2(1 + FARTHEST * np.abs(grid)) / math.log2(FARTHEST)
    return scaled.astype(np.float32)


def pairs(window: TwoInts) -> Int[np.ndarray, "pixels pixels"]:
    """The row of `distances` for each two pixels of a window."""
    height, width = window
    rows, columns = (axis.reshape(-1) for axis in np.indices(window))
    down, across = (axis[:, None] - axis[None, :] for axis in (rows, columns))
    return (down + height - 1) * (2 * width - 1) + across + width - 1


def regions(size: Size, window: int, shift: int) -> Int[Array, " size"]:
    """Regions of pixels along an axis that are neighbours although it was moved: 0, 1, 2 from the
    start."""
    place = jnp.arange(size)
    return (place >= size - window).astype(int) + (place >= size - shift).astype(int)


class WindowAttention(eqx.Module):
    """Attention of the pixels of a window by the angle between queries and keys:

        softmax(scale · cos(Q, K) + bias) V

    `scale` is `exp(logit_scale)`, a number for each head and 100 at most; `bias` is made of the
    distance of two pixels by two layers, `16 · sigmoid(cpb2(relu(cpb1(distance))))`.

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
        """**Arguments:** the sizes, and in which stage it is. Keys have no bias."""
        qkv_key, proj_key, key1, key2 = jr.split(key, 4)
        dim, heads = config.dims[stage], config.heads[stage]
        self.qkv = eqx.nn.Linear(dim, 3 * dim, use_bias=False, key=qkv_key)
        self.q_bias, self.v_bias = (jnp.zeros(dim) if config.qkv_bias else None for _ in "qv")
        self.proj = eqx.nn.Linear(dim, dim, key=proj_key)
        self.logit_scale = jnp.full((heads,), math.log(10))
        self.cpb1 = eqx.nn.Linear(2, HIDDEN, key=key1)
        self.cpb2 = eqx.nn.Linear(HIDDEN, heads, use_bias=False, key=key2)
        self.window, self.pretrained = config.windows[stage].size, config.pretrained[stage]

    def bias(self) -> Float[Array, "heads pixels pixels"]:
        """Bias for how far two pixels of a window are apart."""
        far = jnp.asarray(distances(self.window, self.pretrained), self.cpb1.weight.dtype)
        table = pointwise(self.cpb2, jax.nn.relu(pointwise(self.cpb1, far)))
        return BIAS_RANGE * jax.nn.sigmoid(table[pairs(self.window)].transpose(2, 0, 1))

    def __call__(
        self,
        x: Float[Array, "windows pixels dim"],
        mask: Float[Array, "windows pixels pixels"] | None,
    ) -> Float[Array, "windows pixels dim"]:
        """**Arguments:** the pixels of every window; and what is added where two of them are no
        neighbours."""
        windows, pixels, dim = x.shape
        heads = len(self.logit_scale)
        projected = pointwise(self.qkv, x)
        if self.q_bias is not None and self.v_bias is not None:
            none = jnp.zeros_like(self.q_bias)
            projected = projected + jnp.concatenate([self.q_bias, none, self.v_bias])
        parts = projected.reshape(windows, pixels, 3, heads, dim // heads)
        q, k, v = parts.transpose(2, 0, 3, 1, 4)
        scale = jnp.exp(jnp.minimum(self.logit_scale, LARGEST_SCALE))
        q = normalized(q) * scale[:, None, None]
        added, each = self.bias(), None if mask is None else 0
        if mask is not None:
            added = added + mask[:, None].astype(added.dtype)
        out = jax.vmap(attended, in_axes=(0, 0, 0, each))(q, normalized(k), v, added)
        return pointwise(self.proj, out)


def normalized(x: Float[Array, "*lead dim"]) -> Float[Array, "*lead dim"]:
    """Vectors of length 1; those of length 0 stay."""
    return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-12)


def attended(
    q: Float[Array, "heads pixels head_dim"],
    k: Float[Array, "heads pixels head_dim"],
    v: Float[Array, "heads pixels head_dim"],
    added: Float[Array, "heads pixels pixels"],
) -> Float[Array, "pixels dim"]:
    """**Returns** `softmax(Q Kᵀ + added) V` of every head, the heads side by side."""
    scores = (jnp.einsum("hqd,hkd->hqk", q, k) + added).astype(jnp.float32)
    return mixed(jax.nn.softmax(scores, axis=-1).astype(q.dtype), v)


class SwinBlock(eqx.Module):
    """`y = x + norm1(attn(x))`, `z = y + norm2(mlp(y))`: norms behind the branches.

    Source: section 3.2 of the paper, "post normalization".
    """

    attn: WindowAttention
    norm1: Norm
    mlp: Mlp
    norm2: Norm
    shift: TwoInts = eqx.field(static=True)
    pads_first: bool = eqx.field(static=True)  # before it is moved
    masked: float = eqx.field(static=True)  # what is added for pixels that are no neighbours

    def __init__(self, config: SwinConfig, stage: int, *, is_moved: bool, key: PRNGKeyArray):
        """**Arguments:** the sizes, in which stage it is, counted from 0, and whether windows are
        moved."""
        attn_key, mlp_key = jr.split(key)
        dim, activation = config.dims[stage], ACTIVATIONS[config.activation]
        self.attn = WindowAttention(config, stage, key=attn_key)
        self.mlp = Mlp(dim, int(config.ratio * dim), activation=activation, key=mlp_key)
        self.norm1, self.norm2 = (eqx.nn.LayerNorm(dim, eps=config.norm_eps) for _ in range(2))
        self.shift = config.windows[stage].shift if is_moved else (0, 0)
        self.pads_first = config.library == "transformers"
        self.masked = MASKED * (2 if self.pads_first else 1)

    @eqx.filter_jit  # traced once for all blocks of one width
    def __call__(self, x: Float[Array, "height width dim"]) -> Float[Array, "height width dim"]:
        x = x + pointwise(self.norm1, self.mixed(x))
        rows = self.mlp(x.reshape(-1, x.shape[-1]))
        return x + pointwise(self.norm2, rows.reshape(x.shape))

    def mixed(self, x: Float[Array, "height width dim"]) -> Float[Array, "height width dim"]:
        """Map that attention makes of its windows."""
        height, width, _ = x.shape
        window, (down, across) = self.attn.window, self.shift
        y = padded(x, window) if self.pads_first else x
        y = jnp.roll(y, (-down, -across), (0, 1)) if any(self.shift) else y
        y = padded(y, window)
        mask = self.mask(y.shape[0], y.shape[1]) if any(self.shift) else None
        y = joined(self.attn(cut(y, window), mask), window, y.shape)
        y = y if self.pads_first else y[:height, :width]
        y = jnp.roll(y, (down, across), (0, 1)) if any(self.shift) else y
        return y[:height, :width]

    def mask(self, height: Size, width: Size) -> Float[Array, "windows pixels pixels"]:
        """Mask that is added to the logits of pixels of a moved map that are no neighbours."""
        rows, columns = (
            regions(side, window, shift)
            for side, window, shift in zip(
                (height, width), self.attn.window, self.shift, strict=True
            )
        )
        marked = cut((3 * rows[:, None] + columns[None, :])[..., None], self.attn.window)[..., 0]
        return jnp.where(marked[:, :, None] == marked[:, None, :], 0.0, self.masked)


def cut(
    x: Shaped[Array, "height width dim"], window: TwoInts
) -> Shaped[Array, "windows pixels dim"]:
    """The windows of a map, by rows, and the pixels of each by rows."""
    height, width, dim = x.shape
    down, across = height // window[0], width // window[1]
    parts = x.reshape(down, window[0], across, window[1], dim).transpose(0, 2, 1, 3, 4)
    return parts.reshape(down * across, window[0] * window[1], dim)


def joined(
    windows: Float[Array, "windows pixels dim"], window: TwoInts, shape: Sequence[Size]
) -> Float[Array, "height width dim"]:
    """The map that was cut."""
    height, width, dim = shape
    down, across = height // window[0], width // window[1]
    parts = windows.reshape(down, across, *window, dim).transpose(0, 2, 1, 3, 4)
    return parts.reshape(height, width, dim)


class PatchMerging(eqx.Module):
    """Half the height and width, twice the channels: `norm(reduction(four pixels))`.

    Source: section 3.1 of Liu et al., 2021, arXiv:2103.14030; the norm is behind in this version.
    """

    reduction: eqx.nn.Linear
    norm: Norm

    def __init__(self, dim: int, *, key: PRNGKeyArray):
        """**Arguments:** channels of the map that it takes."""
        self.reduction = eqx.nn.Linear(4 * dim, 2 * dim, use_bias=False, key=key)
        self.norm = eqx.nn.LayerNorm(2 * dim)

    def __call__(self, x: Float[Array, "height width dim"]) -> Float[Array, "height2 width2 dim2"]:
        """**Returns** a map of half the height and width, rounded up."""
        x = padded(x, (2, 2))
        height, width, dim = x.shape
        # The pixel below comes before the one on the right.
        four = x.reshape(height // 2, 2, width // 2, 2, dim).transpose(0, 2, 3, 1, 4)
        four = four.reshape(height // 2, width // 2, 4 * dim)
        return pointwise(self.norm, pointwise(self.reduction, four))


class SwinStage(eqx.Module):
    """Blocks of one width, and what halves their map for the next stage."""

    blocks: tuple[SwinBlock, ...]
    downsample: PatchMerging | None

    def __init__(self, config: SwinConfig, stage: int, *, key: PRNGKeyArray):
        """**Arguments:** the sizes, and which stage it is, counted from 0."""
        dim = config.dims[stage]
        down_key, *keys = jr.split(key, 1 + config.depths[stage])
        self.blocks = tuple(
            SwinBlock(config, stage, is_moved=bool(place % 2), key=each)
            for place, each in enumerate(keys)
        )
        last = stage == len(config.depths) - 1
        self.downsample = None if last else PatchMerging(dim, key=down_key)

    def __call__(self, x: Float[Array, "height width dim"]) -> Float[Array, "height width dim"]:
        """**Returns** what the blocks make of a map, not halved yet."""
        for block in self.blocks:
            x = block(x)
        return x


class SwinTransformer(FeatureNetwork):
    """Stages of blocks, each with half the height and width of the one before, and a final norm.

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
        """**Arguments:** the sizes, and what the network knows of itself."""
        dims = config.dims
        patch_key, head_key, *keys = jr.split(key, 2 + len(dims))
        self.patch_embed = PatchEmbedding(dims[0], config.patch_size, key=patch_key)
        self.patch_norm = eqx.nn.LayerNorm(dims[0])
        self.blocks = tuple(SwinStage(config, stage, key=each) for stage, each in enumerate(keys))
        self.norm = eqx.nn.LayerNorm(dims[-1], eps=config.norm_eps)
        head = partial(eqx.nn.Linear, dims[-1], key=head_key)
        self.head = head(config.classes) if config.classes else None
        self.about = identity

    @property
    def stride(self) -> int:
        """Pixels along a side of what becomes one row of the output: 32 for four stages."""
        return self.patch_embed.patch_size << (len(self.blocks) - 1)

    def __call__(
        self,
        pixel_values: Float[Array, "3 H W"],
        layers: Sequence[int] = (),
        *,
        as_maps: bool = False,
    ) -> Output:
        """Features of one image; `jax.vmap` gives a batch.

        **Arguments:**

        - `pixel_values`: preprocessed RGB, not necessarily square; what does not fill a patch at
          the right and bottom edge is filled with zeros.
        - `layers`: stages, counted from 1, whose maps are wanted as well, before they are halved.
          Only the last has a norm: there is none for the others.
        - `as_maps`: give those as `[dim, height, width]`.

        **Returns** the rows of the last map.
        """
        check_layers(layers, self.num_hidden_states)
        patch = self.patch_embed.patch_size
        image = padded(pixel_values.transpose(1, 2, 0), (patch, patch)).transpose(2, 0, 1)
        x = pointwise(self.patch_norm, self.patch_embed(image).transpose(1, 2, 0))
        maps = []
        for stage in self.blocks:
            maps.append(stage(x))
            x = maps[-1] if stage.downsample is None else stage.downsample(maps[-1])
        maps[-1] = pointwise(self.norm, x)
        asked = [maps[number - 1] for number in layers]
        rows = maps[-1].reshape(-1, x.shape[-1])
        pooled = rows.mean(axis=0)
        states = [
            each.transpose(2, 0, 1) if as_maps else each.reshape(-1, each.shape[-1])
            for each in asked
        ]
        logits = None if self.head is None else self.head(pooled)
        return Output(rows, pooled, logits, tuple(states))
