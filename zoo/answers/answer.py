"""From the outputs of a network for one picture to what they say of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoo.answers.areas import (
    QueryMasks,
    class_map,
    draw_areas,
    post_process_panoptic_segmentation,
)
from zoo.answers.depth_map import depth_map, draw_depth
from zoo.answers.scores import sigmoid, softmax
from zoo.images.pixel_values import Float32, Size

if TYPE_CHECKING:
    from PIL.Image import Image

Outputs = Mapping[str, NDArray[Any]]

BEST = 5

SCORES: Mapping[str, Callable[[Float32], Float32]] = {
    "softmax": softmax,
    "sigmoid": sigmoid,
    "none": lambda logits: logits,
}


class Fed(NamedTuple):
    """(height, width) of a network's input, and whether that was padded."""

    size: Size
    padded: bool


class Answer(NamedTuple):
    """A name, and how sure the network is of it, from 0 to 1; of a class of patches the share of
    the picture that it has."""

    label: str
    score: float


@dataclass(frozen=True)
class Answered:
    """What a network says of one picture.

    `answers` are names, best first, of areas one for each segment. `drawing` shows what `kind` says
    at the size of the picture, of which `values` are the numbers, `[height, width]`. `features` are
    outputs that say nothing yet.
    """

    kind: Literal["classes", "areas", "depth", "features"]

    answers: tuple[Answer, ...] = ()
    drawing: Image | None = None
    values: NDArray[Any] | None = None
    features: Outputs = field(default_factory=dict)


def answer(
    outputs: Outputs, names: Sequence[str], size: Size, fed: Fed, scores: str = "softmax"
) -> Answered:
    """What the outputs for a picture of a size say; `names` are those of the classes, `fed` is what
    the network got of it, and `scores` what makes answers of logits.

    Which task a network has is told by the names of its outputs, which are transformers'.
    """
    if "predicted_depth" in outputs:
        depth = depth_map(outputs["predicted_depth"], size)
        return Answered("depth", drawing=draw_depth(depth), values=depth)
    if "masks_queries_logits" in outputs:
        found = post_process_panoptic_segmentation(QueryMasks(outputs, size, *fed))
        told = (Answer(names[each.label_id], each.score) for each in found.segments_info)
        best_first = tuple(sorted(told, key=lambda each: -each.score))
        areas = found.segmentation
        return Answered("areas", best_first, draw_areas(areas), areas)
    if "logits" in outputs and outputs["logits"].ndim == 3:
        areas = class_map(outputs["logits"], size)
        counts = np.bincount(areas.ravel(), minlength=len(names))
        shares = (counts / areas.size).astype(np.float32)
        seen = best(shares, names, int(np.count_nonzero(counts)))
        return Answered("areas", seen, draw_areas(areas), areas)
    if "logits" in outputs:
        return Answered("classes", best(SCORES[scores](outputs["logits"]), names))
    return Answered("features", features=outputs)


def best(scores: Float32, names: Sequence[str], count: int = BEST) -> tuple[Answer, ...]:
    """The names with the largest scores, the first of equals first."""
    places = np.argsort(-scores, kind="stable")[:count]
    return tuple(Answer(names[place], float(scores[place])) for place in places)


def unit(vectors: Float32) -> Float32:
    """Vectors at length 1, along the last axis."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))
