"""Mask transformers, as everybody asks for them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from zoo.architectures.architecture import (
    GivenOutput,
    Shapes,
    TransformersClass,
    on_backbone,
)
from zoo.architectures.common_config import PURPOSE_OF_AREAS
from zoo.architectures.masks.mask_config import MaskConfig
from zoo.architectures.parts.layer_options import RopePeriods
from zoo.architectures.read_shapes import count_numbered, count_rows
from zoo.architectures.vit.vit_settings import dinov3_settings
from zoo.tasks.answer import Answer, Answered, Outputs, Question, features
from zoo.tasks.areas import (
    QueryMasks,
    draw_areas,
    drawn_maps,
    post_process_panoptic_segmentation,
)


def _network() -> Callable[..., Any]:
    from zoo.architectures.masks.eomt import Eomt

    return Eomt


def _sizes(config: MaskConfig, shapes: Shapes) -> MaskConfig | None:
    sized = replace(
        config,
        queries=count_rows(shapes, "queries"),
        query_blocks=count_rows(shapes, "attn_mask_probs"),
        classes=count_rows(shapes, "class_head.weight") - 1,
        upscalings=count_numbered(shapes, "upscale.{}.norm.weight"),
    )
    # transformers has another function in the heads of one with gates.
    return sized if sized.classes > 0 and config.backbone.ffn == "mlp" else None


def _valued(config: MaskConfig, leaves: Mapping[str, Any]) -> MaskConfig:
    masked = tuple((np.asarray(leaves["attn_mask_probs"]) > 0).tolist())
    return replace(config, masked=masked if any(masked) else ())


def _settings(config: MaskConfig) -> dict[str, Any]:
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
    _settings,
    auto="AutoModelForUniversalSegmentation",
    answers=("class_queries_logits", "masks_queries_logits"),
    key_bias=True,
    square=True,
)

MAPS = frozenset({"class_queries_logits", "masks_queries_logits"})


def _answer(config: MaskConfig, outputs: Outputs, question: Question) -> Answered:
    if not outputs.keys() >= MAPS:
        return features(outputs)
    segments = post_process_panoptic_segmentation(QueryMasks(outputs, question.size, *question.fed))
    answers = (Answer(question.names[each.label_id], each.score) for each in segments.segments_info)
    best_first = tuple(sorted(answers, key=lambda each: -each.score))
    areas = segments.segmentation
    return Answered("areas", best_first, draw_areas(areas), areas)


def _outputs(config: MaskConfig, pooler: str) -> dict[str, GivenOutput]:
    queries, stride = config.queries, config.mask_stride
    return {
        "class_queries_logits": GivenOutput(
            f"[batch_size, {queries}, {config.classes + 1}]",
            f"of each of {queries} areas how much it is each class, and the last that it is none, "
            "before a softmax",
        ),
        "masks_queries_logits": GivenOutput(
            f"[batch_size, {queries}, height / {stride}, width / {stride}]",
            "how much every pixel is in it, before a sigmoid; zoo.tasks.areas makes segments of "
            "both",
        ),
    }


MASKS = on_backbone(
    config=MaskConfig,
    network=_network,
    purpose=lambda config: PURPOSE_OF_AREAS,
    sizes=_sizes,
    unsized=lambda config: replace(config, queries=0, query_blocks=0, classes=0, upscalings=0),
    valued=_valued,
    transformers=lambda config: EOMT,
    classes=(EOMT,),
    outputs=_outputs,
    answer=_answer,
    thumbnail=lambda config, outputs, size: drawn_maps(outputs.get("masks_queries_logits")),
    page_draws=lambda config: MAPS,
)
