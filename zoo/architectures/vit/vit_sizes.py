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
"""Leaf with the kernel `[dim, 3, patch, patch]` of the patch embedding."""

PERIODS = "local_pos_embed.periods"
"""Leaf with the rotary periods: a quarter of the number of channels of a head."""

FEED_FORWARD: dict[Literal["mlp", "swiglu", "swiglu_fused"], tuple[str, str, int]] = {
    "mlp": ("fc1", "fc2", 1),
    "swiglu": ("w1", "w3", 1),
    "swiglu_fused": ("w12", "w3", 2),
}
"""First and last layer of each kind of feed-forward network, and the ratio of the rows of the first
layer to the columns of the last one."""


def read_feed_forward(config: ViTConfig, shapes: Shapes) -> str:
    """Return the kind of feed-forward network that a checkpoint's first block has, a key of
    `FEED_FORWARD`; empty if its leaves are of no kind, or of several kinds.

    `config` is not used; it is an argument of every reader of a size.
    """
    kinds = [
        kind for kind, layers in FEED_FORWARD.items() if read_channels_between(shapes, *layers)
    ]
    return kinds[0] if len(kinds) == 1 else ""


def read_hidden_channels(config: ViTConfig, shapes: Shapes) -> int:
    """Return the number of channels between the layers of a checkpoint's feed-forward network; 0 if
    the kind of that network is not known."""
    layers = FEED_FORWARD.get(read_feed_forward(config, shapes))  # type: ignore[call-overload]
    return read_channels_between(shapes, *layers) if layers else 0


def has_qkv_bias(config: ViTConfig, shapes: Shapes) -> bool:
    """Return True if the queries, keys and values of a checkpoint have biases.

    With rotary positions the configuration's value is returned, because files of such networks may
    leave the biases out.
    """
    if config.rope is not None:
        return config.qkv_bias
    return shapes("blocks.0.attn.qkv.bias") is not None


def read_projection(config: ViTConfig, shapes: Shapes) -> int | None:
    """Return the number of channels that a checkpoint's projection has; None if there is no
    projection."""
    return length(shapes, "projection.weight") or None


def read_heads(config: ViTConfig, shapes: Shapes) -> int:
    """Return the number of heads that DINOv3's rotary periods in a checkpoint determine. For other
    positions, or without periods, return the number in `config`."""
    periods = length(shapes, PERIODS)
    if isinstance(config.rope, RopePeriods) and periods:
        return length(shapes, PATCHES) // (4 * periods)
    return config.heads


def describe_missing_heads(config: Any, shapes: Shapes, settings: object) -> str:
    """Return a description of the number of heads, for the message that no file states it. Return
    an empty text if the checkpoint has rotary periods, which determine the number."""
    if shapes(PERIODS) is not None:
        return ""
    return 'how many heads share them. Write {"num_attention_heads": NUMBER}'


def describe_missing_activation(config: ViTConfig, shapes: Shapes, settings: Any) -> str:
    """Return a description of the kind of GELU, for the message that no file states it. Return an
    empty text if it need not be stated.

    It must be stated for a CLIP in timm's names: a network with a norm before the blocks, whose
    final norm is applied to all tokens. If the settings state the name of timm's architecture, that
    determines it. In CLIP's own names, other settings determine it.
    """
    of_timm = settings is not None and settings.architecture
    if of_timm or not config.pre_norm or config.pooled_norm:
        return ""
    return (
        'which GELU it has. Write {"hidden_act": "quick_gelu"} (as OpenAI\'s CLIP) or '
        '{"hidden_act": "gelu"}'
    )


def count_head_tokens(config: ViTConfig, shapes: Shapes) -> int | None:
    """Return the number of class tokens that a checkpoint's classifier takes before the mean of the
    patches. Return None if there is no classifier. For a classifier of the width of a token, return
    `config.head_tokens`."""
    return _head_tokens(config, shapes(HEAD_WEIGHT), length(shapes, PATCHES))


def has_two_heads(config: ViTConfig, shapes: Shapes) -> bool:
    """Return True if a checkpoint has a classifier, and another one for the distillation token."""
    return count_classes(config, shapes) > 0 and bool(shapes("head_dist.weight"))


def with_classes(config: ViTConfig, head: Shape | None) -> ViTConfig:
    """Return the configuration with another classifier, and without one for the distillation token.

    The width of its weight determines its input. A classifier of the width of a token takes what
    `config` states. A wider one takes some class tokens, followed by the mean of the patches.

    **Arguments:**

    - `head`: the shape `(classes, width)` of the weight. There is no classifier for None, or for a
      shape that does not have two axes.
    """
    tokens = _head_tokens(config, head, config.dim)
    classes = head[0] if head and len(head) == 2 else 0
    return replace(config, classes=classes, head_tokens=tokens, distilled=False)


def _head_tokens(config: ViTConfig, head: Shape | None, dim: int) -> int | None:
    """Return the value of `ViTConfig.head_tokens` that fits the width of a classifier; None if
    there is no classifier.

    **Arguments:**

    - `head`: the shape `(classes, width)` of its weight; None without one.
    - `dim`: the number of channels of a token. For a classifier of this width, the result is
      `config.head_tokens`.
    """
    if not head or len(head) != 2 or not head[0]:
        return None
    return config.head_tokens if head[1] == dim else head[1] // dim - 1


def comparable_qkv_bias(config: ViTConfig) -> bool:
    """Return a value of `qkv_bias` by which networks are compared. Without rotary positions it is
    always True, because tensors determine whether there are biases."""
    return config.qkv_bias or config.rope is None


