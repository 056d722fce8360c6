"""Sizes and options of vision transformers, read from the shapes of tensors.

Source of the options: `timm/models/vision_transformer.py` (1.0.31).
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from weights.initializers import Shape
from zoo.architectures.architecture import Shapes, channels_between, count_numbered, count_rows
from zoo.architectures.parts.layer_options import Activation, LearnedPositions, RopePeriods
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
    """The shapes of patch embedding, positions, token of masks, last block and final norm."""
    leaves: dict[str, Shape] = {
        "norm.weight": (config.dim,),
        "patch_embed.proj.weight": (config.dim, 3, config.patch_size, config.patch_size),
        f"blocks.{config.depth - 1}.norm.weight": (config.dim,),
    }
    if config.positions is not None:
        count = config.positions.patches + config.positions.prefix
        leaves["global_pos_embed.weight"] = (count, config.dim)
    if config.mask_token:
        leaves["mask_token"] = (1, config.dim)
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


AVERAGED_NORM = "fc_norm"
"""Leaf of a naming, and of no network, which says that the final norm is of the pooled vector."""


def _with_tokens(config: ViTConfig, shapes: Shapes) -> ViTConfig:
    """Return the configuration with the class token and the positions that a checkpoint has."""
    cls_token = shapes("cls_token") is not None
    registers = count_rows(shapes, "reg_tokens")
    prefix = cls_token + registers
    rows = count_rows(shapes, "global_pos_embed.weight")
    placed = _is_square(rows - prefix)
    # Of two squares that of the patches alone is usual where there are registers.
    if placed and _is_square(rows) and prefix > 1:
        placed = False
    if not _is_square(rows):
        placed = True
    where = LearnedPositions(grid=0, antialias=True, cls_token=placed and cls_token)
    return replace(
        config,
        cls_token=cls_token,
        registers=registers,
        positions=replace(where, registers=registers if placed else 0),
    )


def _is_square(count: int) -> bool:
    return count >= 0 and math.isqrt(count) ** 2 == count


def _with_norms(config: ViTConfig, shapes: Shapes) -> ViTConfig:
    """Return the configuration with the norms, scales and biases that a checkpoint has."""
    pre_norm = shapes("pre_norm.weight") is not None
    return replace(
        config,
        pre_norm=pre_norm,
        norm_eps=1e-5 if pre_norm else config.norm_eps,  # as CLIP's, see `timm_norm_eps`
        patch_bias=shapes("patch_embed.proj.bias") is not None,
        qk_norm=shapes("blocks.0.attn.q_norm.weight") is not None,
        layer_scale=None if shapes("blocks.0.ls1.gamma") is None else 1e-5,
    )


def _with_pool(config: ViTConfig, shapes: Shapes) -> ViTConfig:
    """Return the configuration with the pooling that the tensors of a checkpoint mean."""
    pooled_norm = shapes(f"{AVERAGED_NORM}.weight") is not None
    if shapes("attn_pool.latent") is not None:
        return replace(config, pool="attention", pooled_norm=pooled_norm)
    is_mean = pooled_norm or not config.cls_token
    return replace(config, pool="mean" if is_mean else "token", pooled_norm=pooled_norm)


def _with_attention_pool(config: ViTConfig, shapes: Shapes) -> ViTConfig:
    """Return the configuration with SigLIP's pooling head or without any."""
    has_pool = shapes("attn_pool.latent") is not None
    return replace(config, pool="attention" if has_pool else None)


def _with_mask_token(config: ViTConfig, shapes: Shapes) -> ViTConfig:
    """Return the configuration with the token of masked patches or without it."""
    return replace(config, mask_token=shapes("mask_token") is not None)


VIT_OPTIONS: Mapping[str, Callable[[ViTConfig, Shapes], ViTConfig]] = {
    "tokens": _with_tokens,
    "norms": _with_norms,
    "pool": _with_pool,
    "attention pool": _with_attention_pool,
    "mask token": _with_mask_token,
}

TIMM_OPTIONS = ("tokens", "norms", "pool")

TIMM_ACTIVATIONS: Mapping[re.Pattern[str], Activation] = {
    re.compile(r"\w+_quickgelu_\w+"): "quick_gelu",
    re.compile(
        r"vit_((base_patch32|giantopt_patch16|so400m_patch16)_siglip_\w+|"
        r"large_patch16_siglip_(gap_)?512)"
    ): "gelu_tanh",
}
"""Activations of timm's architectures that are not the exact GELU, by their names."""

TIMM_REFUSED: Mapping[re.Pattern[str], str] = {
    re.compile(pattern): option
    for pattern, option in {
        r"aimv2_\w+|test_vit4": "norm_layer",
        r"beit3_\w+": "scale_attn_norm",
        r"vit_\w+_(18x2|rpn|xp)_\w+|vit_d?pwee_\w+": "block_fn",
        r"vit_\w+_radio_\w+|vit_intern\w+": "final_norm",
        r"vit_(dlittle|dwee)_\w+": "attn_layer",
        "test_vit3": "pool_include_prefix",
    }.items()
}
"""Options of timm's architectures that no network of the zoo has, by the architectures' names. Some
have the tensors of another network and compute something else."""


def timm_activation(architecture: str) -> Activation | None:
    """Return the activation of timm's architecture with this name; None for no name."""
    if not architecture:
        return None
    found = (a for name, a in TIMM_ACTIVATIONS.items() if name.fullmatch(architecture))
    return next(found, "gelu")


def timm_norm_eps(config: ViTConfig, architecture: str) -> float:
    """Return the epsilon of the norms of timm's architecture with this name.

    Tensors with a norm in front of the blocks are read as CLIP's, whose epsilon is 1e-5. Another
    architecture to which `pre_norm` was given keeps its own, 1e-6. Without a name, the epsilon is
    that of the configuration.
    """
    is_other = architecture and config.pre_norm and "clip" not in architecture
    return 1e-6 if is_other else config.norm_eps


def refused_timm_option(architecture: str) -> str:
    """Return the option of timm's architecture with this name that no network of the zoo has; empty
    where there is none."""
    found = (option for name, option in TIMM_REFUSED.items() if name.fullmatch(architecture))
    return next(found, "")
