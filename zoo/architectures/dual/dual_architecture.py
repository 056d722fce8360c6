"""Architecture records of transformers for texts and of dual encoders."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from zoo.architectures.architecture import (
    Architecture,
    CheckpointFacts,
)
from zoo.architectures.common_config import THREE_CHANNELS
from zoo.architectures.config_settings import (
    Template,
    TransformersClass,
    settings_section,
    with_settings,
)
from zoo.architectures.dual.dual_config import DualConfig, TextConfig
from zoo.architectures.vit.vit_settings import CLIP, SIGLIP, TIPS
from zoo.common.errors import BadRequest


def _text_network_class() -> Callable[..., Any]:
    """Return the class of the network for texts. Its module, and with it JAX, is imported only
    now."""
    from zoo.architectures.dual.dual_network import TextTransformer

    return TextTransformer


def _complete(config: TextConfig, facts: CheckpointFacts) -> TextConfig:
    """Return the configuration with the values that settings state, and with the id `end` of the
    token that ends a text, as in `_end`."""
    return replace(with_settings(config, facts.settings), end=_end(config, facts))


def _end(config: TextConfig, facts: CheckpointFacts) -> int | None:
    """Return the id of the token that ends a text; None if it is the greatest id in the text.

    If the network does not pool at that token, or if the tensors do not have transformers' names,
    or without settings, the result is `config.end`. Otherwise the settings' `eos_token_id` decides.
    The result is None if they do not state one id, or state the last one of the vocabulary, or 2:
    older settings have 2, which transformers treats as the greatest id.
    """
    if config.pool != "end" or facts.transformers_settings is None:
        return config.end
    end = settings_section(config, facts.transformers_settings).eos_token_id
    return end if isinstance(end, int) and end not in (2, config.vocabulary - 1) else None


TEXT_SETTINGS: Template = (
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("hidden_act", "layer_norm_eps", "vocab_size", "max_position_embeddings"),
    {"pad_token_id": 0},
)
"""Settings of all classes of networks for texts."""

SIGLIP_TEXT_SETTINGS: Template = (
    *TEXT_SETTINGS,
    {"projection_size": lambda config: config.projection},
    {"eos_token_id": 1, "bos_token_id": 2},  # Gemma's
)

TIPS_TEXT_SETTINGS: Template = (*TEXT_SETTINGS, {"scale_sqrt_depth": True})


def _clip_text_settings(config: TextConfig) -> dict[str, Any]:
    """Return the settings that only CLIP's classes for texts have: the ids of the tokens that
    begin, end and pad a text, and the width of the projection if there is one."""
    end = config.vocabulary - 1 if config.end is None else config.end
    projection = {"projection_dim": config.projection} if config.projection else {}
    return projection | {"eos_token_id": end, "bos_token_id": end - 1, "pad_token_id": end}


CLIP_TEXT_SETTINGS: Template = (*TEXT_SETTINGS, _clip_text_settings)

SIGLIP_TEXT = TransformersClass("SiglipTextModel", "siglip_text_model", SIGLIP_TEXT_SETTINGS)
TIPS_TEXT = TransformersClass("Tipsv2TextModel", "tipsv2_text_model", TIPS_TEXT_SETTINGS)
CLIP_TEXT = TransformersClass(
    "CLIPTextModelWithProjection",
    "clip_text_model",
    CLIP_TEXT_SETTINGS,
    auto_class="CLIPTextModelWithProjection",
    output_names=("last_hidden_state", "text_embeds"),
)
CLIP_BARE_TEXT = TransformersClass("CLIPTextModel", "clip_text_model", CLIP_TEXT_SETTINGS)


def _check_pool(config: TextConfig) -> None:
    """Raise `BadRequest` if the network takes the vector of the token with the greatest number, as
    dino.txt does. transformers has no class for it."""
    if config.pool == "greatest":
        raise BadRequest("transformers has no class for dino.txt: write another format.")


def _text_class(config: TextConfig) -> TransformersClass:
    """Return the transformers class that computes a network for texts. **Raises** `BadRequest` for
    dino.txt, which transformers does not have."""
    _check_pool(config)
    if config.pool == "end" and config.projection is None:
        return CLIP_BARE_TEXT
    return {"mean": TIPS_TEXT, "end": CLIP_TEXT, "last": SIGLIP_TEXT}[config.pool]


TEXT = Architecture(
    config=TextConfig,
    network=_text_network_class,
    complete=_complete,
    transformers_class=_text_class,
    transformers_classes=(SIGLIP_TEXT, TIPS_TEXT, CLIP_TEXT, CLIP_BARE_TEXT),
)


def _dual_network_class() -> Callable[..., Any]:
    """Return the class of the dual encoder. Its module, and with it JAX, is imported only now."""
    from zoo.architectures.dual.dual_network import DualEncoder

    return DualEncoder


def _dual_settings(
    vision: TransformersClass, words: TransformersClass
) -> Callable[[DualConfig], dict[str, Any]]:
    """Return a function that returns the settings of a dual encoder: one section for each network,
    in the format of its class.

    `vision` and `words` are the transformers classes of the network for pictures and of that for
    texts.
    """

    def write_both(config: DualConfig) -> dict[str, Any]:
        pictures = {**THREE_CHANNELS, **vision.settings(config.vision)}
        return {
            "text_config": {"model_type": words.model_type, **words.settings(config.words)},
            "vision_config": {"model_type": vision.model_type, **pictures},
        }

    return write_both


def _clip_dual_settings(config: DualConfig) -> dict[str, Any]:
    """Return the settings of CLIP's dual encoder: those of both networks, and the width of the
    common space."""
    return {"projection_dim": config.dim, **_dual_settings(CLIP, CLIP_TEXT)(config)}


SIGLIP_DUAL = TransformersClass(
    "SiglipModel", "siglip", (_dual_settings(SIGLIP, SIGLIP_TEXT),), interpolates_on_request=True
)
TIPS_DUAL = TransformersClass(
    "Tipsv2Model", "tipsv2", (_dual_settings(TIPS, TIPS_TEXT),), antialias=True
)
CLIP_DUAL = TransformersClass(
    "CLIPModel", "clip", (_clip_dual_settings,), interpolates_on_request=True
)


def _dual_class(config: DualConfig) -> TransformersClass:
    """Return the transformers class that computes a dual encoder. **Raises** `BadRequest` for
    dino.txt, which transformers does not have."""
    _check_pool(config.words)
    return {"mean": TIPS_DUAL, "end": CLIP_DUAL, "last": SIGLIP_DUAL}[config.words.pool]


DUAL = Architecture(
    config=DualConfig,
    network=_dual_network_class,
    transformers_class=_dual_class,
    transformers_classes=(SIGLIP_DUAL, TIPS_DUAL, CLIP_DUAL),
)
