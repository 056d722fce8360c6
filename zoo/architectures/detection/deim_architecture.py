"""Record of DEIMv2: what the zoo asks of this kind of network."""

from collections.abc import Callable
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
from zoo.architectures.detection.detection_config import DeimConfig, FinderConfig, PyramidConfig
from zoo.architectures.vit.vit_settings import dinov3_settings


def _network() -> Callable[..., Any]:
    from zoo.architectures.detection.deim_network import Deim

    return Deim


def _sizes(config: DeimConfig, shapes: Shapes) -> DeimConfig | None:
    edges = shapes("box_heads.0.layers.2.weight")
    quality, best = shapes("quality.0.layers.0.weight") or (0, 0)
    classes, width = shapes("proposal_classes.weight") or (0, 0)
    looks = count_rows(shapes, "blocks.0.cross.weights.weight")
    if not (edges and classes and best and looks):
        return None
    usual = config.finder
    scaled = max(1, looks // (usual.heads * sum(usual.points)))
    pyramid = PyramidConfig(
        depth=count_numbered(shapes, "pyramid.blocks.{}.norm1.weight"),
        heads=config.pyramid.heads,
        hidden=count_rows(shapes, "pyramid.blocks.0.mlp.fc1.weight"),
        narrow=count_rows(shapes, f"{BRANCH}.conv1.conv.weight".format(0)),
        bottlenecks=count_numbered(shapes, f"{BRANCH}.conv1.conv.weight"),
    )
    finder = FinderConfig(
        depth=count_numbered(shapes, "blocks.{}.norm1.weight"),
        heads=usual.heads * scaled,
        hidden=count_rows(shapes, "blocks.0.mlp.w1.weight"),
        points=usual.points,
        bins=edges[0] // 4 - 1,
        top_k=best // 4 - 1,
        quality=quality,
    )
    planes = count_rows(shapes, "adapter.stem.conv.weight")
    return replace(
        config, width=width, planes=planes, pyramid=pyramid, finder=finder, classes=classes
    )


BRANCH = "pyramid.joins.0.branch1.bottlenecks.{}"


def _unsized(config: DeimConfig) -> DeimConfig:
    return replace(
        config,
        width=0,
        planes=0,
        layers=(),
        pyramid=PyramidConfig(0, 0, 0, 0, 0),
        finder=FinderConfig(0, 0, 0, (), 0, 0, 0),
        queries=0,
        classes=0,
    )


def _settled(config: DeimConfig, beside: CheckpointFacts) -> DeimConfig:
    """With the layers that are read, heads, points and queries."""
    if beside.settings is None or beside.settings.backbone_config is None:
        return config
    from zoo.architectures.detection.detection_settings import DeimSettings
    from zoo.architectures.library_settings import own_settings

    told = own_settings(beside.settings, DeimSettings)
    points, read = told.decoder_n_points, told.backbone_config
    points = (points,) * len(config.layers) if isinstance(points, int) else points
    return replace(
        config,
        queries=told.num_queries,
        layers=read.out_indices or config.layers,
        pyramid=replace(config.pyramid, heads=told.encoder_attention_heads),
        finder=replace(config.finder, heads=told.decoder_attention_heads, points=points),
        normed=read.apply_layernorm,
        placed=told.eval_size is None,
    )


def _settings(config: DeimConfig) -> dict[str, Any]:
    read = {
        "model_type": "dinov3_vit",
        **dinov3_settings(config.backbone),
        "out_indices": list(config.layers),
        "out_features": [f"stage{layer}" for layer in config.layers],
        "apply_layernorm": config.normed,
        "reshape_hidden_states": True,
    }
    pyramid, finder, width = config.pyramid, config.finder, [config.width] * len(config.layers)
    return {
        "backbone_config": read,
        "encoder_type": "hybrid",
        "encoder_hidden_dim": config.width,
        "encoder_in_channels": width,
        "encoder_layers": pyramid.depth,
        "encoder_ffn_dim": pyramid.hidden,
        "encoder_attention_heads": pyramid.heads,
        "encoder_activation_function": "gelu",
        "encoder_fuse_op": "sum",
        "encode_proj_layers": [2],
        "encoder_has_trailing_conv": False,
        "normalize_before": False,
        "positional_encoding_temperature": 10000,
        "activation_function": "silu",
        # It is multiplied by the width, halved and rounded down.
        "hidden_expansion": (2 * pyramid.narrow + 0.5) / config.width,
        "depth_mult": pyramid.bottlenecks / 3,
        "spatial_tuning_adapter_inplanes": config.planes,
        "d_model": config.width,
        "decoder_in_channels": width,
        "decoder_layers": finder.depth,
        "decoder_attention_heads": finder.heads,
        "decoder_ffn_dim": 2 * finder.hidden,
        "decoder_n_points": list(finder.points),
        "decoder_activation_function": "silu",
        "decoder_offset_scale": 0.5,
        "decoder_method": "default",
        "num_feature_levels": len(config.layers),
        "num_queries": config.queries,
        "max_num_bins": finder.bins,
        "top_prob_values": finder.top_k,
        "lqe_hidden_dim": finder.quality,
        "lqe_layers": 2,
        "layer_norm_eps": 1e-5,
        "batch_norm_eps": 1e-5,
        "layer_scale": 1.0,
        "eval_idx": -1,
        "eval_size": None if config.placed else [640, 640],
        "anchor_image_size": None,
        "learn_initial_query": False,
        "share_bbox_head": False,
        "use_gateway": True,
    }


DEIMV2 = TransformersClass(
    "Deimv2ForObjectDetection",
    "deimv2",
    _settings,
    auto="AutoModelForObjectDetection",
    answers=("logits", "pred_boxes"),
    free=("hidden_expansion", "depth_mult", "eval_size", "decoder_n_points"),
    idle=(
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

DEIM = on_backbone(
    config=DeimConfig,
    network=_network,
    sizes=_sizes,
    free=lambda config: replace(config, classes=0, placed=True, normed=True),
    unsized=_unsized,
    settled=_settled,
    transformers=lambda config: DEIMV2,
    classes=(DEIMV2,),
)
