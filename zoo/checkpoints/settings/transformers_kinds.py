"""The classes of transformers (5.24) that compute networks of the zoo, and their settings."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.depth.depth_config import DepthConfig
from zoo.architectures.dual.dual_config import DualConfig
from zoo.architectures.masks.mask_config import MaskConfig
from zoo.architectures.parts.position_config import RopePeriods
from zoo.architectures.text.text_config import TextConfig
from zoo.architectures.vit.vit_config import ViTConfig

ACTIVATION = {"gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh", "relu": "relu"}
PICTURES = {"num_channels": 3}


@dataclass(frozen=True)
class Kind:
    """A class of transformers: its name, its configuration's, and the settings of a network.

    `antialias` says how it interpolates learned positions, `asks` that it only does where it is
    told to. `nested` is the part of its configuration that the settings are, where they are one.
    """

    name: str
    model_type: str
    settings: Callable[[Any], dict[str, Any]]
    antialias: bool = False
    asks: bool = False
    nested: str = ""


def _dinov3(config: ViTConfig) -> dict[str, Any]:
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


def _dinov3_convnext(config: ConvNeXtConfig) -> dict[str, Any]:
    return {
        "hidden_sizes": list(config.dims),
        "depths": list(config.depths),
        "hidden_act": "gelu",
        "image_size": 224,
        "layer_norm_eps": config.norm_eps,
        "layer_scale_init_value": config.layer_scale,
    }


def _convnext(config: ConvNeXtConfig) -> dict[str, Any]:
    scaled = {} if config.response_norm else {"layer_scale_init_value": config.layer_scale}
    return {
        "hidden_sizes": list(config.dims),
        "depths": list(config.depths),
        "hidden_act": "gelu",
        "image_size": 224,
        "layer_norm_eps": config.final_norm_eps or config.norm_eps,
        **scaled,
    }


def _learned(config: ViTConfig) -> dict[str, Any]:
    """What all classes with learned positions ask."""
    assert config.positions is not None
    return {
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "hidden_act": ACTIVATION[config.activation],
        "layer_norm_eps": config.norm_eps,
        "patch_size": config.patch_size,
        "image_size": config.positions.grid * config.patch_size,
    }


def _dinov2(config: ViTConfig) -> dict[str, Any]:
    gated = config.ffn == "swiglu_fused"
    registers = {"num_register_tokens": config.registers} if config.registers else {}
    return _learned(config) | {
        # A whole number; a gated network's width is two thirds, rounded up to a multiple of 8.
        "mlp_ratio": int(config.hidden * (1.5 if gated else 1) / config.dim),
        "use_swiglu_ffn": gated,
        "layerscale_value": config.layer_scale,
        "qkv_bias": config.qkv_bias,
        **registers,
    }


def _tips(config: ViTConfig) -> dict[str, Any]:
    # transformers rounds the product down, and 1152 channels have no whole ratio.
    ratio = config.hidden / config.dim
    return _dinov2(config) | ({} if config.ffn == "swiglu_fused" else {"mlp_ratio": ratio})


def _depth(config: DepthConfig) -> dict[str, Any]:
    read = {
        "model_type": "dinov2",
        **_dinov2(config.backbone),
        "out_indices": list(config.layers),
        "out_features": [f"stage{layer}" for layer in config.layers],
        "apply_layernorm": True,
        "reshape_hidden_states": False,
    }
    return {
        "backbone_config": read,
        "patch_size": config.stride,
        "reassemble_hidden_size": config.dim,
        "reassemble_factors": [4, 2, 1, 0.5],
        "neck_hidden_sizes": list(config.channels),
        "fusion_hidden_size": config.fused,
        "head_in_index": -1,
        "head_hidden_size": config.hidden,
        "depth_estimation_type": "metric" if config.max_depth else "relative",
        "max_depth": config.max_depth or 1,
    }


def _masks(config: MaskConfig) -> dict[str, Any]:
    assert isinstance(config.backbone.rope, RopePeriods)
    return _dinov3(config.backbone) | {
        "rope_parameters": {"rope_theta": config.backbone.rope.base, "rope_type": "default"},
        "num_queries": config.queries,
        "num_blocks": config.query_blocks,
        "num_upscale_blocks": config.upscalings,
    }


def _intermediate(config: ViTConfig) -> dict[str, Any]:
    return _learned(config) | {"intermediate_size": config.hidden}


def _words(config: TextConfig) -> dict[str, Any]:
    """What all classes of networks for texts ask."""
    return {
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "intermediate_size": config.hidden,
        "hidden_act": ACTIVATION[config.activation],
        "layer_norm_eps": config.norm_eps,
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.tokens,
        "pad_token_id": 0,
    }


def _text(config: TextConfig) -> dict[str, Any]:
    return _words(config) | {
        "projection_size": config.projection,
        # Gemma's.
        **{"eos_token_id": 1, "bos_token_id": 2},
    }


def _tips_text(config: TextConfig) -> dict[str, Any]:
    return _words(config) | {"scale_sqrt_depth": True}


def _tips_dual(config: DualConfig) -> dict[str, Any]:
    vision = {"model_type": TIPS.model_type, **PICTURES, **_tips(config.vision)}
    words = {"model_type": TIPS_TEXT.model_type, **_tips_text(config.words)}
    return {"text_config": words, "vision_config": vision}


def _dual(config: DualConfig) -> dict[str, Any]:
    return {
        "text_config": {"model_type": SIGLIP_TEXT.model_type, **_text(config.words)},
        "vision_config": {
            "model_type": SIGLIP.model_type,
            **PICTURES,
            **_intermediate(config.vision),
        },
    }


DINOV3 = Kind("DINOv3ViTModel", "dinov3_vit", _dinov3)
DINOV3_CONVNEXT = Kind("DINOv3ConvNextModel", "dinov3_convnext", _dinov3_convnext)
DINOV2 = Kind("Dinov2Model", "dinov2", _dinov2)
DINOV2_WITH_REGISTERS = Kind(
    "Dinov2WithRegistersModel", "dinov2_with_registers", _dinov2, antialias=True
)
DINOV2_CLASSIFIER = replace(DINOV2, name="Dinov2ForImageClassification")
DINOV2_WITH_REGISTERS_CLASSIFIER = replace(
    DINOV2_WITH_REGISTERS, name="Dinov2WithRegistersForImageClassification"
)
SIGLIP = Kind("SiglipVisionModel", "siglip_vision_model", _intermediate, asks=True)
SIGLIP_CLASSIFIER = replace(
    SIGLIP, name="SiglipForImageClassification", model_type="siglip", nested="vision_config"
)
SIGLIP_TEXT = Kind("SiglipTextModel", "siglip_text_model", _text)
SIGLIP_DUAL = Kind("SiglipModel", "siglip", _dual, asks=True)
TIPS = Kind("Tipsv2VisionModel", "tipsv2_vision_model", _tips, antialias=True)
TIPS_TEXT = Kind("Tipsv2TextModel", "tipsv2_text_model", _tips_text)
TIPS_DUAL = Kind("Tipsv2Model", "tipsv2", _tips_dual, antialias=True)
CONVNEXT = Kind("ConvNextForImageClassification", "convnext", _convnext)
CONVNEXT_V2 = Kind("ConvNextV2ForImageClassification", "convnextv2", _convnext)
DEPTH = Kind("DepthAnythingForDepthEstimation", "depth_anything", _depth)
EOMT = Kind("EomtDinov3ForUniversalSegmentation", "eomt_dinov3", _masks)
VIT = Kind("ViTForImageClassification", "vit", _intermediate, asks=True)
VIT_FEATURES = replace(VIT, name="ViTModel")

MODEL_TYPES = frozenset(
    kind.model_type
    for kind in (
        *(DINOV3, DINOV3_CONVNEXT, DINOV2, DINOV2_WITH_REGISTERS, SIGLIP, SIGLIP_CLASSIFIER),
        *(SIGLIP_TEXT, SIGLIP_DUAL, TIPS, TIPS_TEXT, TIPS_DUAL, CONVNEXT, CONVNEXT_V2, DEPTH),
        *(EOMT, VIT),
    )
)
"""What config.json calls a network whose tensors the zoo reads."""
