"""Configurations of vision transformers and of networks on a vision transformer. This module is
plain data without JAX."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from zoo.architectures.common_config import (
    FeatureConfig,
    NoFeaturesConfig,
    count_classes,
    describe_classes,
)
from zoo.architectures.config_fields import (
    MAX_DEPTH,
    Configuration,
    Key,
    config_class,
    detail,
    setting,
    size,
)
from zoo.architectures.parts.layer_options import (
    ACTIVATION_KEY,
    EQUIMO_ACTIVATION_KEY,
    Activation,
    LearnedPositions,
    RopeGrid,
    RopePeriods,
)
from zoo.architectures.vit import vit_sizes
from zoo.tasks.answer import Scores
from zoo.tasks.feature_task import feature_task
from zoo.tasks.task import OutputDescription, Task


@config_class
class HeadBlocks(Configuration):
    """Configuration of the additional blocks after the final norm of a pretrained vision
    transformer, as in dino.txt. They have no rotary positions, and no biases of queries, keys and
    values.

    - `depth`: the number of blocks.
    - `hidden`: the number of channels of the gates in their feed-forward networks.
    - `norm_eps`: the epsilon of their norms.
    """

    depth: int = size("head_blocks.{}.prenorm.weight", maximum=MAX_DEPTH)
    hidden: int = size("head_blocks.0.mlp.w1.weight")
    norm_eps: float = 1e-5


DINOV3_ROPE = RopePeriods()

Pooling = Literal["token", "mean", "both", "attention"] | None


@config_class
class ViTConfig(FeatureConfig):
    """Configuration of a vision transformer. The defaults are DINOv3's.

    - `dim`, `depth`, `heads`: channels of a token, number of blocks, and number of attention heads.
    - `hidden`: channels between the two layers of the feed-forward network, rounded as in the
      checkpoint.
    - `ffn`, `activation`: the kind of feed-forward network, and its activation.
    - `qkv_bias`, `qk_norm`: whether queries, keys and values have biases, and queries and keys have
      norms.
    - `norm`, `norm_bias`, `norm_eps`: the kind of norm, whether it has a bias, and its epsilon.
    - `untied_norms`: whether the checkpoint has a second final norm, `local_cls_norm`, which only
      training uses.
    - `pre_norm`: whether there is a norm before the blocks.
    - `pooled_norm`: whether the final norm is applied to the pooled vector instead of all tokens.
    - `layer_scale`: the initial scale of a block's branches; None without scales.
    - `patch_size`, `patch_bias`: pixels along a side of a patch, and whether its projection has a
      bias.
    - `cls_token`, `registers`, `mask_token`: whether there is a class token, the number of
      registers, and whether there is a token for masked patches.
    - `positions`, `rope`: learned and rotary positions; None without them.
    - `head_blocks`: additional blocks after the final norm, with their own norm; None without them.
    - `pool`: the source of `pooler_output`: the class token ("token"), the mean of the patches
      ("mean"), both concatenated ("both"), or attention with a learned query ("attention"); None
      for no pooling.
    - `projection`: the number of channels that a linear layer projects the pooled vector to; None
      without one.
    - `classes`: the number of classes of a linear classifier of the pooled vector; 0 without one.
    - `head_tokens`: None if the classifier takes the pooled vector. Otherwise it takes the class
      tokens of this many last blocks, followed by the mean of the last block's patches; with 0
      only the mean.
    - `distilled`: whether the token after the class token has its own classifier, so that `logits`
      are the mean of both. DeiT's distillation token is a register with a learned position.
    - `scores`: how scores are computed from logits: softmax for exclusive classes, sigmoid for
      independent ones, or none for plain numbers.
    """

    dim: int = size(vit_sizes.PATCHES, hf="hidden_size", equimo="dim")
    depth: int = size(
        "blocks.{}.prenorm.weight",
        hf="num_hidden_layers",
        equimo=Key("depths", write=lambda depth: [depth]),
        maximum=MAX_DEPTH,
    )
    heads: int = setting(
        leaf=vit_sizes.read_heads,
        hf="num_attention_heads",
        timm="num_heads",
        equimo="num_heads",
        describe_missing=vit_sizes.describe_missing_heads,
        neutral=1,
    )
    hidden: int = size(vit_sizes.read_hidden_channels, hf="intermediate_size")
    ffn: Literal["mlp", "swiglu", "swiglu_fused"] = size(vit_sizes.read_feed_forward, default="mlp")
    activation: Activation = detail(
        default="gelu",
        hf=ACTIVATION_KEY,
        equimo=EQUIMO_ACTIVATION_KEY,
        describe_missing=vit_sizes.describe_missing_activation,
    )
    qkv_bias: bool = detail(
        default=True,
        leaf=vit_sizes.has_qkv_bias,
        hf="qkv_bias",
        equimo="qkv_bias",
        compare_by=vit_sizes.comparable_qkv_bias,
    )
    qk_norm: bool = False
    norm: Literal["layer", "rms"] = "layer"
    norm_bias: bool = True
    norm_eps: float = detail(default=1e-5, hf="layer_norm_eps", equimo="eps")
    untied_norms: bool = False
    pre_norm: bool = False
    pooled_norm: bool = False
    layer_scale: float | None = 1e-5
    patch_size: int = size(
        vit_sizes.PATCHES, axis=2, default=16, hf="patch_size", equimo="patch_size"
    )
    patch_bias: bool = True
    cls_token: bool = True
    registers: int = size(
        "reg_tokens",
        default=4,
        hf="num_register_tokens",
        equimo="reg_tokens",
        minimum=0,
        compare_by=vit_sizes.comparable_registers,
    )
    mask_token: bool = detail(default=True, optional_leaf="mask_token")
    positions: LearnedPositions | None = None
    rope: RopePeriods | RopeGrid | None = DINOV3_ROPE
    head_blocks: HeadBlocks | None = None
    pool: Pooling = detail(default="token", compare_by=vit_sizes.comparable_pool)
    projection: int | None = size(vit_sizes.read_projection, default=None, hf="projection_dim")
    classes: int = detail(default=0, leaf=count_classes, equimo="num_classes")
    head_tokens: int | None = detail(
        default=None, leaf=vit_sizes.count_head_tokens, maximum=MAX_DEPTH
    )
    distilled: bool = detail(default=False, leaf=vit_sizes.has_two_heads)
    scores: Scores = detail(default="softmax")

    @property
    def task(self) -> Task:
        """The task: features, or classes for a classifier."""
        has_distillation_token = (
            self.cls_token and self.positions is not None and self.positions.registers
        )
        registers = (
            "the distillation token" if has_distillation_token else f"{self.registers} registers"
        )
        prefix = (self.cls_token * "the class token, then ") + (
            f"{registers}, then " if self.registers else ""
        )
        patches = f"(height / {self.stride}) * (width / {self.stride})"
        extra_outputs = {
            "image_embeds": OutputDescription(
                f"[batch_size, {self.width}]", "the same vector once more"
            ),
            "attentions": OutputDescription(
                f"[batch_size, {self.heads}, tokens, tokens]",
                "how much each token attends to each in the last block",
            ),
            "class_attention": OutputDescription(
                f"[batch_size, {self.heads}, {patches}]",
                "how much of that the class token gives to each patch, by rows",
            ),
        }
        norm_position = "before" if self.pooled_norm else "after"
        return feature_task(
            self, f"{prefix}the patches", norm_position, extra_outputs=extra_outputs
        )

    @property
    def is_consistent(self) -> bool:
        """Whether the fields fit each other.

        The number of heads divides the channels. With rotary positions, a head has a multiple of 4
        channels; ViT-5's also need a class token and a square number of registers. The table of
        learned positions has at most as many rows for registers as there are registers. The tokens
        and blocks that are pooled or classified exist. A classifier of the pooled vector takes a
        vector of the width of a token.
        """
        heads_fit = self.dim % self.heads == 0
        # RoPE has two axes, and rotates pairs of channels.
        rope_fits = self.rope is None or self.head_dim % 4 == 0
        head_tokens_fit = self.head_tokens is None or self.head_tokens <= self.depth
        pooled_token_exists = self.cls_token or (
            self.pool not in ("token", "both") and not self.head_tokens
        )
        # Registers of ViT-5 are rotated like a square picture.
        is_square = math.isqrt(self.registers) ** 2 == self.registers and self.cls_token
        grid_fits = not isinstance(self.rope, RopeGrid) or (is_square and self.rope.length > 0)
        rows_fit = self.positions is None or 0 <= self.positions.registers <= self.registers
        # A classifier of the pooled vector has the width of a token.
        classifier_fits = (
            self.classes == 0 or self.head_tokens is not None or self.width == self.dim
        )
        has_two_tokens = self.classes > 0 and self.registers > 0 and self.pool == "token"
        second_head_fits = not self.distilled or (has_two_tokens and self.head_tokens is None)
        return all(
            (
                heads_fit,
                rope_fits,
                head_tokens_fit,
                pooled_token_exists,
                grid_fits,
                rows_fit,
                classifier_fits,
                second_head_fits,
            )
        )

    @property
    def head_dim(self) -> int:
        """Number of channels of an attention head."""
        return self.dim // self.heads

    @property
    def width(self) -> int:
        """Number of channels of `pooler_output`, after the projection if there is one."""
        pooled = self.dim * (2 if self.pool == "both" else 1)
        return pooled if self.projection is None else self.projection

    @property
    def prefix_tokens(self) -> int:
        """Number of tokens before the patches: the class token and the registers."""
        return self.cls_token + self.registers

    @property
    def num_hidden_states(self) -> int:
        """Number of layers whose states can be requested: the blocks."""
        return self.depth

    @property
    def stride(self) -> int:
        """Number of pixels along a side of a patch. One row of the output belongs to one patch."""
        return self.patch_size

    @property
    def native_size(self) -> tuple[int, int] | None:
        """(height, width) of the pictures that learned positions were trained on; None without
        learned positions, or if their grid is not known yet."""
        if self.positions is None or not self.positions.grid:
            return None
        rows, columns = self.positions.sides
        return rows * self.patch_size, columns * self.patch_size

    @property
    def description(self) -> str:
        """Description of the architecture in one line."""
        descriptions = {0: "no registers", 1: "1 register"}
        registers = descriptions.get(self.registers, f"{self.registers} registers")
        blocks = f", {self.head_blocks.depth} blocks on top" if self.head_blocks else ""
        return (
            f"{self.depth} blocks of width {self.dim}, {self.heads} heads, "
            f"{self.ffn} {self.hidden}, patch {self.patch_size}, {registers}"
            f"{blocks}{describe_classes(self.classes)}"
        )


@config_class
class OnBackbone(NoFeaturesConfig):
    """Base class of configurations of networks that read the features of a vision transformer, the
    backbone. They return no tokens."""

    backbone: ViTConfig

    required_setting: ClassVar[str] = "backbone_config"
    scores: ClassVar[Scores] = "softmax"

    @property
    def dim(self) -> int:
        """Number of channels of a token."""
        return self.backbone.dim

    @property
    def depth(self) -> int:
        """Number of blocks of the backbone."""
        return self.backbone.depth

    @property
    def stride(self) -> int:
        """Number of pixels along a side of a patch."""
        return self.backbone.stride

    @property
    def native_size(self) -> tuple[int, int] | None:
        """(height, width) of the pictures that learned positions were trained on; None without
        learned positions, or if their grid is not known yet."""
        return self.backbone.native_size
