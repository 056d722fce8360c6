"""Settings of vision transformers in transformers (5.24) and in Equimo (1.1.0)."""

from dataclasses import replace
from typing import Any

from zoo.architectures.config_settings import EQUIMO, Template, TransformersClass, write_settings
from zoo.architectures.parts.layer_options import RopeGrid, RopePeriods
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.common.errors import BadRequest

TRANSFORMER: Template = ("hidden_size", "num_hidden_layers", "num_attention_heads")

DINOV3_SETTINGS: Template = (
    *TRANSFORMER,
    "intermediate_size",
    {
        "use_gated_mlp": lambda config: config.ffn == "swiglu",
        "hidden_act": lambda config: "silu" if config.ffn == "swiglu" else "gelu",
        "query_bias": lambda config: config.qkv_bias,
        "value_bias": lambda config: config.qkv_bias,
        "proj_bias": True,
        "mlp_bias": True,
    },
    *("num_register_tokens", "patch_size"),
    {"image_size": 224},
    "layer_norm_eps",
    {
        "layerscale_value": lambda config: config.layer_scale,
        "rope_theta": lambda config: config.rope.base,
    },
)


def _image_size(config: ViTConfig) -> int | list[int]:
    """Return transformers' setting of the size of the pictures of training: one number if they are
    square, otherwise [height, width]."""
    assert config.native_size is not None
    height, width = config.native_size
    return height if height == width else [height, width]


LEARNED: Template = (
    *TRANSFORMER,
    *("hidden_act", "layer_norm_eps", "patch_size"),
    {"image_size": _image_size},
)
"""Settings of all classes with learned positions."""


def _is_gated(config: ViTConfig) -> bool:
    """Return True if the feed-forward network has gates whose weights are joined with those of the
    values."""
    return config.ffn == "swiglu_fused"


def _integer_ratio(config: ViTConfig) -> int:
    """Return transformers' setting `mlp_ratio`, an integer.

    It is the ratio of the channels inside the feed-forward network to those of a token. For a gated
    network it is that ratio times 1.5, because transformers takes two thirds of the product and
    rounds it up to a multiple of 8. The result is rounded down.
    """
    return int(config.hidden * (1.5 if _is_gated(config) else 1) / config.dim)


def _register_settings(config: ViTConfig) -> dict[str, Any]:
    """Return the setting of the number of registers; empty for a network without registers."""
    return {"num_register_tokens": config.registers} if config.registers else {}


def _mask_token_settings(config: ViTConfig) -> dict[str, Any]:
    """Return the setting that the network has no mask token; empty if it has one, which is
    transformers' default."""
    return {} if config.mask_token else {"use_mask_token": False}


DINOV2_SETTINGS: Template = (
    *LEARNED,
    {
        "mlp_ratio": _integer_ratio,
        "use_swiglu_ffn": _is_gated,
        "layerscale_value": lambda config: config.layer_scale,
    },
    "qkv_bias",
    _register_settings,
    _mask_token_settings,
)


def _ratio(config: ViTConfig) -> dict[str, Any]:
    """Return TIPS's setting `mlp_ratio` as a float, because 1152 channels have no integer ratio.
    transformers rounds the product down.

    Return no setting for a gated network, whose ratio is an integer.
    """
    return {} if _is_gated(config) else {"mlp_ratio": config.hidden / config.dim}


def _attention_pool_settings(config: ViTConfig) -> dict[str, Any]:
    """Return the setting that the network has no pooling head; empty if it has one, which is
    transformers' default."""
    return {} if config.pool else {"vision_use_head": False}


TIPS_SETTINGS: Template = (*DINOV2_SETTINGS, _ratio)
PLAIN_SETTINGS: Template = (*LEARNED, "intermediate_size")
VIT_SETTINGS: Template = (*PLAIN_SETTINGS, "qkv_bias")
SIGLIP_SETTINGS: Template = (*PLAIN_SETTINGS, _attention_pool_settings)
CLIP_SETTINGS: Template = (*PLAIN_SETTINGS, "projection_dim")


