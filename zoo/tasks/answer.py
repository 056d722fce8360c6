"""From the outputs of a network for one picture to what they say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weights.initializers import Float32
from zoo.tasks.fed import Fed, Size
from zoo.tasks.scores import SCORES, Scores

if TYPE_CHECKING:
    from PIL.Image import Image

Outputs = Mapping[str, NDArray[Any]]

BEST = 5


Corners = tuple[float, float, float, float]
"""Left, top, right and bottom edge of a box, in pixels from the left upper corner."""


class Answer(NamedTuple):
    """A name, and how sure the network is of it, from 0 to 1; of a class of patches the share of
    the picture that it has."""

    label: str
    score: float


@dataclass(frozen=True)
class Answered:
    """Answer of a network about one picture.

    `answers` are names, best first, of areas one for each segment, of things in `boxes` one for
    each: its left, top, right and bottom edge in pixels. `drawing` shows what `kind` says at the
    size of the picture, of which `values` are the numbers, `[height, width]`. `features` are
    outputs that say nothing yet.
    """

    kind: Literal["classes", "areas", "boxes", "depth", "features"]

    answers: tuple[Answer, ...] = ()
    drawing: Image | None = None
    values: NDArray[Any] | None = None
    features: Outputs = field(default_factory=dict)
    boxes: tuple[Corners, ...] = ()


@dataclass(frozen=True)
class Question:
    """Subject of an answer: the names of the classes, the size of the picture, and what the
    network got of it; the picture, if there may be something to draw on it, and how sure a network
    has to be of a thing in a box, if that is told."""

    names: Sequence[str]
    size: Size
    fed: Fed
    picture: Image | None = None
    threshold: float | None = None


def features(outputs: Outputs) -> Answered:
    """Answer of a network whose outputs say nothing yet."""
    return Answered("features", features=outputs)


def classes(outputs: Outputs, names: Sequence[str], scores: Scores) -> Answered:
    """Answer of a classifier; of a network without one, or a file without its output, the
    features."""
    if "logits" not in outputs:
        return features(outputs)
    return Answered("classes", best(SCORES[scores](outputs["logits"]), names))


def best(scores: Float32, names: Sequence[str], count: int = BEST) -> tuple[Answer, ...]:
    """The names with the largest scores, the first of equals first."""
    places = np.argsort(-scores, kind="stable")[:count]
    return tuple(Answer(names[place], float(scores[place])) for place in places)


def unit(vectors: Float32) -> Float32:
    """Vectors at length 1, along the last axis."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))
