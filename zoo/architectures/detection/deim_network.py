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
    map_boxes,
    may_propose,
    sample,
)
from zoo.architectures.detection.rf_detr_network import Layers, QueryAttention
from zoo.architectures.parts.block import SwiGlu
from zoo.architectures.parts.layers import pointwise
from zoo.architectures.parts.output import Detections
from zoo.architectures.vit.vit_network import BackboneNetwork, VisionTransformer

Queries = Float[Array, "queries dim"]
Edges = Float[Array, "queries edges"]
"""Logits of the bins of all four edges, one edge behind another."""


class LevelledAttention(PointAttention):
    """Attention to points of several maps.

    The points of a head are at `centre + offsets / points · size / 2` of the query's box; a query's
    weights of all maps sum to one. The channels of maps are those of the heads, side by side.

    Source: `DFineMultiscaleDeformableAttention` of transformers.
    """

    points: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, dim: int, heads: int, points: Sequence[int], *, key: PRNGKeyArray):
        """**Arguments:** channels of queries and maps; heads, and points of each on every map."""
        key1, key2 = jr.split(key)
        self.offsets = eqx.nn.Linear(dim, heads * sum(points) * 2, key=key1)
        self.weights = eqx.nn.Linear(dim, heads * sum(points), key=key2)
        self.heads, self.points = heads, tuple(points)

    def __call__(self, x: Queries, boxes: Boxes, maps: Sequence[AnyMap]) -> Queries:
        """**Arguments:** the queries with their positions, their boxes, and the maps."""
        weights, offsets = self.chosen(x)
        shares = jnp.array([1 / each for each in self.points for _ in range(each)], jnp.float32)
        centre, size = boxes[:, None, None, :2], boxes[:, None, None, 2:]
        places = centre + offsets * shares[:, None] * size * 0.5
        sampled, first = [], 0
        for source, points in zip(maps, self.points, strict=True):
            here = places[:, :, first : first + points].transpose(1, 0, 2, 3)
            _, height, width = source.shape
            sampled.append(jax.vmap(sample)(source.reshape(self.heads, -1, height, width), here))
            first += points
        values = jnp.concatenate(sampled, axis=-1).astype(x.dtype)
        return jnp.einsum("hcqp,qhp->qhc", values, weights).reshape(len(x), -1)


class Gate(eqx.Module):
    """`norm(a · x + b · y)`, where `a, b = sigmoid(linear([x, y]))`."""

    linear: eqx.nn.Linear
    norm: eqx.nn.RMSNorm

    def __init__(self, dim: int, *, key: PRNGKeyArray):
        """**Arguments:** channels of both."""
        self.linear = eqx.nn.Linear(2 * dim, 2 * dim, key=key)
        self.norm = rms_norm(dim)

    def __call__(self, x: Queries, y: Queries) -> Queries:
        gates = jax.nn.sigmoid(pointwise(self.linear, jnp.concatenate([x, y], axis=-1)))
        a, b = jnp.split(gates, 2, axis=-1)
        return pointwise(self.norm, a * x + b * y)


def rms_norm(dim: int) -> eqx.nn.RMSNorm:
    """A norm without a bias."""
    return eqx.nn.RMSNorm(dim, eps=1e-6, use_bias=False)


class FinderBlock(eqx.Module):
    """Post-norm transformer block: queries attend to each other, then to points of the maps.

    Source: `Deimv2DecoderLayer` of transformers.
    """

    attn: QueryAttention
    norm1: eqx.nn.RMSNorm
    cross: LevelledAttention
    gate: Gate
    mlp: SwiGlu
    norm2: eqx.nn.RMSNorm

    def __init__(self, dim: int, config: FinderConfig, *, key: PRNGKeyArray):
        """**Arguments:** channels of a query, and the sizes of the transformer."""
        keys = jr.split(key, 4)
        self.attn = QueryAttention(dim, config.heads, key=keys[0])
        self.cross = LevelledAttention(dim, config.heads, config.points, key=keys[1])
        self.gate = Gate(dim, key=keys[2])
        self.mlp = SwiGlu(dim, config.hidden, key=keys[3])
        self.norm1, self.norm2 = rms_norm(dim), rms_norm(dim)

    @eqx.filter_jit  # traced once for all blocks
    def __call__(
        self, x: Queries, positions: Queries, boxes: Boxes, maps: Sequence[AnyMap]
    ) -> Queries:
        """**Arguments:** the queries, their positions and boxes, and the maps."""
        x = pointwise(self.norm1, x + self.attn(x, positions))
        x = self.gate(x, self.cross(x + positions, boxes, maps))
        return pointwise(self.norm2, x + self.mlp(x))


