"""Architecture record of networks for depth estimation."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from zoo.architectures.architecture import (
    Architecture,
    CheckpointFacts,
    refuse_transformers,
)
from zoo.architectures.config_fields import Shapes, with_sizes
from zoo.architectures.config_settings import (
    Template,
    TransformersClass,
    with_settings,
    write_settings,
)
from zoo.architectures.depth.depth_config import DepthConfig
from zoo.architectures.vit.vit_settings import DINOV2_SETTINGS


def _network_class() -> Callable[..., Any]:
    """Return the class of the network. Its module, and with it JAX, is imported only now."""
    from zoo.architectures.depth.depth_network import DepthAnything

    return DepthAnything


def _sizes(config: DepthConfig, shapes: Shapes) -> DepthConfig | None:
    """Return the configuration with the sizes of a checkpoint; None if a leaf is missing, or if the
    head does not join exactly four maps."""
    sized = with_sizes(config, shapes)
    return sized if sized and len(sized.channels) == 4 else None


def _complete(config: DepthConfig, facts: CheckpointFacts) -> DepthConfig:
    """Return the configuration with the values that a checkpoint's settings state; unchanged if
    these do not describe a backbone.

    The largest depth `max_depth` is used only if the settings say that depths are in metres.
    Otherwise it is None.
    """
    settings = facts.settings
    if settings is None or settings.backbone_config is None:
        return config
    metres = settings.max_depth if settings.depth_estimation_type == "metric" else None
    return replace(with_settings(config, settings), max_depth=metres)


def _backbone_settings(config: DepthConfig) -> dict[str, Any]:
    """Return transformers' settings of the backbone, under the name of their section in
    `config.json`."""
    backbone = {
        "model_type": "dinov2",
        **write_settings(config.backbone, DINOV2_SETTINGS),
        "out_indices": list(config.layers),
        "out_features": [f"stage{layer}" for layer in config.layers],
        "apply_layernorm": True,
        "reshape_hidden_states": False,
    }
    return {"backbone_config": backbone}


SETTINGS: Template = (
    _backbone_settings,
    {
        "patch_size": lambda config: config.stride,
        "reassemble_hidden_size": lambda config: config.dim,
        "reassemble_factors": [4, 2, 1, 0.5],
    },
    *("neck_hidden_sizes", "fusion_hidden_size"),
    {"head_in_index": -1},
    "head_hidden_size",
    {"depth_estimation_type": lambda config: "metric" if config.max_depth else "relative"},
    "max_depth",
)

DEPTH_ANYTHING = TransformersClass(
    "DepthAnythingForDepthEstimation",
    "depth_anything",
    SETTINGS,
    auto_class="AutoModelForDepthEstimation",
    output_names=("predicted_depth",),
)


DEPTH = Architecture(
    config=DepthConfig,
    network=_network_class,
    read_sizes=_sizes,
    complete=_complete,
    transformers_class=lambda config: (
        DEPTH_ANYTHING if config.backbone.positions else refuse_transformers(config)
    ),
    transformers_classes=(DEPTH_ANYTHING,),
)
