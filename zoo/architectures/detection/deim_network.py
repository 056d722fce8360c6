"""Network of DEIMv2: a detection transformer on DINOv3."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.architectures.base import NO_IDENTITY, Identity
from zoo.architectures.detection.deim_pyramid import Adapter, AnyMap, ConvBatchNorm, Pyramid
from zoo.architectures.detection.detection_config import LEVELS, STRIDE, DeimConfig, FinderConfig
from zoo.architectures.detection.detection_layers import (
    Boxes,
    PointAttention,
    can_propose,
    initial_boxes,
    sample_map,
)
from zoo.architectures.detection.rf_detr_network import LinearLayers, QueryAttention
from zoo.architectures.parts.block import SwiGlu
from zoo.architectures.parts.layers import pointwise
from zoo.architectures.parts.output import Detections
from zoo.architectures.vit.vit_network import BackboneNetwork, VisionTransformer

Queries = Float[Array, "queries dim"]
Edges = Float[Array, "queries edges"]
"""Logits of the bins of all four edges of a box, one edge after the other."""


class MultiLevelAttention(PointAttention):
    """Attention of queries to points of several maps.

    Every query has a box. A head reads each map at the points `centre + offsets / points · size /
    2` of the box. The offsets are a linear function of the query, and `points` is their number on
    the map. The weights of a head sum to 1 over the points of all maps. Each head reads its own
    part of the maps' channels. There is no projection of the maps or of the result.

    Source: `DFineMultiscaleDeformableAttention` of transformers.
    """

    points: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, dim: int, heads: int, points: Sequence[int], *, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of queries and maps.
        - `heads`: the number of heads.
        - `points`: the number of points of each head on every map.
        """
        key1, key2 = jr.split(key)
        self.offsets = eqx.nn.Linear(dim, heads * sum(points) * 2, key=key1)
        self.weights = eqx.nn.Linear(dim, heads * sum(points), key=key2)
        self.heads, self.points = heads, tuple(points)

    def __call__(self, x: Queries, boxes: Boxes, maps: Sequence[AnyMap]) -> Queries:
        """Return, for each query, the weighted sum of the maps' values at its points.

        **Arguments:**

        - `x`: the queries, to which the embeddings of their boxes have been added.
        - `boxes`: the box of each query.
        - `maps`: the maps `[dim, height, width]`, one for each entry of `points`.
        """
        weights, offsets = self.choose_points(x)
        shares = jnp.array([1 / count for count in self.points for _ in range(count)], jnp.float32)
        centre, size = boxes[:, None, None, :2], boxes[:, None, None, 2:]
        positions = centre + offsets * shares[:, None] * size * 0.5
        sampled, first = [], 0
        for source, points in zip(maps, self.points, strict=True):
            level_positions = positions[:, :, first : first + points].transpose(1, 0, 2, 3)
            _, height, width = source.shape
            sampled.append(
                jax.vmap(sample_map)(source.reshape(self.heads, -1, height, width), level_positions)
            )
            first += points
        values = jnp.concatenate(sampled, axis=-1).astype(x.dtype)
        return jnp.einsum("hcqp,qhp->qhc", values, weights).reshape(len(x), -1)


