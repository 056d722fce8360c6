"""Architecture record of vision transformers."""

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
    find_unsupported_timm_option,
    timm_activation,
    timm_norm_eps,
    with_classes,
)

if TYPE_CHECKING:
    from zoo.architectures.library_settings import Settings
    from zoo.architectures.vit.vit_network import VisionTransformer


def _network_class() -> Callable[..., Any]:
    """Return the class of the network. Its module, and with it JAX, is imported only now."""
    from zoo.architectures.vit.vit_network import VisionTransformer

    return VisionTransformer


def _complete(config: ViTConfig, facts: CheckpointFacts) -> ViTConfig:
    """Return the configuration with the values that a checkpoint's settings state, or else with the
    defaults of the source library.

    The name of timm's architecture determines options of it, such as the activation. timm pools
    before every classifier, and a custom head takes the vector that its settings or the source
    library choose.
    """
    timm_name = facts.settings.architecture if facts.settings and facts.naming == "timm" else ""
    defaults = replace(
        config,
        activation=timm_activation(timm_name) or config.activation,
        norm_eps=timm_norm_eps(config, timm_name),
    )
    completed = replace(
        with_settings(defaults, facts.settings),
        scores=facts.choose_scores(config.classes),
        positions=config.positions
        and _with_training_grid(config.positions, config, facts.settings),
    )
    pool = facts.settings.pool if facts.settings else ""
    if facts.has_custom_head:
        takes_mean = pool == "avg" or config.pool is None
    elif facts.naming == "timm" and not isinstance(config.rope, RopePeriods):
        return _pooled_by_timm(completed, pool)
    elif facts.naming == "timm":
        takes_mean = pool != "token"
    else:
        takes_mean = config.pool in ("attention", None) or (config.pooled_norm and config.pre_norm)
    if takes_mean and config.classes and config.head_tokens is None:
        return replace(completed, head_tokens=0)
    return completed


def _pooled_by_timm(config: ViTConfig, pool: str) -> ViTConfig:
    """Return the configuration with the pooling that timm applies before every classifier.

    `pool` is timm's setting: "avg", "token", or empty if it is not stated. The configuration is
    returned unchanged if the setting agrees with it, or does not fit the network.
    """
    if pool == "avg" and config.pool == "token" and not config.distilled:
        return replace(config, pool="mean")
    if pool == "token" and config.pool == "mean" and config.cls_token:
        return replace(config, pool="token")
    return config


def _with_training_grid(
    positions: LearnedPositions, config: ViTConfig, settings: Settings | None
) -> LearnedPositions:
    """Return the learned positions with the grid of the training pictures, if settings state that
    these were not square and the table has as many rows as the grid. Otherwise return the positions
    unchanged."""
    sides = settings_section(config, settings).trained_on if settings else ()
    rows, columns = (side // config.patch_size for side in sides or (0, 0))
    if rows == columns or rows * columns != positions.patches:
        return positions
    return replace(positions, grid=rows, columns=columns)


TOKEN, MEAN = "the class token", "the mean of the patches"
POOLED = {"token": TOKEN, "mean": MEAN, "attention": "what attention pools of the patches"}


def _describe_head_input(config: ViTConfig) -> str:
    """Return a description of the vector that the network's classifier takes, for messages."""
    if config.distilled:
        return f"{TOKEN} and the distillation token"
    if config.head_tokens:
        tokens = TOKEN if config.head_tokens == 1 else f"{config.head_tokens} class tokens"
        return f"{tokens} and {MEAN}"
    if config.head_tokens == 0:
        return MEAN
    pooled = POOLED.get(config.pool or "", "what the network pools")
    return f"{pooled}, normed" if config.pooled_norm else pooled


def _custom_head_inputs(config: ViTConfig) -> dict[str, str] | None:
    """Return descriptions of the vectors that a custom head may take, by the value of
    `global_pool`.

    The dictionary is empty if only one vector is possible. Return None if no possible vector is
    known.
    """
    if config.head_tokens:
        # A custom head has the same width as this input. CLIP's pooled vector is normalised, but
        # its tokens are not, so that no input is known.
        return None if config.pooled_norm else {}
    if config.pool == "attention":
        return {"map": POOLED["attention"], "avg": MEAN}
    return {"token": TOKEN, "avg": MEAN} if config.cls_token else {}


def _read_network(config: ViTConfig, network: VisionTransformer) -> ViTConfig:
    """Return the configuration with the classifier and the number of blocks that a network in
    memory has. A user may have removed them."""
    classes = len(network.head.weight) if network.head else 0
    return replace(
        config,
        classes=classes,
        depth=network.num_hidden_states,
        distilled=classes > 0 and network.head_dist is not None,
    )


VIT = Architecture(
    config=ViTConfig,
    network=_network_class,
    complete=_complete,
    head=ClassifierHead(
        with_classes=with_classes,
        from_network=_read_network,
        describe_input=_describe_head_input,
        custom_inputs=_custom_head_inputs,
    ),
    options=LibraryOptions(VIT_OPTIONS, find_unsupported_timm_option),
    transformers_class=vit_class,
    transformers_classes=VIT_CLASSES,
    equimo_settings=EQUIMO_SETTINGS,
)
