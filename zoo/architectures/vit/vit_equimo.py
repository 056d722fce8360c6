"""Equimo's settings of vision transformers, in the form of 1.1.0."""

from typing import Any

from zoo.architectures.parts.layer_options import CALLED, LearnedPositions, RopeGrid
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.common.errors import BadRequest

# Equimo's names for what configurations have others for.
EQUIMO_FEED_FORWARD = {"swiglu": "swiglu", "swiglu_fused": "swiglufused"}
POOL = {"token": "token", "mean": "avg"}


def vit_equimo(config: ViTConfig) -> dict[str, Any]:
    """Settings of a network as Equimo names them."""
    # Equimo takes two thirds of this for a gated network's width.
    gate = 1 if config.ffn == "mlp" else 1.5
    settings: dict[str, Any] = {
        "img_size": 224,
        "in_channels": 3,
        "patch_size": config.patch_size,
        "num_classes": config.classes,
        "use_mask_token": config.mask_token,
        "use_global_pos_embed": config.positions is not None,
        "use_local_pos_embed": config.rope is not None,
        "reg_tokens": config.registers,
        "init_values": config.layer_scale,
        "eps": config.norm_eps,
        "dynamic_img_size": True,
        "act_layer": CALLED[config.activation].equimo,
        "dim": config.dim,
        "num_heads": config.heads,
        "depths": [config.depth],
        "mlp_ratio": config.hidden / config.dim * gate,
        "untie_global_and_local_cls_norm": config.untied_norms,
    }
    if config.ffn in EQUIMO_FEED_FORWARD:
        settings["ffn_layer"] = EQUIMO_FEED_FORWARD[config.ffn]
    if config.pool in POOL and config.classes:
        settings["global_pool"] = POOL[config.pool]
    if config.positions is not None:
        settings |= _learned(config, config.positions)
    if isinstance(config.rope, RopeGrid):
        settings |= _vit5(config, config.rope)
    return settings


def _learned(config: ViTConfig, positions: LearnedPositions) -> dict[str, Any]:
    if positions.columns is not None:
        raise BadRequest("Equimo has square grids of positions alone: write another format.")
    return {
        "img_size": positions.grid * config.patch_size,
        "class_token": config.cls_token,
        "global_pos_embed_cls": positions.cls_token,
        "interpolate_antialias": positions.antialias,
    }


def _vit5(config: ViTConfig, rope: RopeGrid) -> dict[str, Any]:
    frequencies = {"strategy": "mode", "freqs_for": "lang"}
    patches = {"theta": rope.theta, "pt_seq_len": rope.length}
    registers = {"theta": rope.register_theta, "pt_seq_len": round(config.registers**0.5)}
    return {
        "local_pos_embed_reg": True,
        "local_pos_embed_config_patch": frequencies | patches,
        "local_pos_embed_config_reg": frequencies | registers,
        "norm_layer": "rmsnorm",
        "qkv_bias": config.qkv_bias,
        "qk_norm": config.qk_norm,
    }
