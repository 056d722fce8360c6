"""Hypothesis strategies for configurations of every kind.

A drawn configuration is that of a published row with other sizes, settings and details.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from hypothesis import strategies as st

from zoo.architectures.architecture import Config
from zoo.architectures.config_fields import comparison_key
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.depth.depth_config import DepthConfig
from zoo.architectures.detection.detection_config import (
    DecoderConfig,
    DeimConfig,
    DetectionConfig,
    FinderConfig,
    InstanceConfig,
    PyramidConfig,
)
from zoo.architectures.dual.dual_config import DualConfig, TextConfig
from zoo.architectures.dual.naflex_config import NaFlexConfig, NaFlexDualConfig
from zoo.architectures.parts.layer_options import LearnedPositions, RopeGrid, RopePeriods
from zoo.architectures.segmentation.segmentation_config import MaskConfig, SegmenterConfig
from zoo.architectures.swin.swin_config import SwinConfig
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.registry.lookup import MODELS

Draw = Any

ACTIVATIONS = ("gelu", "gelu_tanh", "quick_gelu", "relu")
EPSILONS = (1e-5, 1e-6, 3e-6)
SCORES = ("softmax", "sigmoid", "none")


@cache
def rows(kind: type[Config]) -> tuple[Config, ...]:
    """Return the configurations of published rows of a kind, one for each architecture."""
    configs = (entry.config_for(n.name) for entry in MODELS.values() for n in entry.namings)
    ignored = ("size", "setting", "detail")
    return tuple({comparison_key(c, ignored): c for c in configs if type(c) is kind}.values())


def pick(draw: Draw, *choices: Any) -> Any:
    """Draw one of the choices."""
    return draw(st.sampled_from(choices))


def number(draw: Draw, minimum: int, maximum: int) -> int:
    """Draw an integer between both bounds, which are included."""
    return draw(st.integers(minimum, maximum))


@st.composite
def drawn(draw: Draw, row: Config) -> Config:
    """Draw a configuration with the architecture of a published row."""
    return DRAWN[type(row)](draw, row)


def vit(
    draw: Draw, row: ViTConfig, depth: int = 0, ffn: str = "", is_backbone: bool = False
) -> ViTConfig:
    """Draw a vision transformer, or with `is_backbone` one without a classifier.

    A `depth` or `ffn` that is given is not drawn.
    """
    heads = number(draw, 1, 3)
    dim = heads * pick(draw, 4, 8)
    kinds = ("mlp", "swiglu") if isinstance(row.rope, RopePeriods) else ("mlp", "swiglu_fused")
    config = replace(
        row,
        dim=dim,
        depth=depth or number(draw, 1, 3),
        heads=heads,
        hidden=2 * number(draw, 4, 20),
        ffn=ffn or pick(draw, *kinds),
        # transformers' class determines the activation by the kind of feed-forward network.
        activation=row.activation if row.rope else pick(draw, *ACTIVATIONS),
        qkv_bias=row.qkv_bias if row.rope else pick(draw, True, False),
        norm_eps=pick(draw, *EPSILONS),
        patch_size=number(draw, 2, 5),
        registers=_registers(draw, row),
        mask_token=row.mask_token if is_backbone else pick(draw, True, False),
        positions=row.positions and _positions(draw, row.positions),
        projection=row.projection and number(draw, 3, 9),
        head_blocks=row.head_blocks
        and replace(row.head_blocks, depth=number(draw, 1, 2), hidden=number(draw, 3, 9)),
    )
    if row.pool in ("attention", None) and not row.cls_token and not is_backbone:
        config = replace(config, pool=pick(draw, "attention", None))
    return (
        replace(config, classes=0, head_tokens=None, distilled=False)
        if is_backbone
        else _classes(draw, row, config)
    )


def _registers(draw: Draw, row: ViTConfig) -> int:
    if isinstance(row.rope, RopeGrid):
        return pick(draw, 1, 4)
    if not row.registers or (row.positions and row.positions.registers):
        return row.registers
    return number(draw, 1, 3)


def _positions(draw: Draw, positions: LearnedPositions) -> LearnedPositions:
    columns = draw(st.none() | st.integers(5, 6))
    return replace(positions, grid=number(draw, 2, 4), columns=columns)


def _classes(draw: Draw, row: ViTConfig, config: ViTConfig) -> ViTConfig:
    """Draw the classifier that transformers' class has, if there is one."""
    tokens = row.head_tokens
    if not row.classes and row.positions is not None and not row.positions.linear:
        tokens = 0 if config.pool in ("attention", None) else 1 if row.layer_scale else None
    if row.projection or row.rope or row.head_blocks or row.pooled_norm or row.pre_norm:
        return config
    if row.positions is None or row.positions.linear or not pick(draw, True, False):
        return replace(config, classes=0, head_tokens=None, distilled=False)
    distilled = (
        config.registers > 0 and config.cls_token and tokens is None and pick(draw, True, False)
    )
    scores = pick(draw, *SCORES)
    return replace(
        config, classes=number(draw, 2, 6), head_tokens=tokens, distilled=distilled, scores=scores
    )


