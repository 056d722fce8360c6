"""Vision transformers, as everybody asks for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zoo.architectures.architecture import Beside, GivenOutput, told_of_blocks
from zoo.architectures.feature_kinds import feature_architecture, feature_outputs
from zoo.architectures.parts.position_config import LearnedPositions, RopePeriods
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.architectures.vit.vit_equimo import vit_equimo
from zoo.architectures.vit.vit_settings import VIT_CLASSES, vit_class
from zoo.architectures.vit.vit_sizes import (
    vit_free,
    vit_landmarks,
    vit_sizes,
    vit_unsized,
    with_classes,
)

if TYPE_CHECKING:
    from zoo.architectures.library_settings import Settings
    from zoo.architectures.vit.vision_transformer import VisionTransformer


def _network() -> Callable[..., Any]:
    from zoo.architectures.vit.vision_transformer import VisionTransformer

    return VisionTransformer


def _settled(config: ViTConfig, beside: Beside) -> ViTConfig:
    settings = beside.settings.network if beside.settings else None
    mean = config.classes and not beside.own_head and _mean_alone(config, beside)
    return replace(
        config,
        **told_of_blocks(settings, config.activation, config.norm_eps),
        heads=(settings and settings.heads) or config.heads,
        scores=beside.scores(config.classes),
        head_tokens=0 if mean else config.head_tokens,
        positions=config.positions and _on_stated_grid(config.positions, config, settings),
    )


def _on_stated_grid(
    where: LearnedPositions, config: ViTConfig, settings: Settings | None
) -> LearnedPositions:
    """On the grid of the pictures of training, where those are told to be no squares."""
    sides = settings.trained_on if settings else ()
    tall, wide = (side // config.patch_size for side in sides or (0, 0))
    if tall == wide or tall * wide != where.patches:
        return where
    return replace(where, grid=tall, columns=wide)


def _mean_alone(config: ViTConfig, beside: Beside) -> bool:
    """Whether a classifier takes the mean of the patches where another network's takes what was
    pooled: transformers' on SigLIP, and timm's on DINOv3 unless it was told otherwise."""
    if beside.naming == "timm":
        pool = beside.settings.global_pool if beside.settings else ""
        return isinstance(config.rope, RopePeriods) and pool != "token"
    return config.pool == "attention" and config.head_tokens is None


def _interpolated(config: ViTConfig, antialias: bool) -> ViTConfig:
    where = config.positions and replace(config.positions, antialias=antialias, offset=0.0)
    return replace(config, positions=where)


def _head_takes(config: ViTConfig) -> str:
    if config.distilled:
        return "the class token and the distillation token"
    if config.head_tokens:
        several = "the class token" if config.head_tokens == 1 else f"{config.head_tokens} tokens"
        return f"{several} and the mean of the patches"
    return "the class token" if config.pool == "token" else "what the network pools"


def _as_built(config: ViTConfig, network: VisionTransformer) -> ViTConfig:
    classes = len(network.head.weight) if network.head else 0
    return replace(
        config,
        classes=classes,
        depth=network.num_hidden_states,
        distilled=classes > 0 and network.head_dist is not None,
    )


def _outputs(config: ViTConfig, pooler: str) -> dict[str, GivenOutput]:
    placed = config.positions is not None and config.positions.registers
    registers = "the distillation token" if placed else f"{config.registers} registers"
    first = (config.cls_token * "the class token, then ") + (
        f"{registers}, then " if config.registers else ""
    )
    patches = f"(height / {config.stride}) * (width / {config.stride})"
    when = "before" if config.pooled_norm else "after"
    return {
        **feature_outputs(config, pooler, f"{first}the patches", when),
        "image_embeds": GivenOutput(f"[batch_size, {config.width}]", "the same vector once more"),
        "attentions": GivenOutput(
            f"[batch_size, {config.heads}, tokens, tokens]",
            "how much each token attends to each in the last block",
        ),
        "class_attention": GivenOutput(
            f"[batch_size, {config.heads}, {patches}]",
            "how much of that the class token gives to each patch, by rows",
        ),
    }


VIT = feature_architecture(
    config=ViTConfig,
    network=_network,
    sizes=vit_sizes,
    landmarks=vit_landmarks,
    free=vit_free,
    unsized=vit_unsized,
    settled=_settled,
    interpolated=_interpolated,
    below=lambda config: with_classes(config, None),
    with_head=with_classes,
    head_takes=_head_takes,
    as_built=_as_built,
    heads=lambda config: config.heads,
    transformers=vit_class,
    classes=VIT_CLASSES,
    equimo=vit_equimo,
    outputs=_outputs,
)