DINOV3 = TransformersClass(
    "DINOv3ViTModel", "dinov3_vit", DINOV3_SETTINGS, has_key_bias_setting=True
)
DINOV2 = TransformersClass("Dinov2Model", "dinov2", DINOV2_SETTINGS)
DINOV2_WITH_REGISTERS = TransformersClass(
    "Dinov2WithRegistersModel", "dinov2_with_registers", DINOV2_SETTINGS, antialias=True
)
DINOV2_CLASSIFIER = replace(DINOV2, name="Dinov2ForImageClassification")
DINOV2_WITH_REGISTERS_CLASSIFIER = replace(
    DINOV2_WITH_REGISTERS, name="Dinov2WithRegistersForImageClassification"
)
SIGLIP = TransformersClass(
    "SiglipVisionModel", "siglip_vision_model", SIGLIP_SETTINGS, interpolates_on_request=True
)
SIGLIP_BARE = replace(SIGLIP, output_names=("last_hidden_state",))
SIGLIP_CLASSIFIER = replace(
    SIGLIP, name="SiglipForImageClassification", model_type="siglip", section="vision_config"
)
TIPS = TransformersClass("Tipsv2VisionModel", "tipsv2_vision_model", TIPS_SETTINGS, antialias=True)
CLIP = TransformersClass(
    "CLIPVisionModelWithProjection",
    "clip_vision_model",
    CLIP_SETTINGS,
    interpolates_on_request=True,
    auto_class="CLIPVisionModelWithProjection",
    output_names=("last_hidden_state", "image_embeds"),
)
CLIP_BARE = TransformersClass(
    "CLIPVisionModel", "clip_vision_model", PLAIN_SETTINGS, interpolates_on_request=True
)
CLIP_CLASSIFIER = replace(
    CLIP_BARE, name="CLIPForImageClassification", model_type="clip", section="vision_config"
)
PLAIN_CLASSIFIER = TransformersClass(
    "ViTForImageClassification",
    "vit",
    VIT_SETTINGS,
    interpolates_on_request=True,
    adds_pooler=True,
)
PLAIN_VIT = replace(PLAIN_CLASSIFIER, name="ViTModel")
DEIT_CLASSIFIER = replace(PLAIN_CLASSIFIER, name="DeiTForImageClassification", model_type="deit")
DEIT_TWO_HEADS = replace(
    DEIT_CLASSIFIER, name="DeiTForImageClassificationWithTeacher", auto_class="DeiTModel"
)
DEIT = replace(DEIT_CLASSIFIER, name="DeiTModel")

VIT_CLASSES = (
    *(DINOV3, DINOV2, DINOV2_WITH_REGISTERS, DINOV2_CLASSIFIER, DINOV2_WITH_REGISTERS_CLASSIFIER),
    *(SIGLIP, SIGLIP_BARE, SIGLIP_CLASSIFIER, TIPS, CLIP, CLIP_BARE, CLIP_CLASSIFIER),
    *(PLAIN_CLASSIFIER, PLAIN_VIT, DEIT, DEIT_CLASSIFIER, DEIT_TWO_HEADS),
)


def vit_class(config: ViTConfig) -> TransformersClass:
    """Return the transformers class that computes a vision transformer. **Raises** `BadRequest` if
    no class computes it."""
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
    result = _class_with_learned_positions(config) if _has_no_options(config) else None
    if result is None:
        raise BadRequest(
            "transformers has no class for this network: it is ViT-5, has options of timm, or its "
            "classifier takes another vector than those of transformers. Write another format."
        )
    return result


def _has_no_options(config: ViTConfig) -> bool:
    """Return True if a network has learned positions and no option that transformers' classes for
    them lack.

    The options are rotary positions, a norm before the blocks, norms of queries and keys, a final
    norm of the pooled vector, patches without a bias, and a table of positions without a row for
    the class token that the network has.
    """
    positions = config.positions
    if positions is None or config.rope is not None or positions.cls_token != config.cls_token:
        return False
    return config.patch_bias and not (config.pre_norm or config.pooled_norm or config.qk_norm)


