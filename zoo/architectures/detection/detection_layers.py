"""Layers of detection transformers: attention to sampled points, the projector to one map, and
masks of objects."""

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
Points = Float[Array, "queries points 2"]
Boxes = Float[Array, "queries 4"]
"""Centre (x, y) and size (width, height) of boxes, as fractions of the picture's width and
height."""


BOX_SIDE = 0.05
"""Width and height of the initial box at every position of the largest map, as fractions of the
picture's."""
EDGE_MARGIN = 0.01
"""Distance from the picture's edge, as a fraction of its side, within which positions propose no
box."""


def sample_map(x: Map, points: Points) -> Float[Array, "channels queries points"]:
    """Return the values of a map at points in float32, interpolated bilinearly; 0 outside the map.

    It becomes one `GridSample` in ONNX.

    **Arguments:**

    - `x`: the map.
    - `points`: positions (x, y), from 0 at one edge to 1 at the other.
    """
    x, (height, width) = x.astype(jnp.float32), x.shape[1:]
    rows = points[..., 1] * height - 0.5
    columns = points[..., 0] * width - 0.5

    def sample_channel(channel: Float[Array, "height width"]) -> Float[Array, "queries points"]:
        return map_coordinates(channel, [rows, columns], order=1, mode="constant", cval=0.0)

    return jax.vmap(sample_channel)(x)


def initial_boxes(height: Size, width: Size, level: int = 0) -> Boxes:
    """Return the first box of every position of a map, by rows.

    A box lies around the centre of its position and is square, with a side of `0.05 · 2^level` of
    the picture's sides. `level` is the index of the map, from the largest one.
    """
    columns = (jnp.arange(width, dtype=jnp.float32) + 0.5) / width
    rows = (jnp.arange(height, dtype=jnp.float32) + 0.5) / height
    y, x = (axis.reshape(-1) for axis in jnp.meshgrid(rows, columns, indexing="ij"))
    side = jnp.full_like(x, BOX_SIDE * 2**level)
    return jnp.stack([x, y, side, side], axis=-1)


def can_propose(boxes: Boxes) -> Bool[Array, " points"]:
    """Return True for each box whose centre and sides are more than 0.01 away from 0 and from 1.
    Positions near to the edge of the picture propose no box."""
    return ((boxes > EDGE_MARGIN) & (boxes < 1 - EDGE_MARGIN)).all(axis=-1)


class PointAttention(eqx.Module):
    """Base class of attention of queries to points of maps. Linear layers compute the offsets and
    the weights of the points from each query."""

    offsets: eqx.nn.Linear
    weights: eqx.nn.Linear
    heads: int = eqx.field(static=True)

    def choose_points(
        self, x: Float[Array, "queries dim"]
    ) -> tuple[Float[Array, "queries heads points"], Float[Array, "queries heads points 2"]]:
        """Return the weights and the offsets of the points of every head, for each query. The
        weights of a head sum to 1. The offsets are pairs (x, y) in float32."""
        weights = pointwise(self.weights, x).reshape(len(x), self.heads, -1)
        weights = jax.nn.softmax(weights.astype(jnp.float32), axis=-1).astype(x.dtype)
        offsets = pointwise(self.offsets, x).reshape(*weights.shape, 2)
        return weights, offsets.astype(jnp.float32)  # half precision would be wrong by a pixel


