"""A model's hyperparameters as other libraries write them."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from zoo.entry import Config, ConvNeXtConfig, Preprocessing, RotaryPeriods, ViTConfig
from zoo.errors import BadRequest

EQUIMO = "1.1.0"
"""The version whose format is written."""


def huggingface(config: Config, key_bias: bool) -> dict[str, Any]:
    """`config.json` of transformers' `DINOv3ViTModel` or `DINOv3ConvNextModel`."""
    if isinstance(config, ConvNeXtConfig):
        return _huggingface_convnext(config)
    if not isinstance(config, ViTConfig) or not isinstance(config.rotary, RotaryPeriods):
        raise BadRequest("only DINOv3's vision transformers can be written for transformers.")
    return {
        "architectures": ["DINOv3ViTModel"],
        "model_type": "dinov3_vit",
        "dtype": "float32",
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "intermediate_size": config.hidden,
        "use_gated_mlp": config.ffn == "swiglu",
        "hidden_act": "silu" if config.ffn == "swiglu" else "gelu",
        "query_bias": config.qkv_bias,
        "key_bias": key_bias,
        "value_bias": config.qkv_bias,
        "proj_bias": True,
        "mlp_bias": True,
        "num_register_tokens": config.registers,
        "patch_size": config.patch,
        "num_channels": 3,
        "image_size": 224,
        "layer_norm_eps": config.norm_eps,
        "layerscale_value": config.layer_scale,
        "rope_theta": config.rotary.base,
    }


def _huggingface_convnext(config: ConvNeXtConfig) -> dict[str, Any]:
    return {
        "architectures": ["DINOv3ConvNextModel"],
        "model_type": "dinov3_convnext",
        "dtype": "float32",
        "hidden_sizes": list(config.dims),
        "depths": list(config.depths),
        "hidden_act": "gelu",
        "num_channels": 3,
        "image_size": 224,
        "layer_norm_eps": config.norm_eps,
        "layer_scale_init_value": config.layer_scale,
    }


def huggingface_preprocessor(how: Preprocessing) -> dict[str, Any]:
    """`preprocessor_config.json` of transformers' `DINOv3ViTImageProcessor`."""
    return {
        "image_processor_type": "DINOv3ViTImageProcessorFast",
        "do_rescale": True,
        "rescale_factor": how.rescale,
        "do_resize": True,
        "size": {"height": how.size[0], "width": how.size[1]},
        "resample": 2,
        "do_normalize": True,
        "image_mean": list(how.mean),
        "image_std": list(how.std),
    }


def equimo(config: Config) -> dict[str, Any]:
    """`metadata.json` of an Equimo 1.x archive."""
    return {
        "model_config": _equimo_convnext(config)
        if isinstance(config, ConvNeXtConfig)
        else _equimo_vit(config),
        "torch_hub_cfg": {},
        "timm": [],
        "jax_version": version("jax"),
        "equinox_version": version("equinox"),
        "equimo_version": EQUIMO,
    }


def _equimo_convnext(config: ConvNeXtConfig) -> dict[str, Any]:
    return {
        "in_channels": 3,
        "depths": list(config.depths),
        "dims": list(config.dims),
        "layer_scale_init_value": config.layer_scale,
        "act_layer": "exactgelu",
        "num_classes": 0,
        "eps": config.norm_eps,
    }


def _equimo_vit(config: ViTConfig) -> dict[str, Any]:
    gated = config.ffn == "swiglu"
    model: dict[str, Any] = {
        "img_size": 224,
        "in_channels": 3,
        "patch_size": config.patch,
        "num_classes": 0,
        "use_mask_token": True,
        "use_global_pos_embed": False,
        "use_local_pos_embed": True,
        "reg_tokens": config.registers,
        "init_values": config.layer_scale,
        "eps": config.norm_eps,
        "dynamic_img_size": True,
        "act_layer": "exactgelu",
        "dim": config.dim,
        "num_heads": config.heads,
        "depths": [config.depth],
        # Equimo takes two thirds of this for a gated network's width.
        "mlp_ratio": config.hidden / config.dim * (1.5 if gated else 1),
        "untie_global_and_local_cls_norm": config.untied_norms,
    }
    if gated:
        model["ffn_layer"] = "swiglu"
    return model