def convnext(draw: Draw, row: ConvNeXtConfig) -> ConvNeXtConfig:
    """Draw a ConvNeXt.

    A class of transformers has one epsilon, either of all norms or of the last.
    """
    depths, dims = ([number(draw, 1, maximum) for _ in range(4)] for maximum in (2, 9))
    is_last = row.response_norm or pick(draw, False, True)
    classes = pick(draw, 0, 3) if is_last else 0
    eps = {"final_norm_eps": 7e-5} if is_last else {"norm_eps": 7e-6, "final_norm_eps": None}
    scores = pick(draw, *SCORES) if classes else "softmax"
    return replace(
        row,
        depths=(*depths,),
        dims=(*dims,),
        activation=pick(draw, *ACTIVATIONS),
        classes=classes,
        scores=scores,
        **eps,
    )


def swin(draw: Draw, row: SwinConfig) -> SwinConfig:
    """Draw a Swin V2."""
    stages = number(draw, 1, 3)
    embed = 2 * number(draw, 1, 3)
    classes = pick(draw, 0, 3)
    return replace(
        row,
        embed=embed,
        depths=tuple(number(draw, 1, 2) for _ in range(stages)),
        heads=tuple(pick(draw, 1, 2) for _ in range(stages)),
        window=number(draw, 2, 5),
        grid=(number(draw, 8, 12), number(draw, 8, 12)),
        pretrained=tuple(number(draw, 0, 4) for _ in range(stages)),
        ratio=pick(draw, 1.0, 1.5, 2.0),
        patch_size=number(draw, 2, 5),
        qkv_bias=pick(draw, False, True),
        activation=pick(draw, *ACTIVATIONS),
        norm_eps=pick(draw, *EPSILONS),
        classes=classes,
        scores=pick(draw, *SCORES) if classes else "softmax",
    )


def words(draw: Draw, row: TextConfig) -> TextConfig:
    """Draw a tower for texts."""
    heads, vocabulary = number(draw, 1, 3), number(draw, 20, 40)
    has_end = row.pool == "end" and pick(draw, True, False)
    return replace(
        row,
        dim=heads * number(draw, 2, 4),
        depth=number(draw, 1, 2),
        heads=heads,
        hidden=number(draw, 3, 20),
        projection=None if row.projection is None else number(draw, 3, 9),
        vocabulary=vocabulary,
        # Sinusoidal positions are no leaves, so that shapes do not determine their number.
        tokens=number(draw, 4, 9) if row.positions == "learned" else row.tokens,
        activation=pick(draw, *ACTIVATIONS),
        norm_eps=pick(draw, *EPSILONS),
        end=number(draw, 3, vocabulary - 2) if has_end else None,
    )


def dual(draw: Draw, row: DualConfig) -> DualConfig:
    """Draw both towers, whose vectors have the same number of channels."""
    vision, texts = vit(draw, row.vision, is_backbone=True), words(draw, row.words)
    if texts.projection is not None:
        return replace(row, vision=vision, words=replace(texts, projection=vision.width))
    return replace(row, vision=vision, words=replace(texts, dim=vision.dim, heads=vision.heads))


def naflex(draw: Draw, row: NaFlexConfig) -> NaFlexConfig:
    """Draw a vision transformer for patches of any aspect ratio."""
    heads = number(draw, 1, 3)
    return replace(
        row,
        dim=heads * pick(draw, 4, 8),
        depth=number(draw, 1, 3),
        heads=heads,
        hidden=number(draw, 4, 20),
        patch=number(draw, 2, 5),
        grid=number(draw, 2, 4),
        pooled=pick(draw, True, False),
        activation=pick(draw, *ACTIVATIONS),
        norm_eps=pick(draw, *EPSILONS),
    )


def naflex_dual(draw: Draw, row: NaFlexDualConfig) -> NaFlexDualConfig:
    """Draw both towers, whose vectors have the same number of channels."""
    vision = replace(naflex(draw, row.vision), pooled=True)
    texts = words(draw, row.words)
    return replace(row, vision=vision, words=replace(texts, projection=vision.width))


