"""Sizes and options of vision transformers, read from the shapes of tensors.

Source of the options: `timm/models/vision_transformer.py` (1.0.31).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from zoo.architectures.common_config import HEAD_WEIGHT, count_classes
from zoo.architectures.config_fields import Shape, Shapes, length, read_channels_between
from zoo.architectures.parts.layer_options import (
    POSITIONS,
    Activation,
    LearnedPositions,
    RopePeriods,
)

if TYPE_CHECKING:
    from zoo.architectures.vit.vit_config import Pooling, ViTConfig

PATCHES = "patch_embed.proj.weight"
"""The kernel `[dim, 3, patch, patch]` that makes tokens of patches."""

PERIODS = "local_pos_embed.periods"
"""Rotary periods, a quarter as many as a head has channels."""

FEED_FORWARD: dict[Literal["mlp", "swiglu", "swiglu_fused"], tuple[str, str, int]] = {
    "mlp": ("fc1", "fc2", 1),
    "swiglu": ("w1", "w3", 1),
    "swiglu_fused": ("w12", "w3", 2),
}
"""The first and the last layer of each kind of feed-forward network, and how many times as many
rows the one has as the other has columns."""


def feed_forward(usual: ViTConfig, shapes: Shapes) -> str:
    """Return the kind of feed-forward network; empty if there is none, or more than one."""
    kinds = [
        kind for kind, layers in FEED_FORWARD.items() if read_channels_between(shapes, *layers)
    ]
    return kinds[0] if len(kinds) == 1 else ""


def hidden_channels(usual: ViTConfig, shapes: Shapes) -> int:
    """Return the channels between both layers of the feed-forward network; 0 without one."""
    layers = FEED_FORWARD.get(feed_forward(usual, shapes))  # type: ignore[call-overload]
    return read_channels_between(shapes, *layers) if layers else 0


def has_qkv_bias(usual: ViTConfig, shapes: Shapes) -> bool:
    """Return whether queries, keys and values have biases; a file of a rotary network may lack
    them."""
    if usual.rope is not None:
        return usual.qkv_bias
    return shapes("blocks.0.attn.qkv.bias") is not None


def projected_channels(usual: ViTConfig, shapes: Shapes) -> int | None:
    """Return the channels of a projection; None without one."""
    return length(shapes, "projection.weight") or None


def heads_of_periods(usual: ViTConfig, shapes: Shapes) -> int:
    """Return the heads that rotary periods determine; without any, as many as usual."""
    periods = length(shapes, PERIODS)
    if isinstance(usual.rope, RopePeriods) and periods:
        return length(shapes, PATCHES) // (4 * periods)
    return usual.heads


def ask_for_heads(config: Any, shapes: Shapes, settings: object) -> str:
    """Return the question how many heads there are, where rotary periods do not tell."""
    if shapes(PERIODS) is not None:
        return ""
    return 'how many heads share them. Write {"num_attention_heads": NUMBER}'


def ask_for_activation(config: ViTConfig, shapes: Shapes, settings: Any) -> str:
    """Return the question which GELU there is. A file of CLIP in timm's names is asked for it; one
    of CLIP's own names is known by the rest of its settings."""
    of_timm = settings is not None and settings.architecture
    if of_timm or not config.pre_norm or config.pooled_norm:
        return ""
    return (
        'which GELU it has. Write {"hidden_act": "quick_gelu"} (as OpenAI\'s CLIP) or '
        '{"hidden_act": "gelu"}'
    )


def count_head_tokens(usual: ViTConfig, shapes: Shapes) -> int | None:
    """Return the class tokens that a classifier takes beside the mean of the patches."""
    return _head_tokens(usual, shapes(HEAD_WEIGHT), length(shapes, PATCHES))


def has_two_heads(usual: ViTConfig, shapes: Shapes) -> bool:
    """Return whether the distillation token has a classifier, too."""
    return count_classes(usual, shapes) > 0 and bool(shapes("head_dist.weight"))


def with_classes(config: ViTConfig, head: Shape | None) -> ViTConfig:
    """Configuration with the classes of a linear layer, and the tokens that it takes if those are
    several."""
    tokens = _head_tokens(config, head, config.dim)
    classes = head[0] if head and len(head) == 2 else 0
    return replace(config, classes=classes, head_tokens=tokens, distilled=False)


def _head_tokens(config: ViTConfig, head: Shape | None, dim: int) -> int | None:
    if not head or len(head) != 2 or not head[0]:
        return None
    return config.head_tokens if head[1] == dim else head[1] // dim - 1


def comparable_qkv_bias(config: ViTConfig) -> bool:
    """Return whether there are biases as far as it tells networks apart: without rotary positions
    the tensors decide."""
    return config.qkv_bias or config.rope is None


def comparable_pool(config: ViTConfig) -> Pooling:
    """Return the pooling that networks of the same tensors, but for the pooling's own, have."""
    if config.pool == "mean" and config.cls_token:
        return "token"
    return "attention" if config.pool is None else config.pool


def first_register(config: ViTConfig) -> int:
    """Return whether there is a register: the first changes how learned positions are
    interpolated."""
    return min(1, config.registers) if config.positions else 0


AVERAGED_NORM = "fc_norm"
"""Leaf of a naming, and of no network, which says that the final norm is of the pooled vector."""


def _with_tokens(config: ViTConfig, shapes: Shapes) -> ViTConfig:
    """Return the configuration with the class token and the positions that a checkpoint has."""
    cls_token = shapes("cls_token") is not None
    registers = length(shapes, "reg_tokens")
    prefix = cls_token + registers
    rows = length(shapes, POSITIONS)
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
