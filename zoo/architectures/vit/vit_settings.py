"""Settings of vision transformers in transformers (5.24) and in Equimo (1.1.0)."""

from dataclasses import replace
from typing import Any

from zoo.architectures.architecture import TransformersClass
from zoo.architectures.parts.layer_options import CALLED, LearnedPositions, RopeGrid, RopePeriods
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.common.errors import BadRequest


def dinov3_settings(config: ViTConfig) -> dict[str, Any]:
    assert isinstance(config.rope, RopePeriods)
    return {
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "intermediate_size": config.hidden,
        "use_gated_mlp": config.ffn == "swiglu",
        "hidden_act": "silu" if config.ffn == "swiglu" else "gelu",
        "query_bias": config.qkv_bias,
        "value_bias": config.qkv_bias,
        "proj_bias": True,
        "mlp_bias": True,
        "num_register_tokens": config.registers,
        "patch_size": config.patch_size,
        "image_size": 224,
        "layer_norm_eps": config.norm_eps,
        "layerscale_value": config.layer_scale,
        "rope_theta": config.rope.base,
    }


def _learned(config: ViTConfig) -> dict[str, Any]:
    """What all classes with learned positions ask."""
    assert config.native is not None
    height, width = config.native
    return {
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "hidden_act": CALLED[config.activation].transformers[0],
        "layer_norm_eps": config.norm_eps,
        "patch_size": config.patch_size,
        "image_size": height if height == width else [height, width],
    }


def dinov2_settings(config: ViTConfig) -> dict[str, Any]:
    gated = config.ffn == "swiglu_fused"
    registers = {"num_register_tokens": config.registers} if config.registers else {}
    return _learned(config) | {
        # A whole number; a gated network's width is two thirds, rounded up to a multiple of 8.
        "mlp_ratio": int(config.hidden * (1.5 if gated else 1) / config.dim),
        "use_swiglu_ffn": gated,
        "layerscale_value": config.layer_scale,
        "qkv_bias": config.qkv_bias,
        **registers,
        **({} if config.mask_token else {"use_mask_token": False}),
    }


def tips_settings(config: ViTConfig) -> dict[str, Any]:
    # transformers rounds the product down, and 1152 channels have no whole ratio.
    ratio = config.hidden / config.dim
    return dinov2_settings(config) | ({} if config.ffn == "swiglu_fused" else {"mlp_ratio": ratio})


def plain_settings(config: ViTConfig) -> dict[str, Any]:
    return _learned(config) | {"intermediate_size": config.hidden}


def vit_settings(config: ViTConfig) -> dict[str, Any]:
    return plain_settings(config) | {"qkv_bias": config.qkv_bias}


def siglip_settings(config: ViTConfig) -> dict[str, Any]:
    return plain_settings(config) | ({} if config.pool else {"vision_use_head": False})


def clip_settings(config: ViTConfig) -> dict[str, Any]:
    return plain_settings(config) | {"projection_dim": config.projection}


DINOV3 = TransformersClass("DINOv3ViTModel", "dinov3_vit", (dinov3_settings,), key_bias=True)
DINOV2 = TransformersClass("Dinov2Model", "dinov2", (dinov2_settings,))
DINOV2_WITH_REGISTERS = TransformersClass(
    "Dinov2WithRegistersModel", "dinov2_with_registers", (dinov2_settings,), antialias=True
)
DINOV2_CLASSIFIER = replace(DINOV2, name="Dinov2ForImageClassification")
DINOV2_WITH_REGISTERS_CLASSIFIER = replace(
    DINOV2_WITH_REGISTERS, name="Dinov2WithRegistersForImageClassification"
)
SIGLIP = TransformersClass(
    "SiglipVisionModel", "siglip_vision_model", (siglip_settings,), asks=True
)
SIGLIP_BARE = replace(SIGLIP, answers=("last_hidden_state",))
SIGLIP_CLASSIFIER = replace(
    SIGLIP, name="SiglipForImageClassification", model_type="siglip", nested="vision_config"
)
TIPS = TransformersClass(
    "Tipsv2VisionModel", "tipsv2_vision_model", (tips_settings,), antialias=True
)
CLIP = TransformersClass(
    "CLIPVisionModelWithProjection",
    "clip_vision_model",
    (clip_settings,),
    asks=True,
    auto="CLIPVisionModelWithProjection",
    answers=("last_hidden_state", "image_embeds"),
)
CLIP_BARE = TransformersClass("CLIPVisionModel", "clip_vision_model", (plain_settings,), asks=True)
CLIP_CLASSIFIER = replace(
    CLIP_BARE, name="CLIPForImageClassification", model_type="clip", nested="vision_config"
)
PLAIN_CLASSIFIER = TransformersClass(
    "ViTForImageClassification", "vit", (vit_settings,), asks=True, pooled=False
)
PLAIN_VIT = replace(PLAIN_CLASSIFIER, name="ViTModel")
DEIT_CLASSIFIER = replace(PLAIN_CLASSIFIER, name="DeiTForImageClassification", model_type="deit")
DEIT_TWO_HEADS = replace(
    DEIT_CLASSIFIER, name="DeiTForImageClassificationWithTeacher", auto="DeiTModel"
)
DEIT = replace(DEIT_CLASSIFIER, name="DeiTModel")

