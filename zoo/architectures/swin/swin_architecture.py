"""Architecture record of Swin V2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zoo.architectures.architecture import (
    CheckpointFacts,
    staged_architecture,
)
from zoo.architectures.config_fields import MAX_SIZE
from zoo.architectures.config_settings import (
    Template,
    TransformersClass,
    settings_section,
    with_settings,
)
from zoo.architectures.swin.swin_config import SwinConfig, TwoInts

if TYPE_CHECKING:
    from zoo.architectures.library_settings import Settings


def _network_class() -> Callable[..., Any]:
    """Return the class of the network. Its module, and with it JAX, is imported only now."""
    from zoo.architectures.swin.swin_network import SwinTransformer

    return SwinTransformer


def _complete(config: SwinConfig, facts: CheckpointFacts) -> SwinConfig:
    """Return the configuration with the values that a checkpoint's settings state, and with the
    scores that fit its classes.

    The windows of earlier training are used only if the settings have at least one for each stage.
    The size of the training pictures, in whole patches, determines `grid`, which is unchanged if
    the settings do not state the size.
    """
    result = replace(
        with_settings(config, facts.settings), scores=facts.choose_scores(config.classes)
    )
    if len(result.pretrained) < len(config.depths):
        result = replace(result, pretrained=config.pretrained)
    image = _training_image(settings_section(config, facts.settings)) if facts.settings else None
    if image is None:
        return result
    return replace(result, grid=(image[0] // config.patch_size, image[1] // config.patch_size))


def _training_image(settings: Settings) -> TwoInts | None:
    """Return (height, width) of the pictures of training; None if the settings do not state it, or
    not as one or two positive integers. One integer is the side of a square.

    It is transformers' setting `image_size`, or else timm's argument `image_size` or `img_size`, or
    else `input_size` of `pretrained_cfg`.
    """
    arguments = settings.model_args
    size = settings.get("image_size")
    size = arguments.get("image_size", arguments.get("img_size")) if size is None else size
    if size is None and settings.pretrained_cfg:
        size = settings.pretrained_cfg.input_size[1:]
    sides = (size, size) if type(size) is int else size
    if not isinstance(sides, list | tuple) or len(sides) != 2:
        return None
    is_valid = all(type(side) is int and 0 < side <= MAX_SIZE for side in sides)
    return (sides[0], sides[1]) if is_valid else None


def _image_size(config: SwinConfig) -> int | list[int]:
    """Return transformers' setting of the size of pictures: one number if they are square,
    otherwise [height, width]."""
    height, width = config.native_size
    return height if height == width else [height, width]


SETTINGS: Template = (
    *("embed_dim", "depths", "num_heads", "window_size", "pretrained_window_sizes", "mlp_ratio"),
    *("qkv_bias", "hidden_act", "layer_norm_eps", "patch_size"),
    {"image_size": _image_size, "use_absolute_embeddings": False},
)

FEATURES = TransformersClass("Swinv2Model", "swinv2", SETTINGS)
CLASSIFIER = TransformersClass("Swinv2ForImageClassification", "swinv2", SETTINGS)


SWIN = staged_architecture(
    config=SwinConfig,
    network=_network_class,
    complete=_complete,
    transformers_class=lambda config: CLASSIFIER if config.classes else FEATURES,
    transformers_classes=(FEATURES, CLASSIFIER),
)
