"""Record of dual encoders: what the zoo asks of this kind of network."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from zoo.architectures.architecture import Architecture, GivenOutput, TransformersClass, unchanged
from zoo.architectures.common_config import THREE_CHANNELS
from zoo.architectures.dual.dual_config import DualConfig
from zoo.architectures.text.text_architecture import CLIP_TEXT, SIGLIP_TEXT, TIPS_TEXT, check_pool
from zoo.architectures.vit.vit_settings import CLIP, SIGLIP, TIPS


def _network() -> Callable[..., Any]:
    from zoo.architectures.dual.dual_network import DualEncoder

    return DualEncoder


def _settings(
    vision: TransformersClass, words: TransformersClass
) -> Callable[[DualConfig], dict[str, Any]]:
    """Those of both towers, as their own classes have them."""

    def of_both(config: DualConfig) -> dict[str, Any]:
        pictures = {**THREE_CHANNELS, **vision.settings(config.vision)}
        return {
            "text_config": {"model_type": words.model_type, **words.settings(config.words)},
            "vision_config": {"model_type": vision.model_type, **pictures},
        }

    return of_both


def _clip_settings(config: DualConfig) -> dict[str, Any]:
    return {"projection_dim": config.dim, **_settings(CLIP, CLIP_TEXT)(config)}


SIGLIP_DUAL = TransformersClass("SiglipModel", "siglip", _settings(SIGLIP, SIGLIP_TEXT), asks=True)
TIPS_DUAL = TransformersClass("Tipsv2Model", "tipsv2", _settings(TIPS, TIPS_TEXT), antialias=True)
CLIP_DUAL = TransformersClass("CLIPModel", "clip", _clip_settings, asks=True)


def _class(config: DualConfig) -> TransformersClass:
    check_pool(config.words)
    return {"mean": TIPS_DUAL, "end": CLIP_DUAL, "last": SIGLIP_DUAL}[config.words.pool]


def _similarity(config: DualConfig, leaves: Mapping[str, Any]) -> tuple[float, float]:
    if config.temperature:
        scale = 1 / float(leaves["temperature"])
    else:
        scale = math.exp(leaves["logit_scale"][0])
    return scale, float(leaves["logit_bias"][0]) if config.bias else 0.0


PURPOSE = "Says which of some sentences are about a picture, whatever the sentences are."


def _outputs(config: DualConfig, pooler: str) -> dict[str, GivenOutput]:
    fit = "for each picture and each sentence how well they fit"
    unit = "the vectors, at length 1"
    return {
        "logits_per_image": GivenOutput("[image_batch_size, text_batch_size]", fit),
        "text_embeds": GivenOutput(f"[text_batch_size, {config.dim}]", unit),
        "image_embeds": GivenOutput(f"[image_batch_size, {config.dim}]", unit),
    }


DUAL = Architecture(
    config=DualConfig,
    network=_network,
    outputs=_outputs,
    purpose=lambda config: PURPOSE,
    parts=("vision", "words"),
    towers={"text": "words", "vision": "vision"},
    similarity=_similarity,
    sizes=unchanged,
    transformers=_class,
    classes=(SIGLIP_DUAL, TIPS_DUAL, CLIP_DUAL),
    page_draws=lambda config: {"logits_per_image"},
)