def _class_with_learned_positions(config: ViTConfig) -> TransformersClass | None:
    """Return the transformers class of a network for which `_has_no_options` is True: a SigLIP,
    DINOv2, DeiT or plain ViT; None if no class computes it."""
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


EQUIMO_FEED_FORWARD = {"swiglu": "swiglu", "swiglu_fused": "swiglufused"}
EQUIMO_POOL = {"token": "token", "mean": "avg"}
"""Equimo's names for values of `ffn` and `pool`."""


def _equimo_ratio(config: ViTConfig) -> float:
    """Return Equimo's ratio of the channels inside the feed-forward network to those of a token.

    Equimo uses two thirds of the product as the width of a gated network, so its ratio is larger by
    1.5.
    """
    return config.hidden / config.dim * (1 if config.ffn == "mlp" else 1.5)


def _equimo_layers(config: ViTConfig) -> dict[str, Any]:
    """Return Equimo's settings of the feed-forward network and of the pooling before a classifier.
    Equimo's defaults are left out."""
    settings: dict[str, Any] = {}
    if config.ffn in EQUIMO_FEED_FORWARD:
        settings["ffn_layer"] = EQUIMO_FEED_FORWARD[config.ffn]
    if config.pool in EQUIMO_POOL and config.classes:
        settings["global_pool"] = EQUIMO_POOL[config.pool]
    return settings


def _equimo_positions(config: ViTConfig) -> dict[str, Any]:
    """Return Equimo's settings of learned positions, of the size of their pictures and of the class
    token; empty without learned positions. **Raises** `BadRequest` for a grid that is not square,
    which Equimo does not support."""
    positions = config.positions
    if positions is None:
        return {}
    if positions.columns is not None:
        raise BadRequest("Equimo supports only square grids of positions: write another format.")
    return {
        "img_size": positions.grid * config.patch_size,
        "class_token": config.cls_token,
        "global_pos_embed_cls": positions.cls_token,
        "interpolate_antialias": positions.antialias,
    }


def _equimo_rope(config: ViTConfig) -> dict[str, Any]:
    """Return Equimo's settings that only ViT-5 has: those of its rotary positions, its kind of
    norm, and the biases and norms of queries and keys; empty for other networks."""
    rope = config.rope
    if not isinstance(rope, RopeGrid):
        return {}
    frequencies = {"strategy": "mode", "freqs_for": "lang"}
    patches = {"theta": rope.theta, "pt_seq_len": rope.length}
    registers = {"theta": rope.register_theta, "pt_seq_len": round(config.registers**0.5)}
    return {
        "local_pos_embed_reg": True,
        "local_pos_embed_config_patch": frequencies | patches,
        "local_pos_embed_config_reg": frequencies | registers,
        "norm_layer": "rmsnorm",
        **write_settings(config, ("qkv_bias",), EQUIMO),
        "qk_norm": config.qk_norm,
    }


EQUIMO_SETTINGS: Template = (
    {"img_size": 224, "in_channels": 3},
    *("patch_size", "num_classes"),
    {
        "use_mask_token": lambda config: config.mask_token,
        "use_global_pos_embed": lambda config: config.positions is not None,
        "use_local_pos_embed": lambda config: config.rope is not None,
    },
    "reg_tokens",
    {"init_values": lambda config: config.layer_scale},
    "eps",
    {"dynamic_img_size": True},
    *("act_layer", "dim", "num_heads", "depths"),
    {
        "mlp_ratio": _equimo_ratio,
        "untie_global_and_local_cls_norm": lambda config: config.untied_norms,
    },
    *(_equimo_layers, _equimo_positions, _equimo_rope),
)
"""Settings of a network in Equimo's format."""
