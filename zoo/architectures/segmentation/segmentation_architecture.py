"""Records of segmentation networks: mask transformers, and linear classifiers of patches."""

from collections.abc import Callable
from typing import Any

import numpy as np

from zoo.architectures.architecture import (
    Architecture,
    GivenOutput,
)
from zoo.architectures.common_config import PURPOSE_OF_AREAS
from zoo.architectures.config_fields import Shapes, with_sizes
from zoo.architectures.config_settings import Template, TransformersClass, write_settings
from zoo.architectures.parts.layer_options import RopePeriods
from zoo.architectures.segmentation.segmentation_config import MaskConfig, SegmenterConfig
from zoo.architectures.vit.vit_settings import DINOV3_SETTINGS
from zoo.tasks.answer import Answer, Outputs, PictureAnswer, Question, best, features
from zoo.tasks.maps import (
    QueryMasks,
    class_map,
    draw_areas,
    drawn_maps,
    post_process_panoptic_segmentation,
)


def _mask_network() -> Callable[..., Any]:
    from zoo.architectures.segmentation.segmentation_network import Eomt

    return Eomt


def _mask_sizes(config: MaskConfig, shapes: Shapes) -> MaskConfig | None:
    """Read the sizes; transformers has another function in the heads of one with gates."""
    return with_sizes(config, shapes) if config.backbone.ffn == "mlp" else None


def _backbone(config: MaskConfig) -> dict[str, Any]:
    assert isinstance(config.backbone.rope, RopePeriods)
    rotated = {"rope_theta": config.backbone.rope.base, "rope_type": "default"}
    return write_settings(config.backbone, DINOV3_SETTINGS) | {"rope_parameters": rotated}


SETTINGS: Template = (_backbone, "num_queries", "num_blocks", "num_upscale_blocks")

EOMT = TransformersClass(
    "EomtDinov3ForUniversalSegmentation",
    "eomt_dinov3",
    SETTINGS,
    auto="AutoModelForUniversalSegmentation",
    answers=("class_queries_logits", "masks_queries_logits"),
    key_bias=True,
    square=True,
)

MAPS = frozenset({"class_queries_logits", "masks_queries_logits"})


def _mask_answer(config: MaskConfig, outputs: Outputs, question: Question) -> PictureAnswer:
    if not outputs.keys() >= MAPS:
        return features(outputs)
    segments = post_process_panoptic_segmentation(QueryMasks(outputs, question.size, *question.fed))
    answers = (Answer(question.names[each.label_id], each.score) for each in segments.segments_info)
    best_first = tuple(sorted(answers, key=lambda each: -each.score))
    areas = segments.segmentation
    return PictureAnswer("areas", best_first, draw_areas(areas), areas)


def _mask_outputs(config: MaskConfig, pooler: str) -> dict[str, GivenOutput]:
    queries, stride = config.queries, config.mask_stride
    return {
        "class_queries_logits": GivenOutput(
            f"[batch_size, {queries}, {config.classes + 1}]",
            f"of each of {queries} areas how much it is each class, and the last that it is none, "
            "before a softmax",
        ),
        "masks_queries_logits": GivenOutput(
            f"[batch_size, {queries}, height / {stride}, width / {stride}]",
            "how much every pixel is in it, before a sigmoid; zoo.tasks.maps makes segments of "
            "both",
        ),
    }


MASKS = Architecture(
    config=MaskConfig,
    network=_mask_network,
    purpose=lambda config: PURPOSE_OF_AREAS,
    sizes=_mask_sizes,
    transformers=lambda config: EOMT,
    classes=(EOMT,),
    outputs=_mask_outputs,
    answer=_mask_answer,
    thumbnail=lambda config, outputs, size: drawn_maps(outputs.get("masks_queries_logits")),
    page_draws=lambda config: MAPS,
)


def _segmenter_network() -> Callable[..., Any]:
    from zoo.architectures.segmentation.segmentation_network import Segmenter

    return Segmenter


def _segmenter_answer(
    config: SegmenterConfig, outputs: Outputs, question: Question
) -> PictureAnswer:
    if "logits" not in outputs:
        return features(outputs)
    areas = class_map(outputs["logits"], question.size)
    counts = np.bincount(areas.ravel(), minlength=len(question.names))
    shares = (counts / areas.size).astype(np.float32)
    seen = best(shares, question.names, int(np.count_nonzero(counts)))
    return PictureAnswer("areas", seen, draw_areas(areas), areas)


def _segmenter_outputs(config: SegmenterConfig, pooler: str) -> dict[str, GivenOutput]:
    shape = f"[batch_size, {config.classes}, height / {config.stride}, width / {config.stride}]"
    words = "a linear classifier's number for each class and every patch, larger where likelier"
    return {"logits": GivenOutput(shape, f"{words}; id2label in config.json names the classes")}


SEGMENTER = Architecture(
    config=SegmenterConfig,
    network=_segmenter_network,
    purpose=lambda config: PURPOSE_OF_AREAS,
    outputs=_segmenter_outputs,
    answer=_segmenter_answer,
    thumbnail=lambda config, outputs, size: drawn_maps(outputs.get("logits")),
    page_draws=lambda config: {"logits"},
)
