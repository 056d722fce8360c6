"""Record of ConvNeXts: what the zoo asks of this kind of network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from zoo.architectures.architecture import (
    CheckpointFacts,
    Shapes,
    TransformersClass,
    as_four,
    count_numbered,
    count_rows,
    staged_architecture,
    staged_with_head,
    told_of_blocks,
)
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.parts.layer_options import CALLED


def _network() -> Callable[..., Any]:
    from zoo.architectures.convnext.convnext_network import ConvNeXt

    return ConvNeXt


def _sizes(config: ConvNeXtConfig, shapes: Shapes) -> ConvNeXtConfig | None:
    stages = range(len(config.dims))
    dims = [count_rows(shapes, f"blocks.{stage}.downsample.conv.bias") for stage in stages]
    depths = [count_numbered(shapes, f"blocks.{stage}.blocks.{{}}.norm.weight") for stage in stages]
    if 0 in dims or 0 in depths:
        return None
    sized = replace(config, depths=as_four(depths), dims=as_four(dims))
    return staged_with_head(sized, shapes("head.weight"))


def _free(config: ConvNeXtConfig) -> ConvNeXtConfig:
    common = replace(config, classes=0, norm_eps=0.0, final_norm_eps=None)
    return replace(common, activation="gelu", scores="softmax")


def _settled(config: ConvNeXtConfig, beside: CheckpointFacts) -> ConvNeXtConfig:
    """Return the configuration with the values of the settings file.

    `layer_norm_eps` is the epsilon of all norms of `DINOv3ConvNextModel`. In transformers' other
    classes it is that of the norm behind the last stage alone.
    """
    settings = beside.settings.network if beside.settings else None
    blocks = told_of_blocks(settings, config.activation, config.norm_eps)
    scored = replace(config, scores=beside.scores(config.classes))
    if settings is not None and settings.model_type == DINOV3_CONVNEXT.model_type:
        return replace(scored, **blocks, final_norm_eps=None)
    eps = blocks.pop("norm_eps")
    last = None if eps == config.norm_eps else eps
    return replace(scored, **blocks, final_norm_eps=last)


def _dinov3_settings(config: ConvNeXtConfig) -> dict[str, Any]:
    return {
        "hidden_sizes": list(config.dims),
        "depths": list(config.depths),
        "hidden_act": "gelu",
        "image_size": 224,
        "layer_norm_eps": config.norm_eps,
        "layer_scale_init_value": config.layer_scale,
    }


def _convnext_settings(config: ConvNeXtConfig) -> dict[str, Any]:
    settings = _dinov3_settings(config)
    if config.response_norm:
        del settings["layer_scale_init_value"]
    return settings | {"layer_norm_eps": config.final_norm_eps or config.norm_eps}


DINOV3_CONVNEXT = TransformersClass("DINOv3ConvNextModel", "dinov3_convnext", _dinov3_settings)
CLASSIFIER = TransformersClass("ConvNextForImageClassification", "convnext", _convnext_settings)
CLASSIFIER_V2 = TransformersClass(
    "ConvNextV2ForImageClassification", "convnextv2", _convnext_settings
)


FEATURES = replace(CLASSIFIER, name="ConvNextModel")
FEATURES_V2 = replace(CLASSIFIER_V2, name="ConvNextV2Model")


def _class(config: ConvNeXtConfig) -> TransformersClass:
    if config.response_norm:
        return CLASSIFIER_V2 if config.classes else FEATURES_V2
    if config.classes:
        return CLASSIFIER
    # Its classes alone have another epsilon behind the stages.
    return DINOV3_CONVNEXT if config.final_norm_eps is None else FEATURES


def _equimo(config: ConvNeXtConfig) -> dict[str, Any]:
    return {
        "in_channels": 3,
        "depths": list(config.depths),
        "dims": list(config.dims),
        "layer_scale_init_value": config.layer_scale,
        "act_layer": CALLED[config.activation].equimo,
        "num_classes": config.classes,
        "eps": config.norm_eps,
    }


CONVNEXT = staged_architecture(
    config=ConvNeXtConfig,
    network=_network,
    sizes=_sizes,
    free=_free,
    unsized=lambda config: replace(config, depths=(0, 0, 0, 0), dims=(0, 0, 0, 0)),
    settled=_settled,
    transformers=_class,
    classes=(DINOV3_CONVNEXT, FEATURES, FEATURES_V2, CLASSIFIER, CLASSIFIER_V2),
    equimo=_equimo,
)
