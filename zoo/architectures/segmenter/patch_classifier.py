"""What is in each patch of an image: a linear classifier of DINOv2's patches."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.architectures.base import UNKNOWN, Identity
from zoo.architectures.parts.layers import BatchNorm, pointwise
from zoo.architectures.parts.output import ClassMap
from zoo.architectures.segmenter.segmenter_config import SegmenterConfig
from zoo.architectures.vit.vit_network import Backboned, VisionTransformer


class Segmenter(Backboned):
    """A class for every patch of a vision transformer, from what its last blocks make of it.

        x = normed patches of the last `layers` blocks, side by side
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

    def __init__(self, config: SegmenterConfig, *, about: Identity = UNKNOWN, key: PRNGKeyArray):
        """**Arguments:** the sizes, and what the network knows of itself."""
        backbone_key, head_key = jr.split(key)
        self.backbone = VisionTransformer(config.backbone, key=backbone_key)
        width = config.layers * config.dim
        self.batch_norm = BatchNorm(width)
        self.head = eqx.nn.Linear(width, config.classes, key=head_key)
        self.layers, self.about = config.layers, about

    def __call__(self, pixel_values: Float[Array, "3 H W"]) -> ClassMap:
        """Classes of one image's patches; `jax.vmap` gives a batch.

        **Arguments:** preprocessed RGB, not necessarily square; what does not fill a patch at the
        right and bottom edge is dropped.
        """
        depth = self.backbone.num_hidden_states
        read = range(depth - self.layers + 1, depth + 1)
        maps = self.backbone(pixel_values, read, as_maps=True).hidden_states
        x = self.batch_norm(jnp.concatenate(maps).transpose(1, 2, 0))
        return ClassMap(pointwise(self.head, x).transpose(2, 0, 1))
