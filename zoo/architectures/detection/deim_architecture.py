"""Architecture record of DEIMv2."""

from collections.abc import Callable
from typing import Any

from zoo.architectures.architecture import Architecture
from zoo.architectures.config_settings import Template, TransformersClass, write_settings
from zoo.architectures.detection.detection_architecture import write_layer_settings
from zoo.architectures.detection.detection_config import LEVELS, DeimConfig
from zoo.architectures.vit.vit_settings import DINOV3_SETTINGS


def _network_class() -> Callable[..., Any]:
    """Return the class of the network. Its module, and with it JAX, is imported only now."""
    from zoo.architectures.detection.deim_network import Deim

    return Deim


def _backbone_settings(config: DeimConfig) -> dict[str, Any]:
    """Return transformers' settings of the backbone, under the name of their section in
    `config.json`."""
    backbone = {
        "model_type": "dinov3_vit",
        **write_settings(config.backbone, DINOV3_SETTINGS),
        **write_layer_settings(config),
        "apply_layernorm": config.normed,
        "reshape_hidden_states": True,
    }
    return {"backbone_config": backbone}


SETTINGS: Template = (
    _backbone_settings,
    {
        "encoder_type": "hybrid",
        "encoder_hidden_dim": lambda config: config.width,
        "encoder_in_channels": lambda config: [config.width] * LEVELS,
    },
    *("encoder_layers", "encoder_ffn_dim", "encoder_attention_heads"),
    {
        "encoder_activation_function": "gelu",
        "encoder_fuse_op": "sum",
        "encode_proj_layers": [2],
        "encoder_has_trailing_conv": False,
        "normalize_before": False,
        "positional_encoding_temperature": 10000,
        "activation_function": "silu",
        # transformers multiplies it by the width, halves the product and rounds it down.
        "hidden_expansion": lambda config: (2 * config.pyramid.narrow + 0.5) / config.width,
        "depth_mult": lambda config: config.pyramid.bottlenecks / 3,
    },
    *("spatial_tuning_adapter_inplanes", "d_model"),
    {"decoder_in_channels": lambda config: [config.width] * LEVELS},
    *("decoder_layers", "decoder_attention_heads", "decoder_ffn_dim", "decoder_n_points"),
    {
        "decoder_activation_function": "silu",
        "decoder_offset_scale": 0.5,
        "decoder_method": "default",
        "num_feature_levels": LEVELS,
    },
    *("num_queries", "max_num_bins", "top_prob_values", "lqe_hidden_dim"),
    {
        "lqe_layers": 2,
        "layer_norm_eps": 1e-5,
        "batch_norm_eps": 1e-5,
        "layer_scale": 1.0,
        "eval_idx": -1,
    },
    "eval_size",
    {
        "anchor_image_size": None,
        "learn_initial_query": False,
        "share_bbox_head": False,
        "use_gateway": True,
    },
)


DEIMV2 = TransformersClass(
    "Deimv2ForObjectDetection",
    "deimv2",
    SETTINGS,
    auto_class="AutoModelForObjectDetection",
    output_names=("logits", "pred_boxes"),
    variable_settings=("hidden_expansion", "depth_mult", "eval_size", "decoder_n_points"),
    unused_settings=(
        *("dropout", "attention_dropout", "activation_dropout", "feat_strides", "head_dim"),
        *("initializer_bias_prior_prob", "freeze_backbone_batch_norms", "num_denoising"),
        *("label_noise_ratio", "box_noise_scale", "with_box_refine", "matcher_alpha"),
        *("matcher_gamma", "matcher_class_cost", "matcher_bbox_cost", "matcher_giou_cost"),
        *("use_focal_loss", "auxiliary_loss", "focal_loss_alpha", "focal_loss_gamma"),
        *("weight_loss_vfl", "weight_loss_bbox", "weight_loss_giou", "weight_loss_fgl"),
        *("weight_loss_ddf", "weight_loss_mal", "eos_coefficient", "mal_alpha", "up"),
        *("use_dense_one_to_one", "reg_scale", "layer_types"),
    ),
)

DEIM = Architecture(
    config=DeimConfig,
    network=_network_class,
    transformers_class=lambda config: DEIMV2,
    transformers_classes=(DEIMV2,),
)
