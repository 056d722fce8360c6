"""transformers' settings (5.23): which of its classes computes a network, and with what."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from zoo.architectures.config import Config, scores_of
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.depth.depth_config import DepthConfig
from zoo.architectures.dual.dual_config import DualConfig
from zoo.architectures.masks.mask_config import MaskConfig
from zoo.architectures.parts.position_config import LearnedPositions, RopePeriods
from zoo.architectures.segmenter.segmenter_config import SegmenterConfig
from zoo.architectures.text.text_config import TextConfig
from zoo.architectures.vit.backbone_config import OnBackbone
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.checkpoints.settings.transformers_kinds import (
    CONVNEXT,
    CONVNEXT_V2,
    DEPTH,
    DINOV2,
    DINOV2_CLASSIFIER,
    DINOV2_WITH_REGISTERS,
    DINOV2_WITH_REGISTERS_CLASSIFIER,
    DINOV3,
    DINOV3_CONVNEXT,
    EOMT,
    PICTURES,
    SIGLIP,
    SIGLIP_CLASSIFIER,
    SIGLIP_DUAL,
    SIGLIP_TEXT,
    TIPS,
    TIPS_DUAL,
    TIPS_TEXT,
    VIT,
    VIT_FEATURES,
    Kind,
)
from zoo.errors import BadRequest

PROBLEMS = {"sigmoid": "multi_label_classification", "none": "regression"}
"""transformers' words for what makes answers of logits, where that is no softmax."""


def transformers_config(
    config: Config, names: Sequence[str], key_bias: bool, size: tuple[int, int] = (224, 224)
) -> dict[str, Any]:
    """`config.json` of the class that computes a network. **Raises** `BadRequest`: there is none.

    `names` are those of the zoo's classes, `key_bias` is whether the keys have a bias, which
    only DINOv3's classes ask, and `size` that of pictures, which only EoMT's class asks: it takes
    squares.
    """
    kind = transformers_kind(config)
    named = {"architectures": [kind.name], "model_type": kind.model_type, "dtype": "float32"}
    network = (PICTURES if config.takes == ("pixel_values",) else {}) | kind.settings(config)
    settings = {kind.nested: network} if kind.nested else network
    settings = named | settings | labels(config.classes, names)
    if (problem := PROBLEMS.get(scores_of(config))) is not None:
        settings["problem_type"] = problem
    if kind is EOMT:
        settings["image_size"] = max(size)
    return settings | ({"key_bias": key_bias} if kind in (DINOV3, EOMT) else {})


def portable_config(
    config: Config, names: Sequence[str], family: str, size: tuple[int, int] = (224, 224)
) -> dict[str, Any]:
    """`config.json` beside an ONNX file: of transformers' class, or of its class for the features
    below a classifier, or at least with its words."""
    for network in (config, below(config)):
        with suppress(BadRequest):
            told = transformers_config(network, names, key_bias=False, size=size)
            return told | labels(config.classes, names)
    # Nobody has a class for it, but clients of ONNX files ask for little more than a name.
    return {
        "model_type": family,
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "patch_size": config.stride,
        "num_channels": 3,
        **labels(config.classes, names),
    }


def below(config: Config) -> Config:
    """A network without what makes its features answers."""
    if isinstance(config, OnBackbone):
        return config.backbone
    if isinstance(config, ViTConfig):
        return replace(config, classes=0, head_tokens=None)
    return replace(config, classes=0) if isinstance(config, ConvNeXtConfig) else config


def labels(count: int, names: Sequence[str]) -> dict[str, Any]:
    """What the classes of a classifier are called: by number, where the names are of others."""
    if not count:
        return {}
    known = names if len(names) == count else [f"LABEL_{number}" for number in range(count)]
    return {
        "id2label": {str(number): name for number, name in enumerate(known)},
        "label2id": {name: number for number, name in enumerate(known)},
    }


def transformers_kind(config: Config) -> Kind:
    """The class that computes a network. **Raises** `BadRequest` if there is none."""
    if isinstance(config, DepthConfig) and config.backbone.positions is not None:
        return DEPTH
    if isinstance(config, TextConfig | DualConfig):
        return _words_kind(config)
    if isinstance(config, MaskConfig):
        return EOMT
    if isinstance(config, ConvNeXtConfig):
        if config.response_norm:
            return CONVNEXT_V2
        return CONVNEXT if config.classes else DINOV3_CONVNEXT
    if isinstance(config, SegmenterConfig | DepthConfig):
        raise BadRequest(
            "transformers has no class for a classifier of DINOv2's patches, nor for depths on "
            "another network than DINOv2: write another format."
        )
    if isinstance(config.rope, RopePeriods) and not config.classes:
        return DINOV3
    learned = isinstance(config.positions, LearnedPositions) and config.rope is None
    if config.positions and config.positions.linear and not config.classes:
        return TIPS
    if learned and config.mask_token and config.pool == "token":
        if not config.classes:
            return DINOV2_WITH_REGISTERS if config.registers else DINOV2
        if config.head_tokens == 1:
            return DINOV2_WITH_REGISTERS_CLASSIFIER if config.registers else DINOV2_CLASSIFIER
    elif learned and config.pool == "attention":
        if not config.classes:
            return SIGLIP
        if config.head_tokens == 0:
            return SIGLIP_CLASSIFIER
    elif learned and config.pool == "token":
        return VIT if config.classes else VIT_FEATURES
    raise BadRequest(
        "transformers has no class for this network (ViT-5, a classifier of another vector than "
        "its classes', SigLIP 2 without its head): write another format."
    )


def _words_kind(config: TextConfig | DualConfig) -> Kind:
    """The class of a network that takes texts."""
    pool = config.words.pool
    if pool == "greatest":
        raise BadRequest("transformers has no class for dino.txt: write another format.")
    if isinstance(config, TextConfig):
        return TIPS_TEXT if pool == "mean" else SIGLIP_TEXT
    return TIPS_DUAL if pool == "mean" else SIGLIP_DUAL
