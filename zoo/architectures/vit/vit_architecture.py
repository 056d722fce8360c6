"""Record of vision transformers: what the zoo asks of this kind of network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zoo.architectures.architecture import (
    Architecture,
    CheckpointFacts,
    ClassifierHead,
    LibraryOptions,
)
from zoo.architectures.config_settings import settings_section, with_settings
from zoo.architectures.parts.layer_options import LearnedPositions, RopePeriods
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.architectures.vit.vit_settings import EQUIMO_SETTINGS, VIT_CLASSES, vit_class
from zoo.architectures.vit.vit_sizes import (
    VIT_OPTIONS,
    refused_timm_option,
    timm_activation,
    timm_norm_eps,
    with_classes,
)

if TYPE_CHECKING:
    from zoo.architectures.library_settings import Settings
    from zoo.architectures.vit.vit_network import VisionTransformer


def _network() -> Callable[..., Any]:
    from zoo.architectures.vit.vit_network import VisionTransformer

    return VisionTransformer


def _complete(config: ViTConfig, facts: CheckpointFacts) -> ViTConfig:
    """Complete the configuration from settings, and from what libraries do without: timm's
    architectures have options by their names, and pool before every classifier."""
    of_timm = facts.settings.architecture if facts.settings and facts.naming == "timm" else ""
    usual = replace(
        config,
        activation=timm_activation(of_timm) or config.activation,
        norm_eps=timm_norm_eps(config, of_timm),
    )
    settled = replace(
        with_settings(usual, facts.settings),
        scores=facts.choose_scores(config.classes),
        positions=config.positions and _on_stated_grid(config.positions, config, facts.settings),
    )
    pool = facts.settings.pool if facts.settings else ""
    if facts.has_custom_head:
        mean = pool == "avg" or config.pool is None
    elif facts.naming == "timm" and not isinstance(config.rope, RopePeriods):
        return _pooled_by_timm(settled, pool)
    elif facts.naming == "timm":
        mean = pool != "token"
    else:
        mean = config.pool in ("attention", None) or (config.pooled_norm and config.pre_norm)
    if mean and config.classes and config.head_tokens is None:
        return replace(settled, head_tokens=0)
    return settled


def _pooled_by_timm(config: ViTConfig, pool: str) -> ViTConfig:
    """Return the configuration with what timm pools, which it does before every classifier."""
    if pool == "avg" and config.pool == "token" and not config.distilled:
        return replace(config, pool="mean")
    if pool == "token" and config.pool == "mean" and config.cls_token:
        return replace(config, pool="token")
    return config


def _on_stated_grid(
    where: LearnedPositions, config: ViTConfig, settings: Settings | None
) -> LearnedPositions:
    """On the grid of the pictures of training, where those are told to be no squares."""
    sides = settings_section(config, settings).trained_on if settings else ()
    tall, wide = (side // config.patch_size for side in sides or (0, 0))
    if tall == wide or tall * wide != where.patches:
        return where
    return replace(where, grid=tall, columns=wide)


TOKEN, MEAN = "the class token", "the mean of the patches"
POOLED = {"token": TOKEN, "mean": MEAN, "attention": "what attention pools of the patches"}


def _head_takes(config: ViTConfig) -> str:
    if config.distilled:
        return f"{TOKEN} and the distillation token"
    if config.head_tokens:
        several = TOKEN if config.head_tokens == 1 else f"{config.head_tokens} class tokens"
        return f"{several} and {MEAN}"
    if config.head_tokens == 0:
        return MEAN
    pooled = POOLED.get(config.pool or "", "what the network pools")
    return f"{pooled}, normed" if config.pooled_norm else pooled


def _head_inputs(config: ViTConfig) -> dict[str, str] | None:
    if config.head_tokens:
        # As wide as what it takes; CLIP's vector is normed, and its tokens are not.
        return None if config.pooled_norm else {}
    if config.pool == "attention":
        return {"map": POOLED["attention"], "avg": MEAN}
    return {"token": TOKEN, "avg": MEAN} if config.cls_token else {}


def _as_built(config: ViTConfig, network: VisionTransformer) -> ViTConfig:
    classes = len(network.head.weight) if network.head else 0
    return replace(
        config,
        classes=classes,
        depth=network.num_hidden_states,
        distilled=classes > 0 and network.head_dist is not None,
    )


VIT = Architecture(
    config=ViTConfig,
    network=_network,
    complete=_complete,
    head=ClassifierHead(
        with_classes=with_classes,
        from_network=_as_built,
        describe_input=_head_takes,
        custom_inputs=_head_inputs,
    ),
    options=LibraryOptions(VIT_OPTIONS, refused_timm_option),
    transformers_class=vit_class,
    transformers_classes=VIT_CLASSES,
    equimo_settings=EQUIMO_SETTINGS,
)
