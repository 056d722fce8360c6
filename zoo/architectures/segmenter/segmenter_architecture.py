"""Linear classifiers of patches, as everybody asks for them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from zoo.architectures.architecture import GivenOutput, Shapes, on_backbone
from zoo.architectures.common_config import PURPOSE_OF_AREAS
from zoo.architectures.read_shapes import count_rows
from zoo.architectures.segmenter.segmenter_config import SegmenterConfig
from zoo.tasks.answer import Answered, Outputs, Question, best, features
from zoo.tasks.maps import class_map, draw_areas, drawn_maps


def _network() -> Callable[..., Any]:
    from zoo.architectures.segmenter.patch_classifier import Segmenter

    return Segmenter


def _sizes(config: SegmenterConfig, shapes: Shapes) -> SegmenterConfig | None:
    read, classes = count_rows(shapes, "batch_norm.weight"), count_rows(shapes, "head.weight")
    return replace(config, layers=read // config.dim, classes=classes) if classes else None


def _answer(config: SegmenterConfig, outputs: Outputs, question: Question) -> Answered:
    if "logits" not in outputs:
        return features(outputs)
    areas = class_map(outputs["logits"], question.size)
    counts = np.bincount(areas.ravel(), minlength=len(question.names))
    shares = (counts / areas.size).astype(np.float32)
    seen = best(shares, question.names, int(np.count_nonzero(counts)))
    return Answered("areas", seen, draw_areas(areas), areas)


def _outputs(config: SegmenterConfig, pooler: str) -> dict[str, GivenOutput]:
    shape = f"[batch_size, {config.classes}, height / {config.stride}, width / {config.stride}]"
    words = "a linear classifier's number for each class and every patch, larger where likelier"
    return {"logits": GivenOutput(shape, f"{words}; id2label in config.json names the classes")}


SEGMENTER = on_backbone(
    config=SegmenterConfig,
    network=_network,
    purpose=lambda config: PURPOSE_OF_AREAS,
    sizes=_sizes,
    unsized=lambda config: replace(config, layers=0, classes=0),
    outputs=_outputs,
    answer=_answer,
    thumbnail=lambda config, outputs, size: drawn_maps(outputs.get("logits")),
    page_draws=lambda config: {"logits"},
)
