"""From the outputs of a network for one picture to what they say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoo.answers.depth_map import depth_map, draw_depth
from zoo.images.pixel_values import Float32, Size

if TYPE_CHECKING:
    from PIL.Image import Image

Outputs = Mapping[str, NDArray[Any]]

BEST = 5


class Answer(NamedTuple):
    """A name, and how sure the network is of it, from 0 to 1."""

    label: str
    score: float


@dataclass(frozen=True)
class Answered:
    """What a network says of one picture.

    `answers` are names, best first. `drawing` shows what `kind` says at the size of the picture,
    of which `values` are the numbers, `[height, width]`. `features` are outputs that say nothing
    yet.
    """

    kind: Literal["classes", "depth", "features"]

    answers: tuple[Answer, ...] = ()
    drawing: Image | None = None
    values: NDArray[Any] | None = None
    features: Outputs = field(default_factory=dict)


def answer(outputs: Outputs, names: Sequence[str], size: Size) -> Answered:
    """What the outputs for a picture of a size say; `names` are those of the classes.

    Which task a network has is told by the names of its outputs, which are transformers'.
    """
    if "predicted_depth" in outputs:
        depth = depth_map(outputs["predicted_depth"], size)
        return Answered("depth", drawing=draw_depth(depth), values=depth)
    if "logits" in outputs:
        return Answered("classes", best(softmax(outputs["logits"]), names))
    return Answered("features", features=outputs)


def best(scores: Float32, names: Sequence[str], count: int = BEST) -> tuple[Answer, ...]:
    """The names with the largest scores, the first of equals first."""
    places = np.argsort(-scores, kind="stable")[:count]
    return tuple(Answer(names[place], float(scores[place])) for place in places)


def softmax(logits: Float32) -> Float32:
    """Probabilities of classes that exclude each other, along the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def sigmoid(logits: Float32) -> Float32:
    """Probabilities of what excludes nothing else."""
    return np.asarray(1 / (1 + np.exp(-logits)))


def unit(vectors: Float32) -> Float32:
    """Vectors at length 1, along the last axis."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))
