"""Segmentation networks: a mask transformer (EoMT), and a linear classifier of patches."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.architectures.base import NO_IDENTITY, Identity
from zoo.architectures.parts.attention import Mask
from zoo.architectures.parts.layers import ACTIVATIONS, Activation, BatchNorm, Size, pointwise
from zoo.architectures.parts.output import ClassMap, Masks
from zoo.architectures.segmentation.segmentation_config import MaskConfig, SegmenterConfig
from zoo.architectures.vit.vit_network import BackboneNetwork, VisionTransformer

Tokens = Float[Array, "tokens dim"]


class Upscaling(eqx.Module):
    """Layer that doubles the rows and columns of a map: `norm(conv2(activation(conv1(x))))`."""

    conv1: eqx.nn.ConvTranspose2d
    conv2: eqx.nn.Conv2d
    norm: eqx.nn.LayerNorm
    activation: Activation = eqx.field(static=True)

    def __init__(self, dim: int, *, activation: Activation, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of the map.
        - `activation`: the function between the convolutions, the second of which is depthwise.
        """
        key1, key2 = jr.split(key)
        self.conv1 = eqx.nn.ConvTranspose2d(dim, dim, 2, 2, key=key1)
        self.conv2 = eqx.nn.Conv2d(dim, dim, 3, padding=1, groups=dim, use_bias=False, key=key2)
        self.norm = eqx.nn.LayerNorm(dim, eps=1e-6)
        self.activation = activation

    def __call__(self, x: Float[Array, "dim height width"]) -> Float[Array, "dim height2 width2"]:
        """Return the map with twice the rows and columns."""
        x = self.conv2(self.activation(self.conv1(x)))
        return pointwise(self.norm, x.transpose(1, 2, 0)).transpose(2, 0, 1)


