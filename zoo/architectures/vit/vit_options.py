"""Options of libraries' vision transformers that the tensors determine: whether there is a class
token, which norms there are, what is pooled.

Source: `timm/models/vision_transformer.py` (1.0.31).
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from zoo.architectures.architecture import Shapes
from zoo.architectures.parts.layer_options import Activation, LearnedPositions
from zoo.architectures.read_shapes import count_rows
from zoo.architectures.vit.vit_config import ViTConfig

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
        norm_eps=1e-5 if pre_norm else config.norm_eps,  # all of timm's with that norm
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


def refused_timm_option(architecture: str) -> str:
    """Return the option of timm's architecture with this name that no network of the zoo has; empty
    where there is none."""
    found = (option for name, option in TIMM_REFUSED.items() if name.fullmatch(architecture))
    return next(found, "")
