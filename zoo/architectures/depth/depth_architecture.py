"""Record of networks for depth: what the zoo asks of this kind of network."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from zoo.architectures.architecture import (
    CheckpointFacts,
    Shapes,
    TransformersClass,
    as_four,
    count_rows,
    no_class,
    on_backbone,
)
from zoo.architectures.depth.depth_config import DepthConfig
from zoo.architectures.vit.vit_settings import dinov2_settings


def _network() -> Callable[..., Any]:
    from zoo.architectures.depth.depth_network import DepthAnything

    return DepthAnything


def _sizes(config: DepthConfig, shapes: Shapes) -> DepthConfig | None:
    channels = [count_rows(shapes, f"decoder.convs.{i}.weight", axis=1) for i in range(4)]
    fused, hidden = (
        count_rows(shapes, f"decoder.{conv}.weight", axis=1) for conv in ("conv1", "conv3")
    )
    if 0 in (*channels, fused, hidden):
        return None
    return replace(config, channels=as_four(channels), fused=fused, hidden=hidden)


def _unsized(config: DepthConfig) -> DepthConfig:
    none = (0, 0, 0, 0)
    return replace(config, layers=none, channels=none, fused=0, hidden=0, max_depth=None)


def _settled(config: DepthConfig, beside: CheckpointFacts) -> DepthConfig:
    """With the layers that are read, and the unit."""
    settings = beside.settings
    if settings is None or settings.backbone_config is None:
        return config
    read = settings.backbone_config.out_indices
    layers = (read[0], read[1], read[2], read[3]) if len(read) == 4 else config.layers
    metres = settings.max_depth if settings.depth_estimation_type == "metric" else None
    return replace(config, layers=layers, max_depth=metres)


def _settings(config: DepthConfig) -> dict[str, Any]:
    read = {
        "model_type": "dinov2",
        **dinov2_settings(config.backbone),
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


DEPTH_ANYTHING = TransformersClass(
    "DepthAnythingForDepthEstimation",
    "depth_anything",
    _settings,
    auto="AutoModelForDepthEstimation",
    answers=("predicted_depth",),
)


DEPTH = on_backbone(
    config=DepthConfig,
    network=_network,
    sizes=_sizes,
    unsized=_unsized,
    settled=_settled,
    transformers=lambda config: DEPTH_ANYTHING if config.backbone.positions else no_class(config),
    classes=(DEPTH_ANYTHING,),
)
