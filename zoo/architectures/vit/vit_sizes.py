"""The sizes of vision transformers, read off the shapes of their leaves."""

import math
from dataclasses import replace
from typing import Literal

from weights.initializers import Shape
from zoo.architectures.architecture import Shapes
from zoo.architectures.parts.layer_options import LearnedPositions, RopePeriods
from zoo.architectures.read_shapes import channels_between, count_numbered, count_rows
from zoo.architectures.vit.vit_config import Pooling, ViTConfig

FEED_FORWARD: dict[Literal["mlp", "swiglu", "swiglu_fused"], tuple[str, str, int]] = {
    "mlp": ("fc1", "fc2", 1),
    "swiglu": ("w1", "w3", 1),
    "swiglu_fused": ("w12", "w3", 2),
}
"""The first and the last layer of each kind of feed-forward network, and how many times as many
rows the one has as the other has columns."""


def vit_sizes(config: ViTConfig, shapes: Shapes) -> ViTConfig | None:
    """A vision transformer in the sizes of its leaves."""
    patch = shapes("patch_embed.proj.weight") or ()
    hidden = {kind: channels_between(shapes, *layers) for kind, layers in FEED_FORWARD.items()}
    widths = [(kind, width) for kind, width in hidden.items() if width]
    if len(patch) != 4 or 0 in patch or len(widths) != 1:
        return None
    ((kind, width),) = widths
    blocks = config.head_blocks and replace(
        config.head_blocks,
        depth=count_numbered(shapes, "head_blocks.{}.prenorm.weight"),
        hidden=count_rows(shapes, "head_blocks.0.mlp.w1.weight"),
    )
    has_biases = config.rope is not None or shapes("blocks.0.attn.qkv.bias") is not None
    sized = replace(
        config,
        dim=patch[0],
        depth=count_numbered(shapes, "blocks.{}.prenorm.weight"),
        heads=_heads(config, patch[0], shapes),
        ffn=kind,
        hidden=width,
        qkv_bias=config.qkv_bias and has_biases,
        patch_size=patch[2],
        registers=count_rows(shapes, "reg_tokens"),
        positions=config.positions and _on_grid(config.positions, shapes),
        projection=count_rows(shapes, "projection.weight") or None,
        head_blocks=blocks,
    )
    whole = with_classes(sized, shapes("head.weight"))
    return replace(whole, distilled=whole.classes > 0 and bool(shapes("head_dist.weight")))


def _on_grid(where: LearnedPositions, shapes: Shapes) -> LearnedPositions:
    count = max(0, count_rows(shapes, "global_pos_embed.weight") - where.prefix)
    side = math.isqrt(count)
    # Of what is no square the settings beside it tell the height.
    is_square = side**2 == count
    return replace(where, grid=side if is_square else 0, columns=None if is_square else count)


def _heads(config: ViTConfig, dim: int, shapes: Shapes) -> int:
    """Rotary periods are as many as a quarter of a head's channels."""
    periods = shapes("local_pos_embed.periods")
    if isinstance(config.rope, RopePeriods) and periods and periods[0]:
        return dim // (4 * periods[0])
    return config.heads


def with_classes(config: ViTConfig, head: Shape | None) -> ViTConfig:
    """Configuration with the classes of a linear layer, and the tokens that it takes if those are
    several."""
    classes, width = head if head and len(head) == 2 else (0, config.dim)
    tokens = config.head_tokens if width == config.dim else width // config.dim - 1
    head_tokens = tokens if classes else None
    return replace(config, classes=classes, head_tokens=head_tokens, distilled=False)


def vit_landmarks(config: ViTConfig) -> dict[str, Shape]:
    """The shapes of patch embedding, positions, last block and final norm."""
    leaves: dict[str, Shape] = {
        "norm.weight": (config.dim,),
        "patch_embed.proj.weight": (config.dim, 3, config.patch_size, config.patch_size),
        f"blocks.{config.depth - 1}.norm.weight": (config.dim,),
    }
    if config.positions is not None:
        count = config.positions.patches + config.positions.prefix
        leaves["global_pos_embed.weight"] = (count, config.dim)
    return leaves


def vit_free(config: ViTConfig) -> ViTConfig:
    """Without classes, grid and details."""
    return replace(
        config,
        classes=0,
        norm_eps=0.0,
        activation="gelu",
        qkv_bias=config.qkv_bias or config.rope is None,
        head_tokens=None,
        distilled=False,
        scores="softmax",
        mask_token=False,
        pool=_comparable_pool(config),
        positions=config.positions and replace(config.positions, grid=0, columns=None),
    )


def _comparable_pool(config: ViTConfig) -> Pooling:
    """Return the pooling that networks of the same tensors, but for the pooling's own, have."""
    if config.pool == "mean" and config.cls_token:
        return "token"
    return "attention" if config.pool is None else config.pool


def vit_unsized(config: ViTConfig) -> ViTConfig:
    """Without sizes."""
    return replace(
        config,
        dim=0,
        depth=0,
        heads=0,
        hidden=0,
        ffn="mlp",
        patch_size=0,
        # The first register changes how learned positions are interpolated.
        registers=min(1, config.registers) if config.positions else 0,
        projection=None,
        head_blocks=config.head_blocks and replace(config.head_blocks, depth=0, hidden=0),
    )
