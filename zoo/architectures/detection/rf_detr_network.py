"""Network of RF-DETR: a detection transformer on a windowed DINOv2."""

from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from zoo.architectures.base import NO_IDENTITY, Identity
from zoo.architectures.detection.detection_config import DecoderConfig, DetectionConfig
from zoo.architectures.detection.detection_layers import (
    Boxes,
    InstanceHead,
    Projector,
    SampledAttention,
    can_propose,
    initial_boxes,
)
from zoo.architectures.parts.attention import attend
from zoo.architectures.parts.block import Block, Mlp
from zoo.architectures.parts.layers import Activation, Size, pointwise, relu
from zoo.architectures.parts.output import Detections
from zoo.architectures.vit.vit_network import BackboneNetwork, VisionTransformer

Windows = Float[Array, "all_windows window_tokens dim"]


def compute_windowed_maps(
    vit: VisionTransformer,
    pixel_values: Float[Array, "3 H W"],
    layers: Sequence[int],
    windows: int,
    windowed_blocks: Sequence[int],
) -> Float[Array, "channels height width"]:
    """Return the normalised patches of some blocks on their grid, with the channels of these blocks
    concatenated in the order of the blocks.

    The picture is split into `windows` x `windows` windows of equal size, each with its own copy of
    the tokens before the patches. In the blocks of `windowed_blocks`, a token attends only to the
    tokens of its window. In all other blocks, it attends to the tokens of all windows.

    **Arguments:**

    - `vit`: the vision transformer.
    - `pixel_values`: the picture.
    - `layers`: numbers of the blocks whose patches are returned, counted from 1.
    - `windows`: the number of windows along a side.
    - `windowed_blocks`: the blocks that attend within windows, counted from 0.

    **Raises** `ValueError` if the picture's sides are not multiples of `windows` patches.

    Source: `RfDetrDinov2Backbone` of transformers, which uses a window's height as its width, with
    the same result for square pictures.
    """
    step = vit.stride * windows
    if any(side % step for side in pixel_values.shape[1:]):
        raise ValueError(
            f"sides must be multiples of {step}, {windows} windows of patches of {vit.stride} "
            f"pixels: got {pixel_values.shape[1:]}"
        )
    tokens, height, width = vit.embed_tokens(vit.patch_embed(pixel_values))
    x = _split_windows(tokens, vit.prefix_tokens, height, width, windows)
    maps = []
    for number, block in enumerate(vit.blocks[: max(layers)], start=1):
        x = jax.vmap(block)(x) if number - 1 in windowed_blocks else _apply_to_all_windows(block, x)
        if number in layers:
            normed = pointwise(vit.norm, x)[:, vit.prefix_tokens :]
            maps.append(_join_windows(normed, height, width, windows))
    return jnp.concatenate(maps)


def _apply_to_all_windows(block: Block, x: Windows) -> Windows:
    """Return the tokens after a block in which each token attends to the tokens of all windows."""
    return block(x.reshape(-1, x.shape[-1])).reshape(x.shape)


def _split_windows(
    tokens: Float[Array, "tokens dim"], prefix: int, height: Size, width: Size, windows: int
) -> Windows:
    """Return the tokens of each window: a copy of the prefix tokens, then the window's patches by
    rows.

    **Arguments:**

    - `tokens`: the first `prefix` tokens, then the patches of the picture by rows.
    - `height`, `width`: the numbers of patches along the picture's sides.
    - `windows`: the number of windows along a side.
    """
    dim = tokens.shape[-1]
    rows, columns = height // windows, width // windows
    patches = tokens[prefix:].reshape(windows, rows, windows, columns, dim)
    patches = patches.transpose(0, 2, 1, 3, 4).reshape(windows**2, rows * columns, dim)
    prefix_tokens = jnp.broadcast_to(tokens[:prefix], (windows**2, prefix, dim))
    return jnp.concatenate([prefix_tokens, patches], axis=1)


