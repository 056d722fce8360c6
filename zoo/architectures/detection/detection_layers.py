"""Layers of detection transformers: sampled attention, the projector to one map, instance masks."""

from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy.ndimage import map_coordinates
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from zoo.architectures.detection.detection_config import DetectionConfig, InstanceConfig
from zoo.architectures.parts.block import Mlp
from zoo.architectures.parts.layers import Size, gelu, pointwise

Map = Float[Array, "channels height width"]
Places = Float[Array, "queries points 2"]
Boxes = Float[Array, "queries 4"]
"""Centre (x, y) and size (width, height), as shares of a picture's width and height."""


PROPOSED = 0.05
"""Width and height of the box that every place of the largest map proposes, as shares of the
picture's."""
EDGE = 0.01
"""A place this near to the picture's edge proposes nothing."""


def sample(x: Map, places: Places) -> Float[Array, "channels queries points"]:
    """The map between its pixels, bilinearly; zero outside of it.

    Becomes one `GridSample` in ONNX.

    **Arguments:** the map, and places (x, y) in it: from 0 to 1, from edge to edge.
    """
    x, (height, width) = x.astype(jnp.float32), x.shape[1:]
    rows = places[..., 1] * height - 0.5
    columns = places[..., 0] * width - 0.5

    def one(channel: Float[Array, "height width"]) -> Float[Array, "queries points"]:
        return map_coordinates(channel, [rows, columns], order=1, mode="constant", cval=0.0)

    return jax.vmap(one)(x)


def map_boxes(height: Size, width: Size, level: int = 0) -> Boxes:
    """The box that every place of a map begins with, by rows; on each further level twice as
    large."""
    columns = (jnp.arange(width, dtype=jnp.float32) + 0.5) / width
    rows = (jnp.arange(height, dtype=jnp.float32) + 0.5) / height
    y, x = (each.reshape(-1) for each in jnp.meshgrid(rows, columns, indexing="ij"))
    side = jnp.full_like(x, PROPOSED * 2**level)
    return jnp.stack([x, y, side, side], axis=-1)


def may_propose(boxes: Boxes) -> Bool[Array, " places"]:
    """Whether places are not too near to the picture's edge."""
    return ((boxes > EDGE) & (boxes < 1 - EDGE)).all(axis=-1)


class PointAttention(eqx.Module):
    """Attention to points of maps, which every query chooses with their weights."""

    offsets: eqx.nn.Linear
    weights: eqx.nn.Linear
    heads: int = eqx.field(static=True)

    def chosen(
        self, x: Float[Array, "queries dim"]
    ) -> tuple[Float[Array, "queries heads points"], Float[Array, "queries heads points 2"]]:
        """Weights, which sum to one, and offsets of the points of every head."""
        weights = pointwise(self.weights, x).reshape(len(x), self.heads, -1)
        weights = jax.nn.softmax(weights.astype(jnp.float32), axis=-1).astype(x.dtype)
        offsets = pointwise(self.offsets, x).reshape(*weights.shape, 2)
        return weights, offsets.astype(jnp.float32)  # half precision is off by a pixel


