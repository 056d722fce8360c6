"""Hyperparameters of vision transformers and of networks on them: plain data without JAX."""

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
from zoo.tasks.task import GivenOutput, Task


@config_class
class HeadBlocks(Configuration):
    """Blocks behind the final norm of a vision transformer that was trained before: dino.txt's.

    They have gates of `hidden` channels, no rotary positions, and no biases of queries, keys and
    values.
    """

    depth: int = size("head_blocks.{}.prenorm.weight", maximum=MAX_DEPTH)
    hidden: int = size("head_blocks.0.mlp.w1.weight")
    norm_eps: float = 1e-5


OF_DINOV3 = RopePeriods()

Pooling = Literal["token", "mean", "both", "attention"] | None


@config_class
class ViTConfig(FeatureConfig):
    """Hyperparameters of a vision transformer; the defaults are DINOv3's.

    `hidden` is the width between the two layers of the feed-forward network, already rounded as
    the checkpoint has it. `untied_norms` says that the checkpoint carries a second final norm,
    `local_cls_norm`, which only training uses. `head_blocks` are of another kind behind the final
    norm, with a norm of their own. `pool` makes `pooler_output`: the class token, the mean of the
    patches, both of them side by side, attention with a learned query, or nothing. With `classes`
    a linear classifier makes `logits` of it; with `head_tokens` it does so of the class tokens of
    that many last blocks and, behind them, the mean of the last one's patches. `scores` says what
    makes answers of `logits`: they exclude each other, or each is by itself, or is a number as it
    is. `pre_norm` is a norm in front of the blocks; with `pooled_norm` the final one is of what was
    pooled, not of all tokens; and `projection` is to how many channels a linear layer brings that.
    With `distilled` the token behind the class token has a classifier of its own, and `logits` are
    the mean of both: the distillation token of DeiT is a register, which has a learned position.
    """

    dim: int = size(vit_sizes.PATCHES, hf="hidden_size", equimo="dim")
    depth: int = size(
        "blocks.{}.prenorm.weight",
        hf="num_hidden_layers",
        equimo=Key("depths", write=lambda depth: [depth]),
        maximum=MAX_DEPTH,
    )
    heads: int = setting(
        leaf=vit_sizes.heads_of_periods,
        hf="num_attention_heads",
        timm="num_heads",
        equimo="num_heads",
        describe_missing=vit_sizes.ask_for_heads,
        neutral=1,
    )
    hidden: int = size(vit_sizes.hidden_channels, hf="intermediate_size")
    ffn: Literal["mlp", "swiglu", "swiglu_fused"] = size(vit_sizes.feed_forward, default="mlp")
    activation: Activation = detail(
        default="gelu",
        hf=ACTIVATION_KEY,
        equimo=EQUIMO_ACTIVATION_KEY,
        describe_missing=vit_sizes.ask_for_activation,
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
        compare_by=vit_sizes.first_register,
    )
    mask_token: bool = detail(default=True, optional_leaf="mask_token")
    positions: LearnedPositions | None = None
    rope: RopePeriods | RopeGrid | None = OF_DINOV3
    head_blocks: HeadBlocks | None = None
    pool: Pooling = detail(default="token", compare_by=vit_sizes.comparable_pool)
    projection: int | None = size(vit_sizes.projected_channels, default=None, hf="projection_dim")
    classes: int = detail(default=0, leaf=count_classes, equimo="num_classes")
    head_tokens: int | None = detail(
        default=None, leaf=vit_sizes.count_head_tokens, maximum=MAX_DEPTH
    )
    distilled: bool = detail(default=False, leaf=vit_sizes.has_two_heads)
    scores: Scores = detail(default="softmax")

    @property
    def task(self) -> Task:
        """Features, or classes."""
        distils = self.cls_token and self.positions is not None and self.positions.registers
        registers = "the distillation token" if distils else f"{self.registers} registers"
        first = (self.cls_token * "the class token, then ") + (
            f"{registers}, then " if self.registers else ""
        )
        patches = f"(height / {self.stride}) * (width / {self.stride})"
        more = {
            "image_embeds": GivenOutput(f"[batch_size, {self.width}]", "the same vector once more"),
            "attentions": GivenOutput(
                f"[batch_size, {self.heads}, tokens, tokens]",
                "how much each token attends to each in the last block",
            ),
            "class_attention": GivenOutput(
                f"[batch_size, {self.heads}, {patches}]",
                "how much of that the class token gives to each patch, by rows",
            ),
        }
        when = "before" if self.pooled_norm else "after"
        return feature_task(self, f"{first}the patches", when, more=more)

    @property
    def is_consistent(self) -> bool:
        """Whether heads share the channels, and what is pooled, rotated and classified is there."""
        heads = self.dim % self.heads == 0
        # Two axes, and two halves of what is rotated.
        rotated = self.rope is None or self.head_dim % 4 == 0
        tokens = self.head_tokens is None or self.head_tokens <= self.depth
        pooled = self.cls_token or (self.pool not in ("token", "both") and not self.head_tokens)
        # Registers of ViT-5 are rotated as a square picture.
        square = math.isqrt(self.registers) ** 2 == self.registers and self.cls_token
        placed = not isinstance(self.rope, RopeGrid) or (square and self.rope.length > 0)
        rows = self.positions is None or 0 <= self.positions.registers <= self.registers
        # The layers on top of what is pooled have the width of a token.
        fed = self.classes == 0 or self.head_tokens is not None or self.width == self.dim
        twice = self.classes > 0 and self.registers > 0 and self.pool == "token"
        two = not self.distilled or (twice and self.head_tokens is None)
        return all((heads, rotated, tokens, pooled, placed, rows, fed, two))

    @property
    def head_dim(self) -> int:
        """Channels of one attention head."""
        return self.dim // self.heads

    @property
    def width(self) -> int:
        """Channels of `pooler_output`."""
        pooled = self.dim * (2 if self.pool == "both" else 1)
        return pooled if self.projection is None else self.projection

    @property
    def prefix_tokens(self) -> int:
        """Tokens in front of the patches: the class token and the registers."""
        return self.cls_token + self.registers

    @property
    def num_hidden_states(self) -> int:
        """How many layers there are to ask for: the blocks."""
        return self.depth

    @property
    def stride(self) -> int:
        """Pixels along a side of what becomes one row of the output."""
        return self.patch_size

    @property
    def native(self) -> tuple[int, int] | None:
        """(height, width) of the images that learned positions were trained on."""
        if self.positions is None or not self.positions.grid:
            return None
        tall, wide = self.positions.sides
        return tall * self.patch_size, wide * self.patch_size

    @property
    def text(self) -> str:
        """The architecture in a line."""
        named = {0: "no registers", 1: "1 register"}
        rows = named.get(self.registers, f"{self.registers} registers")
        blocks = f", {self.head_blocks.depth} blocks on top" if self.head_blocks else ""
        return (
            f"{self.depth} blocks of width {self.dim}, {self.heads} heads, "
            f"{self.ffn} {self.hidden}, patch {self.patch_size}, {rows}"
            f"{blocks}{describe_classes(self.classes)}"
        )


@config_class
class OnBackbone(NoFeaturesConfig):
    """Facts that a network on top of a vision transformer has of that."""

    backbone: ViTConfig

    settings_need: ClassVar[str] = "backbone_config"
    scores: ClassVar[Scores] = "softmax"

    @property
    def dim(self) -> int:
        """Channels of a token."""
        return self.backbone.dim

    @property
    def depth(self) -> int:
        """Blocks of the backbone."""
        return self.backbone.depth

    @property
    def stride(self) -> int:
        """Pixels along a side of a patch."""
        return self.backbone.stride

    @property
    def native(self) -> tuple[int, int] | None:
        """(height, width) of the images that learned positions were trained on."""
        return self.backbone.native
