"""Records of transformers for texts and of dual encoders: what the zoo asks of these kinds."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from weights.initializers import Shape
from zoo.architectures.architecture import (
    Architecture,
    CheckpointFacts,
    Shapes,
    TransformersClass,
    channels_between,
    count_numbered,
    count_rows,
    told_of_blocks,
    unchanged,
)
from zoo.architectures.common_config import THREE_CHANNELS
from zoo.architectures.dual.dual_config import DualConfig, TextConfig
from zoo.architectures.parts.layer_options import CALLED
from zoo.architectures.vit.vit_settings import CLIP, SIGLIP, TIPS
from zoo.common.errors import BadRequest


def _text_network() -> Callable[..., Any]:
    from zoo.architectures.dual.dual_network import TextTransformer

    return TextTransformer


def _sizes(config: TextConfig, shapes: Shapes) -> TextConfig | None:
    words, hidden = shapes("token_embed.weight") or (), channels_between(shapes, "fc1", "fc2", 1)
    # Sinusoids are no leaves.
    tokens = count_rows(shapes, "pos_embed") if config.positions == "learned" else config.tokens
    if len(words) != 2 or not tokens or not hidden:
        return None
    return replace(
        config,
        dim=words[1],
        depth=count_numbered(shapes, "blocks.{}.prenorm.weight"),
        hidden=hidden,
        projection=_projection(config, count_rows(shapes, "head.weight")),
        vocabulary=words[0],
        tokens=tokens,
    )


def _landmarks(config: TextConfig) -> dict[str, Shape]:
    return {
        "norm.weight": (config.dim,),
        "token_embed.weight": (config.vocabulary, config.dim),
        f"blocks.{config.depth - 1}.norm.weight": (config.dim,),
    }


def _unsized(config: TextConfig) -> TextConfig:
    sizes = replace(config, dim=0, depth=0, heads=0, hidden=0, vocabulary=0, tokens=0)
    return replace(sizes, projection=_projection(config, 0))


def _projection(config: TextConfig, channels: int) -> int | None:
    """The channels of the last layer, which CLIP's networks may be without."""
    return (
        None if config.projection is None or (config.pool == "end" and not channels) else channels
    )


def _settled(config: TextConfig, beside: CheckpointFacts) -> TextConfig:
    settings = beside.settings.words if beside.settings else None
    heads = (settings and settings.heads) or config.heads
    blocks = told_of_blocks(settings, config.activation, config.norm_eps)
    return replace(config, **blocks, heads=heads, end=_end(config, beside))


def _end(config: TextConfig, beside: CheckpointFacts) -> int | None:
    """The word that ends a text, where transformers is told another than the last of all. It was
    once told 2, which stands for the greatest."""
    if config.pool != "end" or beside.of_transformers is None:
        return config.end
    end = beside.of_transformers.words.eos_token_id
    return end if isinstance(end, int) and end not in (2, config.vocabulary - 1) else None


def _words(config: TextConfig) -> dict[str, Any]:
    """What all classes of networks for texts ask."""
    return {
        "hidden_size": config.dim,
        "num_hidden_layers": config.depth,
        "num_attention_heads": config.heads,
        "intermediate_size": config.hidden,
        "hidden_act": CALLED[config.activation].transformers[0],
        "layer_norm_eps": config.norm_eps,
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.tokens,
        "pad_token_id": 0,
    }


def siglip_text_settings(config: TextConfig) -> dict[str, Any]:
    return _words(config) | {
        "projection_size": config.projection,
        # Gemma's.
        **{"eos_token_id": 1, "bos_token_id": 2},
    }


def tips_text_settings(config: TextConfig) -> dict[str, Any]:
    return _words(config) | {"scale_sqrt_depth": True}


def clip_text_settings(config: TextConfig) -> dict[str, Any]:
    end = config.vocabulary - 1 if config.end is None else config.end
    return _words(config) | {
        **({"projection_dim": config.projection} if config.projection else {}),
        **{"eos_token_id": end, "bos_token_id": end - 1, "pad_token_id": end},
    }


SIGLIP_TEXT = TransformersClass("SiglipTextModel", "siglip_text_model", siglip_text_settings)
TIPS_TEXT = TransformersClass("Tipsv2TextModel", "tipsv2_text_model", tips_text_settings)
CLIP_TEXT = TransformersClass(
    "CLIPTextModelWithProjection",
    "clip_text_model",
    clip_text_settings,
    auto="CLIPTextModelWithProjection",
    answers=("last_hidden_state", "text_embeds"),
)
CLIP_BARE_TEXT = TransformersClass("CLIPTextModel", "clip_text_model", clip_text_settings)


def check_pool(config: TextConfig) -> None:
    """**Raises** `BadRequest` for a network for which transformers has no class."""
    if config.pool == "greatest":
        raise BadRequest("transformers has no class for dino.txt: write another format.")


def _text_class(config: TextConfig) -> TransformersClass:
    check_pool(config)
    if config.pool == "end" and config.projection is None:
        return CLIP_BARE_TEXT
    return {"mean": TIPS_TEXT, "end": CLIP_TEXT, "last": SIGLIP_TEXT}[config.pool]


TEXT = Architecture(
    config=TextConfig,
    network=_text_network,
    sizes=_sizes,
    landmarks=_landmarks,
    free=lambda config: replace(config, norm_eps=0.0, activation="gelu", end=None),
    unsized=_unsized,
    settled=_settled,
    told=lambda settings: settings.words,
    heads=lambda config: config.heads,
    transformers=_text_class,
    classes=(SIGLIP_TEXT, TIPS_TEXT, CLIP_TEXT, CLIP_BARE_TEXT),
)


def _dual_network() -> Callable[..., Any]:
    from zoo.architectures.dual.dual_network import DualEncoder

    return DualEncoder


def _dual_settings(
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


def _clip_dual_settings(config: DualConfig) -> dict[str, Any]:
    return {"projection_dim": config.dim, **_dual_settings(CLIP, CLIP_TEXT)(config)}


SIGLIP_DUAL = TransformersClass(
    "SiglipModel", "siglip", _dual_settings(SIGLIP, SIGLIP_TEXT), asks=True
)
TIPS_DUAL = TransformersClass(
    "Tipsv2Model", "tipsv2", _dual_settings(TIPS, TIPS_TEXT), antialias=True
)
CLIP_DUAL = TransformersClass("CLIPModel", "clip", _clip_dual_settings, asks=True)


def _dual_class(config: DualConfig) -> TransformersClass:
    check_pool(config.words)
    return {"mean": TIPS_DUAL, "end": CLIP_DUAL, "last": SIGLIP_DUAL}[config.words.pool]


DUAL = Architecture(
    config=DualConfig,
    network=_dual_network,
    parts=("vision", "words"),
    towers={"text": "words", "vision": "vision"},
    sizes=unchanged,
    transformers=_dual_class,
    classes=(SIGLIP_DUAL, TIPS_DUAL, CLIP_DUAL),
)