class GatedSum(eqx.Module):
    """Gated sum of two inputs: `norm(a · x + b · y)`, where `a, b = sigmoid(linear([x, y]))`."""

    linear: eqx.nn.Linear
    norm: eqx.nn.RMSNorm

    def __init__(self, dim: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of each input.
        """
        self.linear = eqx.nn.Linear(2 * dim, 2 * dim, key=key)
        self.norm = make_rms_norm(dim)

    def __call__(self, x: Queries, y: Queries) -> Queries:
        """Return `norm(a · x + b · y)`, where the gates `a` and `b` are computed from both
        inputs."""
        gates = jax.nn.sigmoid(pointwise(self.linear, jnp.concatenate([x, y], axis=-1)))
        a, b = jnp.split(gates, 2, axis=-1)
        return pointwise(self.norm, a * x + b * y)


def make_rms_norm(dim: int) -> eqx.nn.RMSNorm:
    """Return an RMS norm over `dim` channels, without a bias."""
    return eqx.nn.RMSNorm(dim, eps=1e-6, use_bias=False)


class FinderBlock(eqx.Module):
    """Post-norm transformer block: queries attend to each other, then to points of the maps.

    Source: `Deimv2DecoderLayer` of transformers.
    """

    attn: QueryAttention
    norm1: eqx.nn.RMSNorm
    cross: MultiLevelAttention
    gate: GatedSum
    mlp: SwiGlu
    norm2: eqx.nn.RMSNorm

    def __init__(self, dim: int, config: FinderConfig, *, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of a query.
        - `config`: the sizes of the transformer.
        """
        keys = jr.split(key, 4)
        self.attn = QueryAttention(dim, config.heads, key=keys[0])
        self.cross = MultiLevelAttention(dim, config.heads, config.points, key=keys[1])
        self.gate = GatedSum(dim, key=keys[2])
        self.mlp = SwiGlu(dim, config.hidden, key=keys[3])
        self.norm1, self.norm2 = make_rms_norm(dim), make_rms_norm(dim)

    @eqx.filter_jit  # traced once for all blocks
    def __call__(
        self, x: Queries, positions: Queries, boxes: Boxes, maps: Sequence[AnyMap]
    ) -> Queries:
        """Return the queries after the block.

        **Arguments:**

        - `x`: the queries.
        - `positions`: the embeddings of the queries' boxes.
        - `boxes`: the box of each query.
        - `maps`: the maps that the queries read.
        """
        x = pointwise(self.norm1, x + self.attn(x, positions))
        x = self.gate(x, self.cross(x + positions, boxes, maps))
        return pointwise(self.norm2, x + self.mlp(x))


class EdgeBins(eqx.Module):
    """Bins of the distances by which the edges of a box are moved. A network predicts a
    distribution over the bins for each edge. The bins are finer in the middle, around the distance
    0.

    The logits of the bins have the shape `[queries, 4 · (bins + 1)]`: those of the left edge, then
    those of the top, right and bottom edge.

    `up` and `scale` determine the range and the growth of distances. Training does not adjust them.

    Source: Peng et al., 2024, arXiv:2410.13842.
    """

    up: Float[Array, " 1"]
    scale: Float[Array, " 1"]

    def __init__(self) -> None:
        """Set `up` to 0.5 and `scale` to 4."""
        self.up, self.scale = jnp.array([0.5]), jnp.array([4.0])

    def expected_distances(self, edges: Edges) -> Float[Array, "queries 4"]:
        """Return the expected distance of each of the four edges: the mean of the bins' distances,
        weighted by the softmax of the logits."""
        logits = edges.astype(jnp.float32).reshape(len(edges), 4, -1)
        return jax.nn.softmax(logits, axis=-1) @ self.bin_distances(logits.shape[-1] - 1)

    def bin_distances(self, bins: int) -> Float[Array, " values"]:
        """Return the distances of all `bins + 1` bins: negative ones, 0, and positive ones."""
        up, scale = (jnp.abs(leaf.astype(jnp.float32)) for leaf in (self.up, self.scale))
        limit = up * scale
        half = (limit + 1) ** (2 / (bins - 2) * jnp.arange(1, bins // 2, dtype=jnp.float32)) - 1
        half = jnp.concatenate([half, 2 * limit])
        return jnp.concatenate([-half[::-1], jnp.zeros(1), half])

    def move_boxes(self, boxes: Boxes, edges: Edges) -> Boxes:
        """Return the boxes with their edges moved by the expected distances. A positive distance
        moves an edge outwards. The unit of a distance is the width or height of the box, divided by
        `scale`."""
        scale = jnp.abs(self.scale.astype(jnp.float32))
        steps = boxes[:, 2:] / scale
        start, end = jnp.split(0.5 * scale + self.expected_distances(edges), 2, axis=-1)
        start, end = boxes[:, :2] - start * steps, boxes[:, :2] + end * steps
        return jnp.concatenate([(start + end) / 2, end - start], axis=-1)


class Deim(BackboneNetwork):
    """DEIMv2: queries read maps of three sizes, and each of them detects one object.

        maps = pyramid(fusions of patches of some blocks and details of the image)
        queries = features of the positions of all maps with the highest class logits
        queries = block(queries, boxes, maps)                   for every block
        edges = edges + box_head(queries + previous queries)    of this block
        boxes = first boxes, their edges moved by their distributions
        logits = class_head(queries) + quality(edges)           of the last block

    The small model of COCO's classes, with initial parameters:

        model = zoo.create("deimv2_s", key=jax.random.key(0))
        detections = model(image)  # [3, H, W]; logits are [300, 80], pred_boxes [300, 4]

    In training, all blocks use their `class_head` and `quality`. Inference uses those of the last
    block. `denoising` has additional queries that only training uses.

    Source: Huang et al., 2025, arXiv:2509.20787; `Deimv2ForObjectDetection` of transformers (5.24).
    """

    backbone: VisionTransformer
    adapter: Adapter
    fusions: tuple[ConvBatchNorm, ...]
    pyramid: Pyramid
    proposal_proj: eqx.nn.Linear
    proposal_norm: eqx.nn.LayerNorm
    proposal_classes: eqx.nn.Linear
    proposal_boxes: LinearLayers
    positions: LinearLayers
    blocks: tuple[FinderBlock, ...]
    first_boxes: LinearLayers
    class_heads: tuple[eqx.nn.Linear, ...]
    box_heads: tuple[LinearLayers, ...]
    quality: tuple[LinearLayers, ...]
    bins: EdgeBins
    denoising: Float[Array, "classes_and_none dim"]
    layers: tuple[int, ...] = eqx.field(static=True)
    normalizes_all_layers: bool = eqx.field(static=True)
    queries: int = eqx.field(static=True)
    top_k: int = eqx.field(static=True)

    def __init__(self, config: DeimConfig, *, identity: Identity = NO_IDENTITY, key: PRNGKeyArray):
        """**Arguments:**

        - `config`: the sizes.
        - `identity`: the metadata of the network.
        - `key`: draws the initial parameters.
        """
        keys = jr.split(key, 12)
        dim, planes, finder, classes = config.width, config.planes, config.finder, config.classes
        self.backbone = VisionTransformer(config.backbone, key=keys[0])
        self.adapter = Adapter(planes, key=keys[1])
        self.fusions = tuple(
            ConvBatchNorm(config.dim + times * planes, dim, key=fusion_key)
            for times, fusion_key in zip((2, 4, 4), jr.split(keys[2], LEVELS), strict=True)
        )
        self.pyramid = Pyramid(dim, config.pyramid, config.placed, key=keys[3])
        self.proposal_proj = eqx.nn.Linear(dim, dim, key=keys[4])
        self.proposal_norm = eqx.nn.LayerNorm(dim)
        self.proposal_classes = eqx.nn.Linear(dim, classes, key=keys[5])
        self.proposal_boxes = LinearLayers(dim, dim, dim, 4, key=keys[6])
        self.positions = LinearLayers(4, dim, dim, dim, activation=jax.nn.silu, key=keys[7])
        block_keys = jr.split(keys[8], finder.depth)
        self.blocks = tuple(FinderBlock(dim, finder, key=block_key) for block_key in block_keys)
        self.first_boxes = LinearLayers(dim, dim, dim, 4, key=keys[9])
        head_keys = [jr.split(block_key, 3) for block_key in jr.split(keys[10], finder.depth)]
        self.class_heads = tuple(
            eqx.nn.Linear(dim, classes, key=part_keys[0]) for part_keys in head_keys
        )
        edges, best = 4 * (finder.bins + 1), 4 * (finder.top_k + 1)
        self.box_heads = tuple(
            LinearLayers(dim, dim, dim, edges, key=part_keys[1]) for part_keys in head_keys
        )
        self.quality = tuple(
            LinearLayers(best, finder.quality, 1, key=part_keys[2]) for part_keys in head_keys
        )
        self.bins = EdgeBins()
        self.denoising = 0.02 * jr.normal(keys[11], (classes + 1, dim))
        self.layers, self.normalizes_all_layers, self.queries = (
            config.layers,
            config.normed,
            config.queries,
        )
        self.top_k, self.identity = finder.top_k, identity

    @property
    def stride(self) -> int:
        """Number, in pixels, that must divide the sides of a picture: the side of the square that
        one pixel of the smallest map covers."""
        return STRIDE

    def __call__(self, pixel_values: Float[Array, "3 H W"]) -> Detections:
        """Return the objects in one picture, one for each query. Use `jax.vmap` for a batch.

        **Arguments:**

        - `pixel_values`: preprocessed RGB, not necessarily square. Its sides are multiples of the
          stride.

        **Raises** `ValueError` if the sides are not multiples of the stride, or if the maps have
        fewer positions than there are queries and the sides are not symbolic.
        """
        if any(side % self.stride for side in pixel_values.shape[1:]):
            raise ValueError(
                f"sides must be multiples of {self.stride}: got {pixel_values.shape[1:]}"
            )
        maps = self.pyramid(self.fuse_maps(pixel_values))
        x, boxes = self.propose(maps)
        first_boxes, previous, edges = boxes, jnp.zeros_like(x), jnp.zeros(1, x.dtype)
        for number, (block, box_head) in enumerate(zip(self.blocks, self.box_heads, strict=True)):
            positions = jnp.clip(self.positions(boxes.astype(x.dtype)), -10, 10)
            x = block(x, positions, boxes, maps)
            if number == 0:
                box_logits = self.first_boxes(x).astype(jnp.float32) + inverse_sigmoid(boxes)
                first_boxes = jax.nn.sigmoid(box_logits)
            edges = box_head(x + previous) + edges
            boxes, previous = self.bins.move_boxes(first_boxes, edges), x
        return Detections(pointwise(self.class_heads[-1], x) + self.rate_boxes(edges), boxes)

    def fuse_maps(self, pixel_values: Float[Array, "3 H W"]) -> list[AnyMap]:
        """Return three maps of the picture. Each has half the height and width of the one before.

        A map is computed from the patches of one block of the backbone, resized to the size of the
        map, and from the adapter's details of the same size.
        """
        vit = self.backbone
        x, height, width = vit.embed_tokens(vit.patch_embed(pixel_values))
        rotation, maps = vit.make_rotation(height, width), []
        for number, block in enumerate(vit.blocks[: max(self.layers)], start=1):
            x = block(x, rotation)
            if number in self.layers:
                # transformers always applies the norm to the last block.
                is_normed = self.normalizes_all_layers or number == len(vit.blocks)
                rows = (pointwise(vit.norm, x) if is_normed else x)[vit.prefix_tokens :]
                maps.append(rows.T.reshape(rows.shape[1], height, width))
        fused = []
        sizes = ((2 * height, 2 * width), (height, width), (height // 2, width // 2))
        for patches, details, size, fusion in zip(
            maps, self.adapter(pixel_values), sizes, self.fusions, strict=True
        ):
            shape = (patches.shape[0], *size)
            patches = jax.image.resize(patches, shape, "bilinear", antialias=False)
            fused.append(fusion(jnp.concatenate([patches, details])))
        return fused

    def propose(self, maps: Sequence[AnyMap]) -> tuple[Queries, Boxes]:
        """Return the first features and boxes of the queries.

        They are those of the positions of all maps whose largest class logit is highest, in
        descending order of this logit. A position too near to the edge of the picture gets a box of
        the full picture.

        **Raises** `ValueError` if the maps have fewer positions than there are queries. If the
        number of positions is symbolic, the first position fills up instead.
        """
        rows = [level_map.reshape(level_map.shape[0], -1).T for level_map in maps]
        boxes = [
            initial_boxes(level_map.shape[1], level_map.shape[2], level)
            for level, level_map in enumerate(maps)
        ]
        x, start_boxes = jnp.concatenate(rows), jnp.concatenate(boxes)
        is_allowed = can_propose(start_boxes)[:, None]
        x = pointwise(self.proposal_proj, jnp.where(is_allowed, x, 0))
        x = pointwise(self.proposal_norm, x)
        best_logits = pointwise(self.proposal_classes, x).max(axis=-1)
        count = x.shape[0]
        if isinstance(count, int) and count < self.queries:
            raise ValueError(
                f"the maps have {count} positions for {self.queries} queries: use a larger picture."
            )
        # With an open size there may be fewer positions than queries. Position 0 then fills up.
        if not isinstance(count, int):
            best_logits = jnp.concatenate(
                [best_logits, jnp.full((self.queries,), -jnp.inf, best_logits.dtype)]
            )
        indices = jax.lax.top_k(best_logits, self.queries)[1]
        indices = jnp.where(indices < count, indices, 0)
        x, start_boxes, is_allowed = x[indices], start_boxes[indices], is_allowed[indices]
        box_logits = self.proposal_boxes(x).astype(jnp.float32) + jnp.log(
            start_boxes / (1 - start_boxes)
        )
        # Positions that may not propose a box get a box of the full picture.
        return x, jnp.where(is_allowed, jax.nn.sigmoid(box_logits), 1)

    def rate_boxes(self, edges: Edges) -> Float[Array, "queries 1"]:
        """Return one number for each box, which is added to all its class logits.

        The last block's `quality` layer computes it from the `top_k` largest probabilities of each
        edge and their mean. The distribution of an uncertain edge is flat.
        """
        logits = edges.astype(jnp.float32).reshape(len(edges), 4, -1)
        best = jax.lax.top_k(jax.nn.softmax(logits, axis=-1), self.top_k)[0]
        best = jnp.concatenate([best, best.mean(axis=-1, keepdims=True)], axis=-1)
        return self.quality[-1](best.reshape(len(edges), -1).astype(edges.dtype))


def inverse_sigmoid(x: Boxes, minimum: float = 1e-5) -> Boxes:
    """Return the logits `log(p / (1 - p))` of probabilities. `p` and `1 - p` are taken to be at
    least `minimum`, so that the result is finite."""
    x = jnp.clip(x, 0, 1)
    return jnp.log(jnp.maximum(x, minimum) / jnp.maximum(1 - x, minimum))