def depth(draw: Draw, row: DepthConfig) -> DepthConfig:
    """Draw a network for depth."""
    return replace(
        row,
        backbone=vit(draw, row.backbone, depth=5, is_backbone=True),
        layers=tuple(sorted(number(draw, 1, 5) for _ in range(4))),
        channels=tuple(number(draw, 1, 9) for _ in range(4)),
        fused=2 * number(draw, 1, 4),
        hidden=number(draw, 1, 9),
        max_depth=draw(st.sampled_from([None, 20.0, 80.5])),
    )


def masks(draw: Draw, row: MaskConfig) -> MaskConfig:
    """Draw a mask transformer."""
    backbone = vit(draw, row.backbone, depth=3, ffn="mlp", is_backbone=True)
    upscalings = number(draw, 0, 2)
    blocks = number(draw, 1, 3)
    return replace(
        row,
        backbone=replace(backbone, patch_size=4),
        queries=number(draw, 2, 9),
        query_blocks=blocks,
        classes=number(draw, 1, 5),
        upscalings=upscalings,
        masked=draw(st.sampled_from([(), (True,) * blocks])),
    )


def segmenter(draw: Draw, row: SegmenterConfig) -> SegmenterConfig:
    """Draw a linear classifier of patches."""
    backbone = vit(draw, row.backbone, depth=3, is_backbone=True)
    return replace(row, backbone=backbone, layers=number(draw, 1, 3), classes=number(draw, 1, 5))


def detection(draw: Draw, row: DetectionConfig) -> DetectionConfig:
    """Draw an RF-DETR."""
    sampling = pick(draw, 1, 2, 4)
    decoder = DecoderConfig(
        dim=8 * number(draw, 1, 2),
        depth=number(draw, 1, 2),
        heads=pick(draw, 1, 2, 4),
        sampling_heads=sampling,
        points=number(draw, 1, 3),
        hidden=number(draw, 3, 9),
    )
    instances = row.instances and InstanceConfig(
        number(draw, 1, 2), hidden=number(draw, 3, 9), stride=pick(draw, 2, 8)
    )
    config = replace(
        row,
        backbone=vit(draw, row.backbone, depth=5, is_backbone=True),
        decoder=decoder,
        layers=tuple(sorted({number(draw, 1, 4), 5})),
        windows=pick(draw, 2, 1),
        queries=number(draw, 2, 9),
        classes=number(draw, 1, 5),
        groups=number(draw, 1, 3),
        bottlenecks=number(draw, 0, 2),
        narrow=number(draw, 1, 6),
        projector_eps=pick(draw, *EPSILONS),
        instances=instances,
        windowed=None,
    )
    windowed_by_default = set(config.windowed_blocks)
    windowed_blocks = tuple(sorted(windowed_by_default ^ {number(draw, 0, 4)}))
    return replace(
        config, windowed=windowed_blocks if config.windows > 1 and pick(draw, 1, 0) else None
    )


def deim(draw: Draw, row: DeimConfig) -> DeimConfig:
    """Draw a DEIMv2."""
    heads = pick(draw, 1, 2)
    points = tuple(number(draw, 1, 3) for _ in range(3))
    finder = FinderConfig(
        number(draw, 1, 2),
        heads=heads,
        hidden=number(draw, 3, 9),
        points=points,
        bins=2 * number(draw, 2, 5),
        top_k=number(draw, 1, 3),
        quality=number(draw, 1, 9),
    )
    pyramid = PyramidConfig(
        number(draw, 1, 2),
        heads=pick(draw, 1, 2),
        hidden=number(draw, 3, 9),
        narrow=number(draw, 1, 6),
        bottlenecks=number(draw, 1, 2),
    )
    backbone = vit(draw, row.backbone, depth=4, is_backbone=True)
    return replace(
        row,
        backbone=replace(backbone, patch_size=16),
        width=8 * number(draw, 1, 2),
        planes=number(draw, 1, 4),
        layers=tuple(sorted(number(draw, 1, 4) for _ in range(3))),
        pyramid=pyramid,
        finder=finder,
        queries=number(draw, 2, 9),
        classes=number(draw, 1, 5),
        normed=pick(draw, True, False),
        placed=pick(draw, True, False),
    )


DRAWN = {
    ViTConfig: vit,
    ConvNeXtConfig: convnext,
    SwinConfig: swin,
    TextConfig: words,
    DualConfig: dual,
    NaFlexConfig: naflex,
    NaFlexDualConfig: naflex_dual,
    DepthConfig: depth,
    MaskConfig: masks,
    SegmenterConfig: segmenter,
    DetectionConfig: detection,
    DeimConfig: deim,
}
"""Functions that draw a configuration, by its type."""