def _join_windows(
    patches: Windows, height: Size, width: Size, windows: int
) -> Float[Array, "dim height width"]:
    """Return the patches of all windows as a map of the picture. The windows have no prefix
    tokens."""
    dim = patches.shape[-1]
    x = patches.reshape(windows, windows, height // windows, width // windows, dim)
    return x.transpose(4, 0, 2, 1, 3).reshape(dim, height, width)


Queries = Float[Array, "queries dim"]


class LinearLayers(eqx.Module):
    """Linear layers with an activation between them."""

    layers: tuple[eqx.nn.Linear, ...]
    activation: Activation = eqx.field(static=True)

    def __init__(self, *widths: int, activation: Activation = relu, key: PRNGKeyArray):
        """**Arguments:**

        - `widths`: the numbers of channels of the input and after each layer.
        - `activation`: the activation between layers.
        """
        pairs = zip(widths, widths[1:], jr.split(key, len(widths) - 1), strict=False)
        self.layers = tuple(
            eqx.nn.Linear(width, next_width, key=key) for width, next_width, key in pairs
        )
        self.activation = activation

    def __call__(self, x: Float[Array, "*points dim"]) -> Float[Array, "*points dim2"]:
        """Return the vectors after all layers. There is no activation after the last layer."""
        for layer in self.layers[:-1]:
            x = self.activation(pointwise(layer, x))
        return pointwise(self.layers[-1], x)


class QueryAttention(eqx.Module):
    """Self-attention of queries. Position embeddings are added to the inputs of queries and keys,
    but not to that of values."""

    qkv: eqx.nn.Linear
    proj: eqx.nn.Linear
    heads: int = eqx.field(static=True)

    def __init__(self, dim: int, heads: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of a query.
        - `heads`: the number of heads.
        """
        qkv_key, proj_key = jr.split(key)
        self.qkv = eqx.nn.Linear(dim, 3 * dim, key=qkv_key)
        self.proj = eqx.nn.Linear(dim, dim, key=proj_key)
        self.heads = heads

    def __call__(self, x: Queries, positions: Queries) -> Queries:
        """Return the queries after attention. `positions` are the position embeddings of the
        queries `x`."""
        count, positioned = x.shape[0], x + positions
        weights = jnp.split(self.qkv.weight, 3)
        biases = jnp.split(jnp.asarray(self.qkv.bias), 3)
        parts = (
            (rows @ weight.T + bias).reshape(count, self.heads, -1).transpose(1, 0, 2)
            for rows, weight, bias in zip((positioned, positioned, x), weights, biases, strict=True)
        )
        return pointwise(self.proj, attend(*parts))


class DecoderBlock(eqx.Module):
    """Post-norm transformer block: queries attend to each other, then to points of the map.

    Sources: Zhu et al., 2021, arXiv:2010.04159; `RfDetrDecoderLayer` of transformers.
    """

    attn: QueryAttention
    norm1: eqx.nn.LayerNorm
    cross: SampledAttention
    norm2: eqx.nn.LayerNorm
    mlp: Mlp
    norm3: eqx.nn.LayerNorm

    def __init__(self, config: DecoderConfig, *, key: PRNGKeyArray):
        """**Arguments:**

        - `config`: the sizes of the decoder.
        """
        key1, key2, key3 = jr.split(key, 3)
        self.attn = QueryAttention(config.dim, config.heads, key=key1)
        self.cross = SampledAttention(config.dim, config.sampling_heads, config.points, key=key2)
        self.mlp = Mlp(config.dim, config.hidden, activation=relu, key=key3)
        self.norm1, self.norm2, self.norm3 = (eqx.nn.LayerNorm(config.dim) for _ in range(3))

    @eqx.filter_jit  # traced once for all blocks
    def __call__(
        self, x: Queries, positions: Queries, boxes: Boxes, source: Float[Array, "h w dim"]
    ) -> Queries:
        """Return the queries after the block.

        **Arguments:**

        - `x`: the queries.
        - `positions`: the embeddings of the queries' boxes.
        - `boxes`: the box of each query.
        - `source`: the map that the queries read.
        """
        x = pointwise(self.norm1, x + self.attn(x, positions))
        x = pointwise(self.norm2, x + self.cross(x + positions, boxes, source))
        return pointwise(self.norm3, x + self.mlp(x))


class ProposalHead(eqx.Module):
    """Head that proposes class logits and a box at each position of the map."""

    proj: eqx.nn.Linear
    norm: eqx.nn.LayerNorm
    classes: eqx.nn.Linear
    boxes: LinearLayers

    def __init__(self, dim: int, classes: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of the map.
        - `classes`: the number of classes.
        """
        key1, key2, key3 = jr.split(key, 3)
        self.proj = eqx.nn.Linear(dim, dim, key=key1)
        self.norm = eqx.nn.LayerNorm(dim)
        self.classes = eqx.nn.Linear(dim, classes, key=key2)
        self.boxes = LinearLayers(dim, dim, dim, 4, key=key3)

    def __call__(
        self, x: Float[Array, "positions dim"], proposed: Boxes, allowed: Bool[Array, " positions"]
    ) -> Detections:
        """Return the class logits and the box of every position of the map. The logits of a
        position that may not propose a box are -inf, and its box is zeros.

        **Arguments:**

        - `x`: the vectors of the positions, by rows.
        - `proposed`: the initial box of each position.
        - `allowed`: whether each position may propose a box.
        """
        x, proposed = (jnp.where(allowed[:, None], rows, 0) for rows in (x, proposed))
        x = pointwise(self.norm, pointwise(self.proj, x))
        logits = jnp.where(allowed[:, None], pointwise(self.classes, x), -jnp.inf)
        return Detections(logits, refine_boxes(proposed, self.boxes(x)))


class RfDetr(BackboneNetwork):
    """RF-DETR: queries read a map of a vision transformer's patches, and each of them detects one
    object.

        source = projector(normed patches of some blocks)
        boxes = of the positions of the map with the highest class logits    as many as queries
        queries = block(queries, boxes, source)                              for every block
        logits, pred_boxes = class_head(queries), boxes moved by box_head(queries)
        pred_masks = instance_head(queries, source)                          if there is one

    The nano model of COCO's classes, with initial parameters:

        model = zoo.create("rf_detr_nano", key=jax.random.key(0))
        detections = model(image)  # [3, H, W]; logits are [300, 91], pred_boxes [300, 4]

    `query_feat`, `query_boxes` and `proposals` are those of all groups of queries in training.
    Inference uses the first group.

    Source: Robinson et al., 2025, arXiv:2511.09554; `RfDetrForObjectDetection` of transformers.
    """

    backbone: VisionTransformer
    projector: Projector
    proposals: tuple[ProposalHead, ...]
    query_feat: Float[Array, "all_queries dim"]
    query_boxes: Float[Array, "all_queries 4"]
    positions: LinearLayers
    blocks: tuple[DecoderBlock, ...]
    norm: eqx.nn.LayerNorm
    class_head: eqx.nn.Linear
    box_head: LinearLayers
    instance_head: InstanceHead | None
    mask_stride: int = eqx.field(static=True)
    layers: tuple[int, ...] = eqx.field(static=True)
    windows: int = eqx.field(static=True)
    windowed_blocks: tuple[int, ...] = eqx.field(static=True)
    queries: int = eqx.field(static=True)

    def __init__(
        self, config: DetectionConfig, *, identity: Identity = NO_IDENTITY, key: PRNGKeyArray
    ):
        """**Arguments:**

        - `config`: the sizes.
        - `identity`: the metadata of the network.
        - `key`: draws the initial parameters.
        """
        *keys, instance_key = jr.split(key, 8)
        decoder, instances, classes = config.decoder, config.instances, config.classes
        dim, total = decoder.dim, config.queries * config.groups
        self.backbone = VisionTransformer(config.backbone, key=keys[0])
        self.projector = Projector(config, key=keys[1])
        self.proposals = tuple(
            ProposalHead(dim, classes, key=head_key)
            for head_key in jr.split(keys[2], config.groups)
        )
        self.query_feat = jr.normal(keys[3], (total, dim))
        self.query_boxes = jnp.zeros((total, 4))
        self.positions = LinearLayers(2 * dim, dim, dim, key=keys[4])
        block_keys = jr.split(keys[5], decoder.depth)
        self.blocks = tuple(DecoderBlock(decoder, key=block_key) for block_key in block_keys)
        self.norm = eqx.nn.LayerNorm(dim)
        class_key, box_key = jr.split(keys[6])
        self.class_head = eqx.nn.Linear(dim, classes, key=class_key)
        self.box_head = LinearLayers(dim, dim, dim, 4, key=box_key)
        make_head = partial(InstanceHead, dim, key=instance_key)
        self.instance_head = make_head(instances) if instances else None
        self.mask_stride = instances.stride if instances else 0
        self.layers, self.windows, self.queries = config.layers, config.windows, config.queries
        self.windowed_blocks = config.windowed_blocks
        self.identity = identity

    @property
    def stride(self) -> int:
        """Number, in pixels, that must divide the sides of a picture: one patch in each window."""
        return self.backbone.stride * self.windows

    def __call__(self, pixel_values: Float[Array, "3 H W"]) -> Detections:
        """Return the objects in one picture, one for each query. Use `jax.vmap` for a batch.

        **Arguments:**

        - `pixel_values`: preprocessed RGB, not necessarily square. Its sides are multiples of the
          stride.

        **Raises** `ValueError` if the sides are not multiples of the stride.
        """
        return self.detect_by_stage(pixel_values)[-1]

    def detect_by_stage(self, pixel_values: Float[Array, "3 H W"]) -> list[Detections]:
        """Return the proposals of all positions of the map, followed by the detections after each
        block.

        Training uses all of them. The last detections are the result of the network, and the only
        ones that have masks.

        **Raises** `ValueError` if the sides are not multiples of the stride.
        """
        maps = compute_windowed_maps(
            self.backbone, pixel_values, self.layers, self.windows, self.windowed_blocks
        )
        source = self.projector(maps)
        height, width, dim = source.shape
        rows = source.reshape(height * width, dim)
        start_boxes = initial_boxes(height, width)
        proposed = self.proposals[0](rows, start_boxes, can_propose(start_boxes))
        boxes = self.choose_boxes(proposed)
        x = self.query_feat[: self.queries]
        positions = self.positions(compute_sine_positions(boxes, dim).astype(x.dtype))
        detections = [proposed]
        for block in self.blocks:
            x = block(x, positions, boxes, source)
            normed = pointwise(self.norm, x)
            logits = pointwise(self.class_head, normed)
            detections.append(Detections(logits, refine_boxes(boxes, self.box_head(normed))))
        if self.instance_head is not None:
            size = [side // self.mask_stride for side in pixel_values.shape[1:]]
            masks = self.instance_head(normed, source, size)
            detections[-1] = detections[-1]._replace(pred_masks=masks)
        return detections

    def choose_boxes(self, proposed: Detections) -> Boxes:
        """Return the initial boxes of queries.

        They are the boxes of the positions whose largest class logit in `proposed` is highest, in
        descending order of this logit. `refine_boxes` changes them by the learned `query_boxes`. If
        there are fewer positions than queries, the remaining queries have their `query_boxes`
        alone. `proposed` has the logits and the box of every position of the map.
        """
        learned_boxes = self.query_boxes[: self.queries].astype(jnp.float32)
        best_logits, count = proposed.logits.max(axis=-1), proposed.pred_boxes.shape[0]
        boxes = jax.lax.stop_gradient(proposed.pred_boxes)
        if isinstance(count, int) and count >= self.queries:
            return refine_boxes(boxes[jax.lax.top_k(best_logits, self.queries)[1]], learned_boxes)
        # With an open size there may be fewer positions than queries.
        padding = jnp.full((self.queries,), -jnp.inf, best_logits.dtype)
        indices = jax.lax.top_k(jnp.concatenate([best_logits, padding]), self.queries)[1]
        is_position = indices < count
        return jnp.where(
            is_position[:, None],
            refine_boxes(boxes[jnp.where(is_position, indices, 0)], learned_boxes),
            learned_boxes,
        )


def refine_boxes(boxes: Boxes, deltas: Boxes) -> Boxes:
    """Return boxes changed by `deltas`, which a network has computed.

    A centre is moved by `deltas` times the box's size, and a size is multiplied by `exp(deltas)`.
    It is computed in float32, because half precision would be wrong by a pixel.
    """
    boxes, deltas = boxes.astype(jnp.float32), deltas.astype(jnp.float32)
    centres = deltas[:, :2] * boxes[:, 2:] + boxes[:, :2]
    return jnp.concatenate([centres, jnp.exp(deltas[:, 2:]) * boxes[:, 2:]], axis=-1)


def compute_sine_positions(boxes: Boxes, dim: int) -> Float[Array, "queries width"]:
    """Return position embeddings of boxes: sines and cosines of y, x, width and height, with `dim /
    2` channels for each of the four numbers.

    Source: `encode_sinusoidal_position_embedding` of transformers.
    """
    half = dim // 2
    frequencies = 2 * jnp.pi / 10000 ** (2 * jnp.arange(half // 2, dtype=jnp.float32) / half)
    order: Int[Array, " 4"] = jnp.array([1, 0, 2, 3])
    angles = boxes[:, order, None] * frequencies
    waves = jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1)
    return waves.reshape(len(boxes), 4 * half)
