"""Records of segmentation networks: mask transformers, and linear classifiers of patches."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from zoo.architectures.architecture import (
    Shapes,
    TransformersClass,
    count_numbered,
    count_rows,
    on_backbone,
)
from zoo.architectures.parts.layer_options import RopePeriods
from zoo.architectures.segmentation.segmentation_config import MaskConfig, SegmenterConfig
from zoo.architectures.vit.vit_settings import dinov3_settings


def _mask_network() -> Callable[..., Any]:
    from zoo.architectures.segmentation.segmentation_network import Eomt

    return Eomt


def _mask_sizes(config: MaskConfig, shapes: Shapes) -> MaskConfig | None:
    sized = replace(
        config,
        queries=count_rows(shapes, "queries"),
        query_blocks=count_rows(shapes, "attn_mask_probs"),
        classes=count_rows(shapes, "class_head.weight") - 1,
        upscalings=count_numbered(shapes, "upscale.{}.norm.weight"),
    )
    # transformers has another function in the heads of one with gates.
    return sized if sized.classes > 0 and config.backbone.ffn == "mlp" else None


def _with_masked_blocks(config: MaskConfig, leaves: Mapping[str, Any]) -> MaskConfig:
    masked = tuple((np.asarray(leaves["attn_mask_probs"]) > 0).tolist())
    return replace(config, masked=masked if any(masked) else ())


def _mask_settings(config: MaskConfig) -> dict[str, Any]:
    assert isinstance(config.backbone.rope, RopePeriods)
    return dinov3_settings(config.backbone) | {
        "rope_parameters": {"rope_theta": config.backbone.rope.base, "rope_type": "default"},
        "num_queries": config.queries,
        "num_blocks": config.query_blocks,
        "num_upscale_blocks": config.upscalings,
    }


EOMT = TransformersClass(
    "EomtDinov3ForUniversalSegmentation",
    "eomt_dinov3",
    _mask_settings,
    auto="AutoModelForUniversalSegmentation",
    answers=("class_queries_logits", "masks_queries_logits"),
    key_bias=True,
    square=True,
)


MASKS = on_backbone(
    config=MaskConfig,
    network=_mask_network,
    sizes=_mask_sizes,
    unsized=lambda config: replace(config, queries=0, query_blocks=0, classes=0, upscalings=0),
    valued=_with_masked_blocks,
    transformers=lambda config: EOMT,
    classes=(EOMT,),
)


def _segmenter_network() -> Callable[..., Any]:
    from zoo.architectures.segmentation.segmentation_network import Segmenter

    return Segmenter


def _segmenter_sizes(config: SegmenterConfig, shapes: Shapes) -> SegmenterConfig | None:
    read, classes = count_rows(shapes, "batch_norm.weight"), count_rows(shapes, "head.weight")
    return replace(config, layers=read // config.dim, classes=classes) if classes else None


SEGMENTER = on_backbone(
    config=SegmenterConfig,
    network=_segmenter_network,
    sizes=_segmenter_sizes,
    unsized=lambda config: replace(config, layers=0, classes=0),
)
