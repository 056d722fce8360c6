"""transformers' settings (5.23): which of its classes computes a network, and with what."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from zoo.errors import BadRequest
from zoo.models.config import (
    Config,
    DepthConfig,
    DualConfig,
    MaskConfig,
    OnBackbone,
    SegmenterConfig,
    ViTConfig,
)
from zoo.models.convnext_config import ConvNeXtConfig
from zoo.models.position_config import LearnedPositions, RopePeriods
from zoo.models.text_config import TextConfig

ACTIVATION = {"gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh"}
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


def transformers_config(
    config: Config, names: Sequence[str], key_bias: bool, size: tuple[int, int] = (224, 224)
) -> dict[str, Any]:
    """`config.json` of the class that computes a network. **Raises** `BadRequest`: there is none.

    `names` are those of the zoo's classes, `key_bias` is whether the keys have a bias, which
    only DINOv3's classes ask, and `size` that of pictures, which only EoMT's class asks: it takes
    squares.
    """
    kind = transformers_kind(config)
    named = {"architectures": [kind.name], "model_type": kind.model_type, "dtype": "float32"}
    network = (PICTURES if config.takes == ("pixel_values",) else {}) | kind.settings(config)
    settings = {kind.nested: network} if kind.nested else network
    settings = named | settings | labels(config.classes, names)
    if kind is EOMT:
        settings["image_size"] = max(size)
    return settings | ({"key_bias": key_bias} if kind in (DINOV3, EOMT) else {})


def portable_config(
    config: Config, names: Sequence[str], family: str, size: tuple[int, int] = (224, 224)
) -> dict[str, Any]:
    """`config.json` beside an ONNX file: of transformers' class, or of its class for the features
    below a classifier, or at least with its words."""
    for network in (config, _features(config)):
        with suppress(BadRequest):
            told = transformers_config(network, names, key_bias=False, size=size)
            return told | labels(config.classes, names)
    # Nobody has a class for it, but clients of ONNX files ask for little more than a name.
    return {
        "model_type": family,
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "patch_size": config.stride,
        "num_channels": 3,
        **labels(config.classes, names),
    }


def _features(config: Config) -> Config:
    """A network without what makes its features answers."""
    if isinstance(config, OnBackbone):
        return config.backbone
    if isinstance(config, ViTConfig):
        return replace(config, classes=0, head_tokens=None)
    return replace(config, classes=0) if isinstance(config, ConvNeXtConfig) else config


def labels(count: int, names: Sequence[str]) -> dict[str, Any]:
    """What the classes of a classifier are called: by number, where the names are of others."""
    if not count:
        return {}
    known = names if len(names) == count else [f"LABEL_{number}" for number in range(count)]
    return {
        "id2label": {str(number): name for number, name in enumerate(known)},
        "label2id": {name: number for number, name in enumerate(known)},
    }


def transformers_kind(config: Config) -> Kind:
    """The class that computes a network. **Raises** `BadRequest` if there is none."""
    if isinstance(config, DepthConfig) and config.backbone.positions is not None:
        return DEPTH
    if isinstance(config, TextConfig):
        return SIGLIP_TEXT
    if isinstance(config, DualConfig):
        return SIGLIP_DUAL
    if isinstance(config, MaskConfig):
        return EOMT
    if isinstance(config, ConvNeXtConfig):
        if config.response_norm:
            return CONVNEXT_V2
        return CONVNEXT if config.classes else DINOV3_CONVNEXT
    if isinstance(config, SegmenterConfig | DepthConfig):
        raise BadRequest(
            "transformers has no class for a classifier of DINOv2's patches, nor for depths on "
            "another network than DINOv2: write another format."
        )
    if isinstance(config.rope, RopePeriods) and not config.classes:
        return DINOV3
    learned = isinstance(config.positions, LearnedPositions) and config.rope is None
    if learned and config.mask_token and config.pool == "token":
        if not config.classes:
            return DINOV2_WITH_REGISTERS if config.registers else DINOV2
        if config.head_tokens == 1:
            return DINOV2_WITH_REGISTERS_CLASSIFIER if config.registers else DINOV2_CLASSIFIER
    elif learned and config.pool == "attention":
        if not config.classes:
            return SIGLIP
        if config.head_tokens == 0:
            return SIGLIP_CLASSIFIER
    elif learned and config.classes and config.pool == "token":
        return VIT
    raise BadRequest(
        "transformers has no class for this network (ViT-5, a classifier of another vector than "
        "its classes', SigLIP 2 without its head): write another format."
    )


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


def _text(config: TextConfig) -> dict[str, Any]:
    return {
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "intermediate_size": config.hidden,
        "hidden_act": ACTIVATION[config.activation],
        "layer_norm_eps": config.norm_eps,
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.tokens,
        "projection_size": config.projection,
        # Gemma's.
        **{"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2},
    }


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
CONVNEXT = Kind("ConvNextForImageClassification", "convnext", _convnext)
CONVNEXT_V2 = Kind("ConvNextV2ForImageClassification", "convnextv2", _convnext)
DEPTH = Kind("DepthAnythingForDepthEstimation", "depth_anything", _depth)
EOMT = Kind("EomtDinov3ForUniversalSegmentation", "eomt_dinov3", _masks)
VIT = Kind("ViTForImageClassification", "vit", _intermediate, asks=True)
