"""Record of networks for depth: what the zoo asks of this kind of network."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from zoo.architectures.architecture import (
    Architecture,
    CheckpointFacts,
    GivenOutput,
    Thumbnail,
    no_class,
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
from zoo.tasks.answer import Outputs, PictureAnswer, Question, Size, features
from zoo.tasks.maps import depth_map, draw_depth, ramp


def _network() -> Callable[..., Any]:
    from zoo.architectures.depth.depth_network import DepthAnything

    return DepthAnything


def _sizes(config: DepthConfig, shapes: Shapes) -> DepthConfig | None:
    """Read the sizes of four maps, which all these networks have."""
    sized = with_sizes(config, shapes)
    return sized if sized and len(sized.channels) == 4 else None


def _complete(config: DepthConfig, beside: CheckpointFacts) -> DepthConfig:
    """Complete the configuration; one setting has the largest depth, another whether there is
    one."""
    settings = beside.settings
    if settings is None or settings.backbone_config is None:
        return config
    metres = settings.max_depth if settings.depth_estimation_type == "metric" else None
    return replace(with_settings(config, settings), max_depth=metres)


def _backbone(config: DepthConfig) -> dict[str, Any]:
    read = {
        "model_type": "dinov2",
        **write_settings(config.backbone, DINOV2_SETTINGS),
        "out_indices": list(config.layers),
        "out_features": [f"stage{layer}" for layer in config.layers],
        "apply_layernorm": True,
        "reshape_hidden_states": False,
    }
    return {"backbone_config": read}


SETTINGS: Template = (
    _backbone,
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
    auto="AutoModelForDepthEstimation",
    answers=("predicted_depth",),
)


def _purpose(config: DepthConfig) -> str:
    near, unit = "near", "without a unit"
    if config.max_depth:
        near, unit = "far away", f"in metres up to {config.max_depth:g}"
    return f"Says how {near} everything in a picture is, pixel by pixel, {unit}."


def _answer(config: DepthConfig, outputs: Outputs, question: Question) -> PictureAnswer:
    if "predicted_depth" not in outputs:
        return features(outputs)
    depth = depth_map(outputs["predicted_depth"], question.size)
    return PictureAnswer("depth", drawing=draw_depth(depth), values=depth)


def _thumbnail(config: DepthConfig, outputs: Outputs, size: Size) -> Thumbnail | None:
    if (depth := outputs.get("predicted_depth")) is None:
        return None
    return ramp(depth[0]), "How near everything in the photograph of a cat is"


def _outputs(config: DepthConfig, pooler: str) -> dict[str, GivenOutput]:
    unit = "larger the nearer it is, without a unit"
    if config.max_depth:
        unit = f"in metres, at most {config.max_depth:g}"
    words = f"how far away every pixel is, {unit}"
    return {"predicted_depth": GivenOutput("[batch_size, height, width]", words)}


DEPTH = Architecture(
    config=DepthConfig,
    network=_network,
    purpose=_purpose,
    sizes=_sizes,
    complete=_complete,
    transformers=lambda config: DEPTH_ANYTHING if config.backbone.positions else no_class(config),
    classes=(DEPTH_ANYTHING,),
    outputs=_outputs,
    answer=_answer,
    thumbnail=_thumbnail,
    page_draws=lambda config: {"predicted_depth"},
)
