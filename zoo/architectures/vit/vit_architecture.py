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

    If the tensors have timm's names, the name of timm's architecture in the settings determines the
    activation and the epsilon of norms. The settings also determine the scores and the grid of
    learned positions.

    A classifier whose input tensor shapes do not determine (`head_tokens` is None) takes the mean
    of the patches (`head_tokens=0`) in these cases:

    - a custom head: if the settings state timm's pooling "avg", or the network does not pool;
    - in timm's names with DINOv3's rotary positions: unless the settings state "token";
    - in other names than timm's: if the network pools by attention or not at all, or is CLIP's.

    In timm's names without DINOv3's rotary positions and without a custom head, the field `pool` is
    changed instead, as in `_pooled_by_timm`.
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

    `pool` is timm's setting; empty if it is not stated. "avg" replaces the class token by the mean
    of the patches, except in a distilled network. "token" replaces the mean by the class token, if
    there is one. In all other cases the configuration is returned unchanged.
    """
    if pool == "avg" and config.pool == "token" and not config.distilled:
        return replace(config, pool="mean")
    if pool == "token" and config.pool == "mean" and config.cls_token:
        return replace(config, pool="token")
    return config


def _with_training_grid(
    positions: LearnedPositions, config: ViTConfig, settings: Settings | None
) -> LearnedPositions:
    """Return the learned positions with the grid of training pictures that were not square.

    The settings have to state the size of these pictures, and the table has to have as many rows
    for patches as the grid. Otherwise return the positions unchanged.
    """
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
    """Return the configuration with the number of classes, the classifier of the distillation token
    and the number of blocks that a network in memory has. A user may have removed the head or
    blocks."""
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
