"""Architecture record of RF-DETR."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from zoo.architectures.architecture import (
    Architecture,
    CheckpointFacts,
)
from zoo.architectures.config_fields import Shapes, with_sizes
from zoo.architectures.config_settings import (
    Template,
    TransformersClass,
    with_settings,
    write_settings,
)
from zoo.architectures.detection.detection_config import (
    DeimConfig,
    DetectionConfig,
)
from zoo.architectures.vit.vit_settings import DINOV2_SETTINGS


def _network_class() -> Callable[..., Any]:
    """Return the class of the network. Its module, and with it JAX, is imported only now."""
    from zoo.architectures.detection.rf_detr_network import RfDetr

    return RfDetr


def _sizes(config: DetectionConfig, shapes: Shapes) -> DetectionConfig | None:
    """Return the configuration with the sizes of a checkpoint; None if a leaf is missing or a size
    is out of bounds.

    If the checkpoint has no head for masks, the configuration has none.
    """
    if config.instances is not None and not shapes("instance_head.bias"):
        config = replace(config, instances=None)
    return with_sizes(config, shapes)


def _complete(config: DetectionConfig, facts: CheckpointFacts) -> DetectionConfig:
    """Return the configuration with the values that a checkpoint's settings state.

    Tensors determine only the product of sampling heads and points, so the number of points is
    computed again from the number of heads in the settings. `windowed` is as in `_windowed`.
    """
    result, sized = with_settings(config, facts.settings), config.decoder
    points = max(1, sized.sampling_heads * sized.points // result.decoder.sampling_heads)
    decoder, default = replace(result.decoder, points=points), replace(result, windowed=None)
    return replace(default, decoder=decoder, windowed=_windowed(default, result.windowed))


def _windowed(config: DetectionConfig, blocks: Sequence[int] | None) -> tuple[int, ...] | None:
    """Return the blocks that attend within windows, sorted; None if they are the default ones, or
    if there is only one window.

    **Arguments:**

    - `config`: the configuration with its default blocks (`windowed` is None).
    - `blocks`: the blocks in the settings, counted from 0; None if the settings do not state them.
      Blocks after the last one that the network reads have no effect and are left out.
    """
    if blocks is None or config.windows == 1:
        return None
    used = tuple(sorted({block for block in blocks if block < max(config.layers)}))
    return None if used == config.windowed_blocks else used


def write_layer_settings(config: DetectionConfig | DeimConfig) -> dict[str, Any]:
    """Return transformers' settings that say which blocks of the backbone a detector reads:
    `out_indices` and `out_features`."""
    return {
        "out_indices": list(config.layers),
        "out_features": [f"stage{layer}" for layer in config.layers],
    }


def _backbone_settings(config: DetectionConfig) -> dict[str, Any]:
    """Return transformers' settings of the backbone, under the name of their section in
    `config.json`."""
    backbone = {
        "model_type": "rf_detr_dinov2",
        **write_settings(config.backbone, DINOV2_SETTINGS),
        **write_layer_settings(config),
        "num_windows": config.windows,
        "window_block_indexes": list(config.windowed_blocks),
        "apply_layernorm": True,
        "reshape_hidden_states": True,
        "use_mask_token": config.backbone.mask_token,
    }
    return {"backbone_config": backbone}


def _mask_settings(config: DetectionConfig) -> dict[str, Any]:
    """Return transformers' settings of the head for masks; empty for a network without masks."""
    return {} if config.instances is None else write_settings(config.instances, MASKS)


MASKS: Template = (
    "intermediate_size",
    "mask_downsample_ratio",
    {"segmentation_head_activation_function": "gelu"},
)

SETTINGS: Template = (
    _mask_settings,
    _backbone_settings,
    "d_model",
    {"hidden_expansion": lambda config: config.narrow / config.decoder.dim},
    "c2f_num_blocks",
    {"activation_function": "silu", "decoder_activation_function": "relu"},
    *("decoder_layers", "decoder_ffn_dim", "decoder_self_attention_heads"),
    *("decoder_cross_attention_heads", "decoder_n_points", "num_queries", "group_detr"),
    {"num_feature_levels": 1},
    "layer_norm_eps",
)

RF_DETR = TransformersClass(
    "RfDetrForObjectDetection",
    "rf_detr",
    SETTINGS,
    antialias=True,
    auto_class="AutoModelForObjectDetection",
    output_names=("logits", "pred_boxes"),
    variable_settings=("window_block_indexes",),
    unused_settings=(
        *("dropout", "attention_dropout", "activation_dropout", "init_std", "class_cost"),
        *("bbox_cost", "giou_cost", "class_loss_coefficient", "dice_loss_coefficient"),
        *("bbox_loss_coefficient", "giou_loss_coefficient", "eos_coefficient", "focal_alpha"),
        *("auxiliary_loss", "mask_loss_coefficient", "mask_point_sample_ratio"),
        *("mask_downsample_ratio", "mask_class_loss_coefficient", "mask_dice_loss_coefficient"),
        *("segmentation_head_activation_function", "attention_bias", "disable_custom_kernels"),
        "use_mask_token",
    ),
)

RF_DETR_MASKS = replace(
    RF_DETR,
    name="RfDetrForInstanceSegmentation",
    auto_class="AutoModelForInstanceSegmentation",
    output_names=(*RF_DETR.output_names, "pred_masks"),
)


DETECTION = Architecture(
    config=DetectionConfig,
    network=_network_class,
    read_sizes=_sizes,
    complete=_complete,
    transformers_class=lambda config: RF_DETR_MASKS if config.instances else RF_DETR,
    transformers_classes=(RF_DETR, RF_DETR_MASKS),
)