VIT_CLASSES = (
    *(DINOV3, DINOV2, DINOV2_WITH_REGISTERS, DINOV2_CLASSIFIER, DINOV2_WITH_REGISTERS_CLASSIFIER),
    *(SIGLIP, SIGLIP_BARE, SIGLIP_CLASSIFIER, TIPS, CLIP, CLIP_BARE, CLIP_CLASSIFIER),
    *(PLAIN_CLASSIFIER, PLAIN_VIT, DEIT, DEIT_CLASSIFIER, DEIT_TWO_HEADS),
)


def vit_class(config: ViTConfig) -> TransformersClass:
    """The class that computes a network. **Raises** `BadRequest` if there is none."""
    if isinstance(config.rope, RopePeriods) and not config.classes:
        return DINOV3
    if config.positions and config.positions.linear and not config.classes:
        return TIPS
    if config.projection is not None:
        return CLIP
    if config.pooled_norm and config.pool == "token":
        if not config.classes:
            return CLIP_BARE
        if config.head_tokens == 0:
            return CLIP_CLASSIFIER
    found = _with_learned_positions(config) if _has_no_options(config) else None
    if found is None:
        raise BadRequest(
            "transformers has no class for this network (ViT-5, a classifier of another vector "
            "than its classes', options of timm's): write another format."
        )
    return found


def _has_no_options(config: ViTConfig) -> bool:
    """Whether a network has learned positions, and no norms or tokens that only timm has."""
    where = config.positions
    if where is None or config.rope is not None or where.cls_token != config.cls_token:
        return False
    return config.patch_bias and not (config.pre_norm or config.pooled_norm or config.qk_norm)


def _with_learned_positions(config: ViTConfig) -> TransformersClass | None:
    """Return the class of a network with learned positions; None where there is none."""
    if config.pool in ("attention", None) and not config.cls_token:
        if not config.classes:
            return SIGLIP if config.pool else SIGLIP_BARE
        return SIGLIP_CLASSIFIER if config.head_tokens == 0 else None
    if config.pool != "token":
        return None
    if config.layer_scale is not None:
        if not config.classes:
            return DINOV2_WITH_REGISTERS if config.registers else DINOV2
        if config.head_tokens != 1:
            return None
        return DINOV2_WITH_REGISTERS_CLASSIFIER if config.registers else DINOV2_CLASSIFIER
    if config.registers:
        if config.distilled:
            return DEIT_TWO_HEADS
        return DEIT_CLASSIFIER if config.classes else DEIT
    return PLAIN_CLASSIFIER if config.classes else PLAIN_VIT


# Equimo's names for what configurations have others for.
EQUIMO_FEED_FORWARD = {"swiglu": "swiglu", "swiglu_fused": "swiglufused"}
EQUIMO_POOL = {"token": "token", "mean": "avg"}


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
    if config.pool in EQUIMO_POOL and config.classes:
        settings["global_pool"] = EQUIMO_POOL[config.pool]
    if config.positions is not None:
        settings |= _learned_settings(config, config.positions)
    if isinstance(config.rope, RopeGrid):
        settings |= _vit5(config, config.rope)
    return settings


def _learned_settings(config: ViTConfig, positions: LearnedPositions) -> dict[str, Any]:
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
