"""Hyperparameters of vision transformers and of networks on them: plain data without JAX."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from zoo.architectures.common_config import DEEPEST, MOST, Classifying, Opaque, class_words
from zoo.architectures.parts.layer_options import (
    Activation,
    LearnedPositions,
    RopeGrid,
    RopePeriods,
)
from zoo.tasks.answer import Scores
from zoo.tasks.feature_task import feature_task
from zoo.tasks.task import GivenOutput, Task


@dataclass(frozen=True)
class HeadBlocks:
    """Blocks behind the final norm of a vision transformer that was trained before: dino.txt's.

    They have gates of `hidden` channels, no rotary positions, and no biases of queries, keys and
    values.
    """

    depth: int
    hidden: int
    norm_eps: float = 1e-5

    @property
    def is_sound(self) -> bool:
        """Whether a network can have these sizes."""
        return 0 < self.depth <= DEEPEST and 0 < self.hidden <= MOST


OF_DINOV3 = RopePeriods()

Pooling = Literal["token", "mean", "both", "attention"] | None


@dataclass(frozen=True)
class ViTConfig(Classifying):
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

    dim: int
    depth: int
    heads: int
    hidden: int
    ffn: Literal["mlp", "swiglu", "swiglu_fused"] = "mlp"
    activation: Activation = "gelu"
    qkv_bias: bool = True
    qk_norm: bool = False
    norm: Literal["layer", "rms"] = "layer"
    norm_bias: bool = True
    norm_eps: float = 1e-5
    untied_norms: bool = False
    pre_norm: bool = False
    pooled_norm: bool = False
    layer_scale: float | None = 1e-5
    patch_size: int = 16
    patch_bias: bool = True
    cls_token: bool = True
    registers: int = 4
    mask_token: bool = True
    positions: LearnedPositions | None = None
    rope: RopePeriods | RopeGrid | None = OF_DINOV3
    head_blocks: HeadBlocks | None = None
    pool: Pooling = "token"
    projection: int | None = None
    classes: int = 0
    head_tokens: int | None = None
    distilled: bool = False
    scores: Scores = "softmax"

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
    def is_sound(self) -> bool:
        """Whether a network can have these sizes."""
        counts = (self.dim, self.heads, self.hidden, self.depth, self.patch_size, self.width)
        few = 0 <= self.registers <= MOST and 0 <= self.classes <= MOST
        grid = self.positions is None or all(0 < side <= MOST for side in self.positions.sides)
        heads = self.heads > 0 and self.dim % self.heads == 0
        # Two axes, and two halves of what is rotated.
        rotated = self.rope is None or (heads and self.head_dim % 4 == 0)
        tokens = self.head_tokens is None or 0 <= self.head_tokens <= self.depth
        sized = all(0 < count <= MOST for count in counts) and self.depth <= DEEPEST
        pooled = self.cls_token or (self.pool not in ("token", "both") and not self.head_tokens)
        # Registers of ViT-5 are rotated as a square picture.
        square = math.isqrt(max(self.registers, 0)) ** 2 == self.registers and self.cls_token
        placed = not isinstance(self.rope, RopeGrid) or (square and self.rope.length > 0)
        rows = self.positions is None or 0 <= self.positions.registers <= self.registers
        # The layers on top of what is pooled have the width of a token.
        fed = self.classes == 0 or self.head_tokens is not None or self.width == self.dim
        twice = self.classes > 0 and self.registers > 0 and self.pool == "token"
        two = not self.distilled or (twice and self.head_tokens is None)
        counted = all((sized, few, grid, heads, rotated, tokens, pooled, placed, rows, fed, two))
        return counted and (self.head_blocks is None or self.head_blocks.is_sound)

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
            f"{blocks}{class_words(self.classes)}"
        )


@dataclass(frozen=True)
class OnBackbone(Opaque):
    """Facts that a network on top of a vision transformer has of that."""

    backbone: ViTConfig

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