class SampledAttention(PointAttention):
    """Attention to points of one map: `proj(Σ weights · value(map) at points)`.

    Every query has a box. A head reads the map at the points `centre + offsets / points · size / 2`
    of the box. Linear layers compute the offsets and the weights from the query. The weights of a
    head sum to 1.

    Source: Zhu et al., 2021, arXiv:2010.04159; `MultiScaleDeformableAttention` of transformers.
    """

    value: eqx.nn.Linear
    proj: eqx.nn.Linear

    def __init__(self, dim: int, heads: int, points: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of queries and of the map.
        - `heads`: the number of heads.
        - `points`: the number of points of each head.
        """
        keys = jr.split(key, 4)
        self.offsets = eqx.nn.Linear(dim, heads * points * 2, key=keys[0])
        self.weights = eqx.nn.Linear(dim, heads * points, key=keys[1])
        self.value = eqx.nn.Linear(dim, dim, key=keys[2])
        self.proj = eqx.nn.Linear(dim, dim, key=keys[3])
        self.heads = heads

    def __call__(
        self, x: Float[Array, "queries dim"], boxes: Boxes, source: Float[Array, "height width dim"]
    ) -> Float[Array, "queries dim"]:
        """Return, for each query, the projected weighted sum of the map's values at its points.

        **Arguments:**

        - `x`: the queries, to which the embeddings of their boxes have been added.
        - `boxes`: the box of each query.
        - `source`: the map.
        """
        height, width, dim = source.shape
        values = pointwise(self.value, source).reshape(height, width, self.heads, dim // self.heads)
        weights, offsets = self.choose_points(x)
        centre, size = boxes[:, None, None, :2], boxes[:, None, None, 2:]
        positions = centre + offsets / weights.shape[-1] * size * 0.5
        sampled = jax.vmap(sample_map)(
            values.transpose(2, 3, 0, 1), positions.transpose(1, 0, 2, 3)
        )
        result = jnp.einsum("hcqp,qhp->qhc", sampled.astype(x.dtype), weights)
        return pointwise(self.proj, result.reshape(len(x), dim))


NewMap = Float[Array, "channels2 height width"]


class NormedConv(eqx.Module):
    """Convolution with a norm over channels: `silu(norm(conv(x)))`. It keeps rows and columns."""

    conv: eqx.nn.Conv2d
    norm: eqx.nn.LayerNorm

    def __init__(self, inputs: int, outputs: int, kernel: int, eps: float, *, key: PRNGKeyArray):
        """**Arguments:**

        - `inputs`, `outputs`: the numbers of channels.
        - `kernel`: the number of pixels along a side of the kernel.
        - `eps`: the epsilon of the norm.
        """
        self.conv = eqx.nn.Conv2d(
            inputs, outputs, kernel, padding=kernel // 2, use_bias=False, key=key
        )
        self.norm = eqx.nn.LayerNorm(outputs, eps=eps)

    def __call__(self, x: Map) -> NewMap:
        """Return the map after convolution, norm and activation, with the same rows and columns."""
        return jax.nn.silu(normalize_channels(self.norm, self.conv(x)))


def normalize_channels(norm: eqx.nn.LayerNorm, x: Map) -> Map:
    """Apply a norm to the channels of every pixel of a map."""
    return pointwise(norm, x.transpose(1, 2, 0)).transpose(2, 0, 1)


class Projector(eqx.Module):
    """Layer to a map of fewer channels: a C2f bottleneck, which concatenates the results of all its
    steps.

        parts = two halves of conv1(x)
        parts += [conv(conv(last of parts))]        for every bottleneck
        result = norm(conv2(parts))

    Source: `MultiScaleProjector` of roboflow/rf-detr, with one scale; `RfDetrScaleProjector` of
    transformers.
    """

    conv1: NormedConv
    conv2: NormedConv
    bottlenecks: tuple[tuple[NormedConv, NormedConv], ...]
    norm: eqx.nn.LayerNorm

    def __init__(self, config: DetectionConfig, *, key: PRNGKeyArray):
        """**Arguments:**

        - `config`: the sizes.
        """
        key1, key2, *keys = jr.split(key, 2 + 2 * config.bottlenecks)
        narrow, dim = config.narrow, config.decoder.dim
        make = partial(NormedConv, eps=config.projector_eps)
        self.conv1 = make(config.dim * len(config.layers), 2 * narrow, 1, key=key1)
        self.conv2 = make((2 + config.bottlenecks) * narrow, dim, 1, key=key2)
        self.bottlenecks = tuple(
            (make(narrow, narrow, 3, key=first), make(narrow, narrow, 3, key=second))
            for first, second in zip(keys[::2], keys[1::2], strict=True)
        )
        self.norm = eqx.nn.LayerNorm(dim, eps=1e-6)

    def __call__(self, x: Map) -> Float[Array, "height width outputs"]:
        """Return the map with the channels of a query, channels last, and with the same rows and
        columns."""
        parts = jnp.split(self.conv1(x), 2)
        for first, second in self.bottlenecks:
            parts.append(second(first(parts[-1])))
        return pointwise(self.norm, self.conv2(jnp.concatenate(parts)).transpose(1, 2, 0))


class MapBlock(eqx.Module):
    """Block of a map: `x + gelu(linear(norm(conv(x))))`, with a depthwise convolution."""

    conv: eqx.nn.Conv2d
    norm: eqx.nn.LayerNorm
    linear: eqx.nn.Linear

    def __init__(self, dim: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of the map.
        """
        key1, key2 = jr.split(key)
        self.conv = eqx.nn.Conv2d(dim, dim, 3, padding=1, groups=dim, key=key1)
        self.norm = eqx.nn.LayerNorm(dim, eps=1e-6)
        self.linear = eqx.nn.Linear(dim, dim, key=key2)

    def __call__(self, x: Map) -> Map:
        """Return the map after the block, of the same shape."""
        y = normalize_channels(self.norm, self.conv(x)).transpose(1, 2, 0)
        return x + gelu(pointwise(self.linear, y)).transpose(2, 0, 1)


class InstanceHead(eqx.Module):
    """Head that computes masks as products of queries and pixels.

        pixels = proj(block(resized map))                    all blocks
        queries = query_proj(queries + mlp(norm(queries)))
        masks = queries · pixels + bias

    In training there are masks after every block, for the queries after that block of the decoder.
    Inference computes those of the last block.

    Source: `SegmentationHead` of roboflow/rf-detr; `RfDetrForInstanceSegmentation` of transformers.
    """

    blocks: tuple[MapBlock, ...]
    proj: eqx.nn.Conv2d
    norm: eqx.nn.LayerNorm
    mlp: Mlp
    query_proj: eqx.nn.Linear
    bias: Float[Array, " 1"]

    def __init__(self, dim: int, config: InstanceConfig, *, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of the map and of queries.
        - `config`: the sizes of the head.
        """
        proj_key, mlp_key, query_key, *keys = jr.split(key, 3 + config.blocks)
        self.blocks = tuple(MapBlock(dim, key=block_key) for block_key in keys)
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
        """Return the logits of one mask for each query.

        **Arguments:**

        - `queries`: the queries.
        - `source`: the map, channels last.
        - `size`: (rows, columns) of a mask.
        """
        x = source.transpose(2, 0, 1)
        x = jax.image.resize(x, (x.shape[0], *size), "bilinear", antialias=False)
        for block in self.blocks:
            x = block(x)
        queries = queries + self.mlp(pointwise(self.norm, queries))
        queries = pointwise(self.query_proj, queries)
        return jnp.einsum("qc,chw->qhw", queries, self.proj(x)) + self.bias