class Bins(eqx.Module):
    """Distances of an edge, by which a distribution becomes one: fine in the middle.

    `up` is how far the edge goes, `scale` how the distances grow; both are no parameters that
    training adjusts. Source: Peng et al., 2024, arXiv:2410.13842.
    """

    up: Float[Array, " 1"]
    scale: Float[Array, " 1"]

    def __init__(self) -> None:
        self.up, self.scale = jnp.array([0.5]), jnp.array([4.0])

    def distances(self, edges: Edges) -> Float[Array, "queries 4"]:
        """The expected distance of every edge."""
        logits = edges.astype(jnp.float32).reshape(len(edges), 4, -1)
        return jax.nn.softmax(logits, axis=-1) @ self.values(logits.shape[-1] - 1)

    def values(self, bins: int) -> Float[Array, " values"]:
        """Distances of all bins, and of one more, in the middle, which is zero."""
        up, scale = (jnp.abs(leaf.astype(jnp.float32)) for leaf in (self.up, self.scale))
        most = up * scale
        half = (most + 1) ** (2 / (bins - 2) * jnp.arange(1, bins // 2, dtype=jnp.float32)) - 1
        half = jnp.concatenate([half, 2 * most])
        return jnp.concatenate([-half[::-1], jnp.zeros(1), half])

    def moved(self, boxes: Boxes, edges: Edges) -> Boxes:
        """Boxes whose edges are where distributions say, from where they were."""
        scale = jnp.abs(self.scale.astype(jnp.float32))
        steps = boxes[:, 2:] / scale
        low, high = jnp.split(0.5 * scale + self.distances(edges), 2, axis=-1)
        low, high = boxes[:, :2] - low * steps, boxes[:, :2] + high * steps
        return jnp.concatenate([(low + high) / 2, high - low], axis=-1)


class Deim(BackboneNetwork):
    """Maps of three sizes are read by queries, each of which finds a thing.

        maps = pyramid(fusions of patches of some blocks and details of the image)
        queries = features of the places of all maps where a class is likeliest
        queries = block(queries, boxes, maps)                   for every block
        edges = edges + box_head(queries + those before)        of this block
        boxes = first boxes, their edges moved by their distributions
        logits = class_head(queries) + quality(edges)           of the last block

    The small model of COCO's classes, with initial parameters:

        model = zoo.create("deimv2_s", key=jax.random.key(0))
        found = model(image)  # [3, H, W]; logits are [300, 80], pred_boxes [300, 4]

    All blocks have a `class_head` and a `quality` in training, of which inference uses the last;
    `denoising` are queries that only training asks.

    Source: Huang et al., 2025, arXiv:2509.20787; `Deimv2ForObjectDetection` of transformers (5.24).
    """

    backbone: VisionTransformer
    adapter: Adapter
    fusions: tuple[ConvBatchNorm, ...]
    pyramid: Pyramid
    proposal_proj: eqx.nn.Linear
    proposal_norm: eqx.nn.LayerNorm
    proposal_classes: eqx.nn.Linear
    proposal_boxes: Layers
    positions: Layers
    blocks: tuple[FinderBlock, ...]
    first_boxes: Layers
    class_heads: tuple[eqx.nn.Linear, ...]
    box_heads: tuple[Layers, ...]
    quality: tuple[Layers, ...]
    bins: Bins
    denoising: Float[Array, "classes_and_none dim"]
    layers: tuple[int, ...] = eqx.field(static=True)
    normed: bool = eqx.field(static=True)
    queries: int = eqx.field(static=True)
    top_k: int = eqx.field(static=True)

    def __init__(self, config: DeimConfig, *, identity: Identity = NO_IDENTITY, key: PRNGKeyArray):
        """**Arguments:** the sizes, and what the network knows of itself."""
        keys = jr.split(key, 12)
        dim, planes, finder, classes = config.width, config.planes, config.finder, config.classes
        self.backbone = VisionTransformer(config.backbone, key=keys[0])
        self.adapter = Adapter(planes, key=keys[1])
        self.fusions = tuple(
            ConvBatchNorm(config.dim + times * planes, dim, key=each)
            for times, each in zip((2, 4, 4), jr.split(keys[2], LEVELS), strict=True)
        )
        self.pyramid = Pyramid(dim, config.pyramid, config.placed, key=keys[3])
        self.proposal_proj = eqx.nn.Linear(dim, dim, key=keys[4])
        self.proposal_norm = eqx.nn.LayerNorm(dim)
        self.proposal_classes = eqx.nn.Linear(dim, classes, key=keys[5])
        self.proposal_boxes = Layers(dim, dim, dim, 4, key=keys[6])
        self.positions = Layers(4, dim, dim, dim, activation=jax.nn.silu, key=keys[7])
        block_keys = jr.split(keys[8], finder.depth)
        self.blocks = tuple(FinderBlock(dim, finder, key=each) for each in block_keys)
        self.first_boxes = Layers(dim, dim, dim, 4, key=keys[9])
        heads = [jr.split(each, 3) for each in jr.split(keys[10], finder.depth)]
        self.class_heads = tuple(eqx.nn.Linear(dim, classes, key=each[0]) for each in heads)
        edges, best = 4 * (finder.bins + 1), 4 * (finder.top_k + 1)
        self.box_heads = tuple(Layers(dim, dim, dim, edges, key=each[1]) for each in heads)
        self.quality = tuple(Layers(best, finder.quality, 1, key=each[2]) for each in heads)
        self.bins = Bins()
        self.denoising = 0.02 * jr.normal(keys[11], (classes + 1, dim))
        self.layers, self.normed, self.queries = config.layers, config.normed, config.queries
        self.top_k, self.about = finder.top_k, identity

    @property
    def stride(self) -> int:
        """Pixels of which a picture's sides are multiples: those of a pixel of the smallest map."""
        return STRIDE

    def __call__(self, pixel_values: Float[Array, "3 H W"]) -> Detections:
        """Things in one image; `jax.vmap` gives a batch.

        **Arguments:** preprocessed RGB, not necessarily square, whose sides are multiples of the
        stride.

        **Raises** `ValueError` if they are not, or if there are fewer places than queries.
        """
        if any(side % self.stride for side in pixel_values.shape[1:]):
            raise ValueError(
                f"sides must be multiples of {self.stride}: got {pixel_values.shape[1:]}"
            )
        maps = self.pyramid(self.fused(pixel_values))
        x, boxes = self.proposed(maps)
        first, before, edges = boxes, jnp.zeros_like(x), jnp.zeros(1, x.dtype)
        for number, (block, box_head) in enumerate(zip(self.blocks, self.box_heads, strict=True)):
            positions = jnp.clip(self.positions(boxes.astype(x.dtype)), -10, 10)
            x = block(x, positions, boxes, maps)
            if number == 0:
                moved = self.first_boxes(x).astype(jnp.float32) + inverse_sigmoid(boxes)
                first = jax.nn.sigmoid(moved)
            edges = box_head(x + before) + edges
            boxes, before = self.bins.moved(first, edges), x
        return Detections(pointwise(self.class_heads[-1], x) + self.judged(edges), boxes)

    def fused(self, pixel_values: Float[Array, "3 H W"]) -> list[AnyMap]:
        """Patches of some blocks at three sizes, each beside the details of that size."""
        vit = self.backbone
        x, height, width = vit.embed_tokens(vit.patch_embed(pixel_values))
        rotation, maps = vit.make_rotation(height, width), []
        for number, block in enumerate(vit.blocks[: max(self.layers)], start=1):
            x = block(x, rotation)
            if number in self.layers:
                # transformers norms the last block whatever it is told.
                is_normed = self.normed or number == len(vit.blocks)
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

    def proposed(self, maps: Sequence[AnyMap]) -> tuple[Queries, Boxes]:
        """Features and boxes of the places of all maps where a class is likeliest."""
        rows = [each.reshape(each.shape[0], -1).T for each in maps]
        boxes = [map_boxes(each.shape[1], each.shape[2], level) for level, each in enumerate(maps)]
        x, starts = jnp.concatenate(rows), jnp.concatenate(boxes)
        allowed = may_propose(starts)[:, None]
        x = pointwise(self.proposal_proj, jnp.where(allowed, x, 0))
        x = pointwise(self.proposal_norm, x)
        best = pointwise(self.proposal_classes, x).max(axis=-1)
        count = x.shape[0]
        if isinstance(count, int) and count < self.queries:
            raise ValueError(
                f"there are {count} places for {self.queries} queries: give a larger image."
            )
        # Of a size that is not known yet there may be fewer, which then are asked again.
        if not isinstance(count, int):
            best = jnp.concatenate([best, jnp.full((self.queries,), -jnp.inf, best.dtype)])
        chosen = jax.lax.top_k(best, self.queries)[1]
        chosen = jnp.where(chosen < count, chosen, 0)
        x, starts, allowed = x[chosen], starts[chosen], allowed[chosen]
        moved = self.proposal_boxes(x).astype(jnp.float32) + jnp.log(starts / (1 - starts))
        # What may propose nothing has the largest box there is.
        return x, jnp.where(allowed, jax.nn.sigmoid(moved), 1)

    def judged(self, edges: Edges) -> Float[Array, "queries 1"]:
        """Logits that the shape of its edges' distributions adds to the logits of a box."""
        logits = edges.astype(jnp.float32).reshape(len(edges), 4, -1)
        best = jax.lax.top_k(jax.nn.softmax(logits, axis=-1), self.top_k)[0]
        best = jnp.concatenate([best, best.mean(axis=-1, keepdims=True)], axis=-1)
        return self.quality[-1](best.reshape(len(edges), -1).astype(edges.dtype))


def inverse_sigmoid(x: Boxes, least: float = 1e-5) -> Boxes:
    """Logits of shares, of which neither they nor what is left are below `least`."""
    x = jnp.clip(x, 0, 1)
    return jnp.log(jnp.maximum(x, least) / jnp.maximum(1 - x, least))