class SampledAttention(PointAttention):
    """`output(Σ weights · value(map) at points)`: every query chooses the points and the weights.

    The points of a head are at `centre + offsets / points · size / 2` of the query's box, and their
    weights sum to one.

    Source: Zhu et al., 2021, arXiv:2010.04159; `MultiScaleDeformableAttention` of transformers.
    """

    value: eqx.nn.Linear
    proj: eqx.nn.Linear

    def __init__(self, dim: int, heads: int, points: int, *, key: PRNGKeyArray):
        """**Arguments:** channels of queries and of the map; heads, and points of each."""
        keys = jr.split(key, 4)
        self.offsets = eqx.nn.Linear(dim, heads * points * 2, key=keys[0])
        self.weights = eqx.nn.Linear(dim, heads * points, key=keys[1])
        self.value = eqx.nn.Linear(dim, dim, key=keys[2])
        self.proj = eqx.nn.Linear(dim, dim, key=keys[3])
        self.heads = heads

    def __call__(
        self, x: Float[Array, "queries dim"], boxes: Boxes, source: Float[Array, "height width dim"]
    ) -> Float[Array, "queries dim"]:
        """**Arguments:** the queries with their positions, their boxes, and the map."""
        height, width, dim = source.shape
        values = pointwise(self.value, source).reshape(height, width, self.heads, dim // self.heads)
        weights, offsets = self.chosen(x)
        centre, size = boxes[:, None, None, :2], boxes[:, None, None, 2:]
        places = centre + offsets / weights.shape[-1] * size * 0.5
        sampled = jax.vmap(sample)(values.transpose(2, 3, 0, 1), places.transpose(1, 0, 2, 3))
        mixed = jnp.einsum("hcqp,qhp->qhc", sampled.astype(x.dtype), weights)
        return pointwise(self.proj, mixed.reshape(len(x), dim))


Other = Float[Array, "channels2 height width"]


class NormedConv(eqx.Module):
    """`silu(norm(conv(x)))`, which keeps rows and columns; the norm is over the channels."""

    conv: eqx.nn.Conv2d
    norm: eqx.nn.LayerNorm

    def __init__(self, inputs: int, outputs: int, kernel: int, eps: float, *, key: PRNGKeyArray):
        """**Arguments:** channels before and behind it, pixels along a side of the kernel, and the
        norm's epsilon."""
        self.conv = eqx.nn.Conv2d(
            inputs, outputs, kernel, padding=kernel // 2, use_bias=False, key=key
        )
        self.norm = eqx.nn.LayerNorm(outputs, eps=eps)

    def __call__(self, x: Map) -> Other:
        return jax.nn.silu(channel_norm(self.norm, self.conv(x)))


def channel_norm(norm: eqx.nn.LayerNorm, x: Map) -> Map:
    """A norm of the channels of every pixel."""
    return pointwise(norm, x.transpose(1, 2, 0)).transpose(2, 0, 1)


class Projector(eqx.Module):
    """A map of fewer channels, by a bottleneck of which every step is kept (C2f).

        parts = two halves of conv1(x)
        parts += [conv(conv(last of parts))]        for every bottleneck
        result = norm(conv2(parts))

    Source: `MultiScaleProjector` of roboflow/rf-detr, of one scale; `RfDetrScaleProjector` of
    transformers.
    """

    conv1: NormedConv
    conv2: NormedConv
    bottlenecks: tuple[tuple[NormedConv, NormedConv], ...]
    norm: eqx.nn.LayerNorm

    def __init__(self, config: DetectionConfig, *, key: PRNGKeyArray):
        """**Arguments:** the sizes."""
        key1, key2, *keys = jr.split(key, 2 + 2 * config.bottlenecks)
        narrow, dim = config.narrow, config.decoder.dim
        make = partial(NormedConv, eps=config.projector_eps)
        self.conv1 = make(config.dim * len(config.layers), 2 * narrow, 1, key=key1)
        self.conv2 = make((2 + config.bottlenecks) * narrow, dim, 1, key=key2)
        self.bottlenecks = tuple(
            (make(narrow, narrow, 3, key=one), make(narrow, narrow, 3, key=other))
            for one, other in zip(keys[::2], keys[1::2], strict=True)
        )
        self.norm = eqx.nn.LayerNorm(dim, eps=1e-6)

    def __call__(self, x: Map) -> Float[Array, "height width outputs"]:
        parts = jnp.split(self.conv1(x), 2)
        for first, second in self.bottlenecks:
            parts.append(second(first(parts[-1])))
        return pointwise(self.norm, self.conv2(jnp.concatenate(parts)).transpose(1, 2, 0))


class MapBlock(eqx.Module):
    """`x + gelu(linear(norm(conv(x))))`, of which the convolution takes each channel alone."""

    conv: eqx.nn.Conv2d
    norm: eqx.nn.LayerNorm
    linear: eqx.nn.Linear

    def __init__(self, dim: int, *, key: PRNGKeyArray):
        """**Arguments:** channels of the map."""
        key1, key2 = jr.split(key)
        self.conv = eqx.nn.Conv2d(dim, dim, 3, padding=1, groups=dim, key=key1)
        self.norm = eqx.nn.LayerNorm(dim, eps=1e-6)
        self.linear = eqx.nn.Linear(dim, dim, key=key2)

    def __call__(self, x: Map) -> Map:
        y = channel_norm(self.norm, self.conv(x)).transpose(1, 2, 0)
        return x + gelu(pointwise(self.linear, y)).transpose(2, 0, 1)


class InstanceHead(eqx.Module):
    """Masks of queries: products of what is made of these and of the pixels of the map.

        pixels = proj(block(resized map))                    all blocks
        queries = query_proj(queries + mlp(norm(queries)))
        masks = queries · pixels + bias

    In training there are masks behind every block, of the queries behind that block of the decoder;
    inference has the last.

    Source: `SegmentationHead` of roboflow/rf-detr; `RfDetrForInstanceSegmentation` of transformers.
    """

    blocks: tuple[MapBlock, ...]
    proj: eqx.nn.Conv2d
    norm: eqx.nn.LayerNorm
    mlp: Mlp
    query_proj: eqx.nn.Linear
    bias: Float[Array, " 1"]

    def __init__(self, dim: int, config: InstanceConfig, *, key: PRNGKeyArray):
        """**Arguments:** channels of the map and of queries, and the sizes of the head."""
        proj_key, mlp_key, query_key, *keys = jr.split(key, 3 + config.blocks)
        self.blocks = tuple(MapBlock(dim, key=each) for each in keys)
        self.proj = eqx.nn.Conv2d(dim, dim, 1, key=proj_key)
        self.norm = eqx.nn.LayerNorm(dim)
        self.mlp = Mlp(dim, config.hidden, activation=gelu, key=mlp_key)
        self.query_proj = eqx.nn.Linear(dim, dim, key=query_key)
        self.bias = jnp.zeros(1)

    def __call__(
        self,
        queries: Float[Array, "queries dim"],
        source: Float[Array, "height width dim"],
        size: Sequence[Size],
    ) -> Float[Array, "queries rows columns"]:
        """Logits of masks. **Arguments:** the queries, the map, and (rows, columns) of a mask."""
        x = source.transpose(2, 0, 1)
        x = jax.image.resize(x, (x.shape[0], *size), "bilinear", antialias=False)
        for block in self.blocks:
            x = block(x)
        queries = queries + self.mlp(pointwise(self.norm, queries))
        queries = pointwise(self.query_proj, queries)
        return jnp.einsum("qc,chw->qhw", queries, self.proj(x)) + self.bias