class MaskHead(eqx.Module):
    """Head of three layers from a query to a vector that is compared with the pixels of masks."""

    fc1: eqx.nn.Linear
    fc2: eqx.nn.Linear
    fc3: eqx.nn.Linear
    activation: Activation = eqx.field(static=True)

    def __init__(self, dim: int, *, activation: Activation, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of a token.
        - `activation`: the function between the layers.
        """
        key1, key2, key3 = jr.split(key, 3)
        self.fc1 = eqx.nn.Linear(dim, dim, key=key1)
        self.fc2 = eqx.nn.Linear(dim, dim, key=key2)
        self.fc3 = eqx.nn.Linear(dim, dim, key=key3)
        self.activation = activation

    def __call__(self, x: Tokens) -> Tokens:
        """Return one vector for each query, of the same width."""
        x = self.activation(pointwise(self.fc1, x))
        return pointwise(self.fc3, self.activation(pointwise(self.fc2, x)))


class Eomt(BackboneNetwork):
    """EoMT: queries join the tokens of a vision transformer before its last blocks, and find areas.

        x = [queries, cls_token, reg_tokens, patches]        before the last `query_blocks` blocks
        queries, patches = parts of norm(x)                  after them
        class_queries_logits = class_head(queries)           one more than there are classes
        masks_queries_logits = mask_head(queries) · upscaled(patches)

    The small model of COCO's classes, with initial parameters:

        model = zoo.create("eomt_dinov3_coco_panoptic_small_640", key=jax.random.key(0))
        masks = model(image).masks_queries_logits  # image is [3, H, W], masks [200, H / 4, W / 4]

    In training, queries attend only to the patches in their masks, with a probability that
    decreases to 0. `attn_mask_probs` has this probability for each of the last blocks. If training
    was not completed, it is positive in some blocks, and queries still attend in this way there.
    These blocks are `masked`.

    Source: Kerssies et al., 2025, arXiv:2503.19108; `EomtDinov3ForUniversalSegmentation` of
    transformers.
    """

    backbone: VisionTransformer
    queries: Float[Array, "queries dim"]
    upscale: tuple[Upscaling, ...]
    mask_head: MaskHead
    class_head: eqx.nn.Linear
    attn_mask_probs: Float[Array, " query_blocks"]
    masked: tuple[bool, ...] = eqx.field(static=True)

    def __init__(self, config: MaskConfig, *, identity: Identity = NO_IDENTITY, key: PRNGKeyArray):
        """**Arguments:**

        - `config`: the sizes.
        - `identity`: the metadata of the network.
        - `key`: draws the initial parameters.
        """
        backbone_key, query_key, mask_key, class_key, *keys = jr.split(key, 4 + config.upscalings)
        dim, activation = config.dim, ACTIVATIONS[config.backbone.activation]
        self.backbone = VisionTransformer(config.backbone, key=backbone_key)
        self.queries = jr.normal(query_key, (config.queries, dim))
        self.upscale = tuple(Upscaling(dim, activation=activation, key=key) for key in keys)
        self.mask_head = MaskHead(dim, activation=activation, key=mask_key)
        self.class_head = eqx.nn.Linear(dim, config.classes + 1, key=class_key)
        self.masked = config.masked or (False,) * config.query_blocks
        self.attn_mask_probs = jnp.asarray(self.masked, jnp.float32)
        self.identity = identity

    def __call__(self, pixel_values: Float[Array, "3 H W"]) -> Masks:
        """Return the areas of one picture, one for each query. Use `jax.vmap` for a batch.

        **Arguments:**

        - `pixel_values`: preprocessed RGB, not necessarily square. Pixels at the right and bottom
          edge that do not fill a patch are ignored.
        """
        vit, count = self.backbone, len(self.queries)
        x, height, width = vit.embed_tokens(vit.patch_embed(pixel_values))
        first_query_block = len(vit.blocks) - len(self.masked)
        rotation = vit.make_rotation(height, width)
        for block in vit.blocks[:first_query_block]:
            x = block(x, rotation)
        x = jnp.concatenate([self.queries, x])
        rotation = vit.make_rotation(height, width, count)
        mask = None
        for block, is_masked in zip(vit.blocks[first_query_block:], self.masked, strict=True):
            if is_masked:
                mask = self._make_mask(self._predict(x, height, width)[1], height, width)
            x = block(x, rotation, mask)
        return Masks(*self._predict(x, height, width))

    def _predict(
        self, x: Tokens, height: Size, width: Size
    ) -> tuple[Float[Array, "queries classes"], Float[Array, "queries height2 width2"]]:
        """Return the class logits of queries, and the logits of their masks.

        **Arguments:**

        - `x`: the queries, then the tokens of the picture, before the final norm.
        - `height`, `width`: the numbers of patches along each side.
        """
        vit, count = self.backbone, len(self.queries)
        x = pointwise(vit.norm, x)
        queries, patches = x[:count], x[count + vit.prefix_tokens :]
        pixels = patches.T.reshape(x.shape[1], height, width)
        for upscaling in self.upscale:
            pixels = upscaling(pixels)
        masks = jnp.einsum("qc,chw->qhw", self.mask_head(queries), pixels)
        return pointwise(self.class_head, queries), masks

    def _make_mask(
        self, masks: Float[Array, "masks height2 width2"], height: Size, width: Size
    ) -> Mask:
        """Return the attention mask in which a query may not attend to patches outside its own
        mask.

        It has a row and a column for each query and token, and is True where the row may attend to
        the column. All other tokens attend to all tokens, and queries attend to all tokens before
        the patches. A patch is in a query's mask if the mean of the pixels in the middle of the
        patch is positive. This is the value of torch's bilinear interpolation of the mask to the
        grid of patches, without antialiasing.

        **Arguments:**

        - `masks`: the logits of the mask of each query.
        - `height`, `width`: the numbers of patches along each side.
        """
        count, prefix = len(self.queries), len(self.queries) + self.backbone.prefix_tokens
        pixels = 2 ** len(self.upscale)
        middle = slice((pixels - 1) // 2, pixels // 2 + 1)
        masks = masks.reshape(count, height, pixels, width, pixels)[:, :, middle, :, middle]
        is_in_mask = masks.mean((2, 4)).reshape(count, height * width) > 0
        query_rows = jnp.concatenate([jnp.ones((count, prefix), bool), is_in_mask], axis=1)
        other_rows = jnp.ones((prefix - count + height * width, prefix + height * width), bool)
        return jnp.concatenate([query_rows, other_rows])


class Segmenter(BackboneNetwork):
    """Linear classifier of the patches of a vision transformer, from the states of its last blocks.

        x = normed patches of the last `layers` blocks, concatenated
        logits = head(batch_norm(x)), on the grid of the patches

    DINOv2's small model with the classes of ADE20K, with initial parameters:

        model = zoo.create("dinov2_vits14_ade20k_linear", key=jax.random.key(0))
        classes = model(image).logits.argmax(0)  # image is [3, H, W], classes [H / 14, W / 14]

    Source: Oquab et al., 2023, arXiv:2304.07193; `BNHead` in
    `dinov2/eval/segmentation/models/decode_heads/linear_head.py` of facebookresearch/dinov2.
    """

    backbone: VisionTransformer
    batch_norm: BatchNorm
    head: eqx.nn.Linear
    layers: int = eqx.field(static=True)

    def __init__(
        self, config: SegmenterConfig, *, identity: Identity = NO_IDENTITY, key: PRNGKeyArray
    ):
        """**Arguments:**

        - `config`: the sizes.
        - `identity`: the metadata of the network.
        - `key`: draws the initial parameters.
        """
        backbone_key, head_key = jr.split(key)
        self.backbone = VisionTransformer(config.backbone, key=backbone_key)
        width = config.layers * config.dim
        self.batch_norm = BatchNorm(width)
        self.head = eqx.nn.Linear(width, config.classes, key=head_key)
        self.layers, self.identity = config.layers, identity

    def __call__(self, pixel_values: Float[Array, "3 H W"]) -> ClassMap:
        """Return the logits of the class of every patch of one picture. Use `jax.vmap` for a batch.

        **Arguments:**

        - `pixel_values`: preprocessed RGB, not necessarily square. Pixels at the right and bottom
          edge that do not fill a patch are ignored.
        """
        depth = self.backbone.num_hidden_states
        layers = range(depth - self.layers + 1, depth + 1)
        maps = self.backbone(pixel_values, layers, as_maps=True).hidden_states
        x = self.batch_norm(jnp.concatenate(maps).transpose(1, 2, 0))
        return ClassMap(pointwise(self.head, x).transpose(2, 0, 1))