def comparable_pool(config: ViTConfig) -> Pooling:
    """Return a value of `pool` by which networks are compared.

    It is the same for poolings that networks with the same tensors may have: "token" also for the
    mean of the patches if there is a class token, and "attention" also for no pooling.
    """
    if config.pool == "mean" and config.cls_token:
        return "token"
    return "attention" if config.pool is None else config.pool


def comparable_registers(config: ViTConfig) -> int:
    """Return 1 if there are registers and learned positions, otherwise 0. Networks are compared by
    this number, because registers change how learned positions are interpolated."""
    return min(1, config.registers) if config.positions else 0


AVERAGED_NORM = "fc_norm"
"""Leaf in a naming, but in no network, that shows that the final norm is applied to the pooled
vector."""


def _with_tokens(config: ViTConfig, shapes: Shapes) -> ViTConfig:
    """Return the configuration with the class token, the registers and the learned positions that a
    checkpoint has.

    The numbers of rows decide whether the table of positions has rows for the class token and the
    registers. The grid is left at 0, and is read later.
    """
    cls_token = shapes("cls_token") is not None
    registers = length(shapes, "reg_tokens")
    prefix = cls_token + registers
    rows = length(shapes, POSITIONS)
    prefix_has_positions = _is_square(rows - prefix)
    # If both numbers are squares and there are registers, the table usually has patches only.
    if prefix_has_positions and _is_square(rows) and prefix > 1:
        prefix_has_positions = False
    if not _is_square(rows):
        prefix_has_positions = True
    positions = LearnedPositions(
        grid=0, antialias=True, cls_token=prefix_has_positions and cls_token
    )
    return replace(
        config,
        cls_token=cls_token,
        registers=registers,
        positions=replace(positions, registers=registers if prefix_has_positions else 0),
    )


def _is_square(count: int) -> bool:
    """Return True if a number is the square of an integer."""
    return count >= 0 and math.isqrt(count) ** 2 == count


def _with_norms(config: ViTConfig, shapes: Shapes) -> ViTConfig:
    """Return the configuration with the norm before the blocks, the norms of queries and keys, the
    layer scales and the bias of patches that a checkpoint has. With a norm before the blocks, the
    epsilon is CLIP's, 1e-5."""
    pre_norm = shapes("pre_norm.weight") is not None
    return replace(
        config,
        pre_norm=pre_norm,
        norm_eps=1e-5 if pre_norm else config.norm_eps,  # CLIP's, see `timm_norm_eps`
        patch_bias=shapes("patch_embed.proj.bias") is not None,
        qk_norm=shapes("blocks.0.attn.q_norm.weight") is not None,
        layer_scale=None if shapes("blocks.0.ls1.gamma") is None else 1e-5,
    )


def _with_pool(config: ViTConfig, shapes: Shapes) -> ViTConfig:
    """Return the configuration with the pooling that the tensors of a checkpoint imply.

    It is attention if they have its query, the mean if there is a norm of the pooled vector or no
    class token, and otherwise the class token. `pooled_norm` is set too.
    """
    pooled_norm = shapes(f"{AVERAGED_NORM}.weight") is not None
    if shapes("attn_pool.latent") is not None:
        return replace(config, pool="attention", pooled_norm=pooled_norm)
    is_mean = pooled_norm or not config.cls_token
    return replace(config, pool="mean" if is_mean else "token", pooled_norm=pooled_norm)


def _with_attention_pool(config: ViTConfig, shapes: Shapes) -> ViTConfig:
    """Return the configuration with SigLIP's pooling head if a checkpoint has its query, otherwise
    without pooling."""
    has_pool = shapes("attn_pool.latent") is not None
    return replace(config, pool="attention" if has_pool else None)


def _with_mask_token(config: ViTConfig, shapes: Shapes) -> ViTConfig:
    """Return the configuration with a mask token if a checkpoint has one, otherwise without it."""
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
"""Activations of timm's architectures that do not have the exact GELU, by a pattern of their
names."""

UNSUPPORTED_TIMM_OPTIONS: Mapping[re.Pattern[str], str] = {
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
"""Options that no network of the zoo supports, by a pattern of the names of timm's architectures
that have them. Some of these architectures have the tensors of a supported network, but another
computation."""


def timm_activation(architecture: str) -> Activation | None:
    """Return the activation of the timm architecture with this name; None if the name is empty.
    Architectures that are not in `TIMM_ACTIVATIONS` have the exact GELU."""
    if not architecture:
        return None
    activations = (a for name, a in TIMM_ACTIVATIONS.items() if name.fullmatch(architecture))
    return next(activations, "gelu")


def timm_norm_eps(config: ViTConfig, architecture: str) -> float:
    """Return the epsilon of the norms of timm's architecture with this name.

    It is timm's default, 1e-6, for a network with a norm before the blocks whose name does not
    contain "clip": its tensors were read as CLIP's, with 1e-5. In all other cases, also for an
    empty name, it is the epsilon of the configuration.
    """
    is_not_clip = architecture and config.pre_norm and "clip" not in architecture
    return 1e-6 if is_not_clip else config.norm_eps


def find_unsupported_timm_option(architecture: str) -> str:
    """Return an argument of timm's model class that no network of the zoo supports, such as
    `norm_layer`.

    `architecture` is the name of a timm architecture that uses the argument. The result is empty if
    there is none.
    """
    options = (
        option for name, option in UNSUPPORTED_TIMM_OPTIONS.items() if name.fullmatch(architecture)
    )
    return next(options, "")
