"""Architecture record of ConvNeXts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from zoo.architectures.architecture import (
    CheckpointFacts,
    staged_architecture,
)
from zoo.architectures.config_fields import Shapes, with_sizes
from zoo.architectures.config_settings import (
    Template,
    TransformersClass,
    settings_section,
    with_settings,
)
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig


def _network_class() -> Callable[..., Any]:
    """Return the class of the network. Its module, and with it JAX, is imported only now."""
    from zoo.architectures.convnext.convnext_network import ConvNeXt

    return ConvNeXt


def _sizes(config: ConvNeXtConfig, shapes: Shapes) -> ConvNeXtConfig | None:
    """Return the configuration with the sizes of a checkpoint; None if a leaf is missing, or if the
    checkpoint does not have four stages."""
    sized = with_sizes(config, shapes)
    return sized if sized and len(sized.dims) == len(sized.depths) == 4 else None


def _complete(config: ConvNeXtConfig, facts: CheckpointFacts) -> ConvNeXtConfig:
    """Return the configuration with the values that a checkpoint's settings state, and with the
    scores that fit its classes.

    `layer_norm_eps` is the epsilon of all norms of `DINOv3ConvNextModel`. In transformers' other
    classes it is the epsilon of the norm after the last stage only. If there are settings that do
    not state it, all norms have `config.norm_eps`.
    """
    result = with_settings(config, facts.settings)
    result = replace(result, scores=facts.choose_scores(config.classes))
    settings = settings_section(config, facts.settings) if facts.settings else None
    if settings is None:
        return result
    eps = settings.layer_norm_eps or config.norm_eps
    if settings.model_type == DINOV3_CONVNEXT.model_type:
        return replace(result, norm_eps=eps, final_norm_eps=None)
    return replace(result, final_norm_eps=None if eps == config.norm_eps else eps)


DINOV3_SETTINGS: Template = (
    *("hidden_sizes", "depths", "hidden_act"),
    {
        "image_size": 224,
        "layer_norm_eps": lambda config: config.norm_eps,
        "layer_scale_init_value": lambda config: config.layer_scale,
    },
)


def _last_eps(config: ConvNeXtConfig) -> dict[str, Any]:
    """Return the setting `layer_norm_eps` of transformers' other classes: the epsilon of the last
    norm."""
    return {"layer_norm_eps": config.final_norm_eps or config.norm_eps}


SETTINGS: Template = (*DINOV3_SETTINGS, _last_eps)
SETTINGS_V2: Template = (
    *("hidden_sizes", "depths", "hidden_act"),
    {"image_size": 224},
    _last_eps,
)

DINOV3_CONVNEXT = TransformersClass("DINOv3ConvNextModel", "dinov3_convnext", DINOV3_SETTINGS)
CLASSIFIER = TransformersClass("ConvNextForImageClassification", "convnext", SETTINGS)
CLASSIFIER_V2 = TransformersClass("ConvNextV2ForImageClassification", "convnextv2", SETTINGS_V2)


FEATURES = replace(CLASSIFIER, name="ConvNextModel")
FEATURES_V2 = replace(CLASSIFIER_V2, name="ConvNextV2Model")


def _transformers_class(config: ConvNeXtConfig) -> TransformersClass:
    """Return the transformers class that computes a network: one for the second version if it has a
    response norm, and a classifier if it has classes. A first version without classes is DINOv3's
    class, unless the last norm has an epsilon of its own."""
    if config.response_norm:
        return CLASSIFIER_V2 if config.classes else FEATURES_V2
    if config.classes:
        return CLASSIFIER
    # DINOv3's class has no separate epsilon of the last norm.
    return DINOV3_CONVNEXT if config.final_norm_eps is None else FEATURES


EQUIMO_SETTINGS: Template = (
    {"in_channels": 3},
    *("depths", "dims"),
    {"layer_scale_init_value": lambda config: config.layer_scale},
    *("act_layer", "num_classes", "eps"),
)


CONVNEXT = staged_architecture(
    config=ConvNeXtConfig,
    network=_network_class,
    read_sizes=_sizes,
    complete=_complete,
    transformers_class=_transformers_class,
    transformers_classes=(DINOV3_CONVNEXT, FEATURES, FEATURES_V2, CLASSIFIER, CLASSIFIER_V2),
    equimo_settings=EQUIMO_SETTINGS,
)
