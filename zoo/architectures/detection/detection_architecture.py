"""Record of RF-DETR: what the zoo asks of this kind of network."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from zoo.architectures.architecture import (
    CheckpointFacts,
    Shapes,
    TransformersClass,
    count_numbered,
    count_rows,
    on_backbone,
)
from zoo.architectures.detection.detection_config import (
    DecoderConfig,
    DetectionConfig,
    InstanceConfig,
)
from zoo.architectures.vit.vit_settings import dinov2_settings


def _network() -> Callable[..., Any]:
    from zoo.architectures.detection.rf_detr_network import RfDetr

    return RfDetr


def _sizes(config: DetectionConfig, shapes: Shapes) -> DetectionConfig | None:
    groups = count_numbered(shapes, "proposals.{}.norm.weight")
    classes, dim = shapes("class_head.weight") or (0, 0)
    looks = count_rows(shapes, "blocks.0.cross.weights.weight")
    if not (groups and classes and looks):
        return None
    usual = config.decoder
    heads = _heads(usual, dim)
    decoder = DecoderConfig(
        dim=dim,
        depth=count_numbered(shapes, "blocks.{}.norm1.weight"),
        heads=heads[0],
        sampling_heads=heads[1],
        points=max(1, looks // heads[1]),
        hidden=count_rows(shapes, "blocks.0.mlp.fc1.weight"),
    )
    return replace(
        config,
        decoder=decoder,
        queries=count_rows(shapes, "query_feat") // groups,
        groups=groups,
        classes=classes,
        bottlenecks=count_numbered(shapes, "projector.bottlenecks.{}.0.conv.weight"),
        narrow=count_rows(shapes, "projector.conv1.conv.weight") // 2,
        instances=_instances(config.instances, shapes),
    )


def _instances(usual: InstanceConfig | None, shapes: Shapes) -> InstanceConfig | None:
    """Sizes of the head for masks; None where there is none, or none is looked for."""
    if usual is None or not shapes("instance_head.bias"):
        return None
    blocks = count_numbered(shapes, "instance_head.blocks.{}.norm.weight")
    return replace(usual, blocks=blocks, hidden=count_rows(shapes, "instance_head.mlp.fc1.weight"))


def _heads(usual: DecoderConfig, dim: int) -> tuple[int, int]:
    """Heads of both kinds of attention: of as many channels as usual."""
    pair = (dim * usual.heads // usual.dim, dim * usual.sampling_heads // usual.dim)
    return (pair[0] or 1, pair[1] or 1)


def _unsized(config: DetectionConfig) -> DetectionConfig:
    return replace(
        config,
        decoder=DecoderConfig(0, 0, 0, 0, 0, 0),
        layers=(),
        windows=0,
        windowed=None,
        queries=0,
        classes=0,
        groups=0,
        bottlenecks=0,
        narrow=0,
        instances=config.instances and InstanceConfig(0, 0),
    )


def _settled(config: DetectionConfig, beside: CheckpointFacts) -> DetectionConfig:
    """With the layers that are read, windows, heads, and the epsilon of the projector."""
    if beside.settings is None or beside.settings.backbone_config is None:
        return config
    from zoo.architectures.detection.detection_settings import DetectionSettings
    from zoo.architectures.library_settings import own_settings

    told, own = own_settings(beside.settings, DetectionSettings), config.decoder
    sampling = told.decoder_cross_attention_heads or own.sampling_heads
    decoder = replace(
        own,
        heads=told.decoder_self_attention_heads or own.heads,
        sampling_heads=sampling,
        points=max(1, own.sampling_heads * own.points // sampling),
    )
    network = replace(
        config,
        decoder=decoder,
        layers=told.backbone_config.out_indices or config.layers,
        windows=told.backbone_config.num_windows or config.windows,
        projector_eps=told.layer_norm_eps,
        instances=config.instances and replace(config.instances, stride=told.mask_downsample_ratio),
        windowed=None,
    )
    return replace(network, windowed=_windowed(network, told.backbone_config.window_block_indexes))


def _windowed(config: DetectionConfig, stated: Sequence[int] | None) -> tuple[int, ...] | None:
    """Return the blocks that attend within windows; None if they are the usual ones. Blocks behind
    the last that is read have no effect."""
    if stated is None or config.windows == 1:
        return None
    blocks = tuple(sorted({block for block in stated if block < max(config.layers)}))
    return None if blocks == config.windowed_blocks else blocks


def _settings(config: DetectionConfig) -> dict[str, Any]:
    read = {
        "model_type": "rf_detr_dinov2",
        **dinov2_settings(config.backbone),
        "out_indices": list(config.layers),
        "out_features": [f"stage{layer}" for layer in config.layers],
        "num_windows": config.windows,
        "window_block_indexes": list(config.windowed_blocks),
        "apply_layernorm": True,
        "reshape_hidden_states": True,
        "use_mask_token": config.backbone.mask_token,
    }
    decoder, instances = config.decoder, config.instances
    masks = (
        {}
        if instances is None
        else {
            "intermediate_size": instances.hidden,
            "mask_downsample_ratio": instances.stride,
            "segmentation_head_activation_function": "gelu",
        }
    )
    return {
        **masks,
        "backbone_config": read,
        "d_model": decoder.dim,
        "hidden_expansion": config.narrow / decoder.dim,
        "c2f_num_blocks": config.bottlenecks,
        "activation_function": "silu",
        "decoder_activation_function": "relu",
        "decoder_layers": decoder.depth,
        "decoder_ffn_dim": decoder.hidden,
        "decoder_self_attention_heads": decoder.heads,
        "decoder_cross_attention_heads": decoder.sampling_heads,
        "decoder_n_points": decoder.points,
        "num_queries": config.queries,
        "group_detr": config.groups,
        "num_feature_levels": 1,
        "layer_norm_eps": config.projector_eps,
    }


RF_DETR = TransformersClass(
    "RfDetrForObjectDetection",
    "rf_detr",
    _settings,
    antialias=True,
    auto="AutoModelForObjectDetection",
    answers=("logits", "pred_boxes"),
    free=("window_block_indexes",),
    idle=(
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
    auto="AutoModelForInstanceSegmentation",
    answers=(*RF_DETR.answers, "pred_masks"),
)


DETECTION = on_backbone(
    config=DetectionConfig,
    network=_network,
    sizes=_sizes,
    free=lambda config: replace(config, classes=0, projector_eps=0.0),
    unsized=_unsized,
    settled=_settled,
    transformers=lambda config: RF_DETR_MASKS if config.instances else RF_DETR,
    classes=(RF_DETR, RF_DETR_MASKS),
)
