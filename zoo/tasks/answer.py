"""Compute the answer of a network about one picture from its outputs: class names with scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weights.initializers import Float32
from zoo.common.errors import BadRequest

if TYPE_CHECKING:
    from PIL.Image import Image

Size = tuple[int, int]  # (height, width)


class InputSize(NamedTuple):
    """(height, width) of a network's input, and whether that was padded."""

    size: Size
    padded: bool


def size_inside(image: Size, size: Size) -> Size:
    """The largest of an image's proportions that fits into `size`, of a pixel at least.

    Source: `get_size_with_aspect_ratio` of transformers, in whose arithmetic the longer side may
    come to a pixel less.
    """
    (height, width), (tall, wide) = image, size
    if height * wide > width * tall:
        exact = tall * width / height
        return int(exact * height / width), max(1, round(exact))
    exact = wide * height / width
    return max(1, round(exact)), int(exact * width / height)


Scores = Literal["softmax", "sigmoid", "none"]
"""What makes answers of logits: classes exclude each other, or each is by itself, or is a number as
it is."""


def softmax(logits: Float32) -> Float32:
    """Probabilities of classes that exclude each other, along the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def sigmoid(logits: Float32) -> Float32:
    """The probability of each by itself."""
    shares: Float32 = np.exp(-np.logaddexp(np.float32(0), -logits))
    return shares


SCORES: Mapping[Scores, Callable[[Float32], Float32]] = {
    "softmax": softmax,
    "sigmoid": sigmoid,
    "none": lambda logits: logits,
}


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
class PictureAnswer:
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


TEMPLATE = "This is a photo of {}."
"""As transformers' pipeline puts labels into a sentence."""


@dataclass(frozen=True)
class Question:
    """A question about pictures, as a user asks it.

    `labels` are what may be in the pictures, in words, for networks that compare pictures with
    texts; each is put into the `template`. `threshold` is how sure a network has to be of a thing
    in a box, from 0 to 1; None for the usual one.
    """

    labels: Sequence[str] = ()
    template: str = TEMPLATE
    threshold: float | None = None

    @property
    def sentences(self) -> list[str]:
        """A sentence for each label. **Raises** `BadRequest` for something that is no labels."""
        return in_sentences(self.labels, self.template)


@dataclass(frozen=True)
class AskedPicture:
    """A picture that a network was run on.

    `names` are the names of the network's classes, `size` is the (height, width) of the picture,
    and `fed` says what the network got of it. `image` is there if it may be drawn on.
    """

    names: Sequence[str]
    size: Size
    fed: InputSize
    image: Image | None = None


def features(outputs: Outputs) -> PictureAnswer:
    """Answer of a network whose outputs say nothing yet."""
    return PictureAnswer("features", features=outputs)


def classes(outputs: Outputs, names: Sequence[str], scores: Scores) -> PictureAnswer:
    """Answer of a classifier; of a network without one, or a file without its output, the
    features."""
    if "logits" not in outputs:
        return features(outputs)
    return PictureAnswer("classes", best(SCORES[scores](outputs["logits"]), names))


def best(scores: Float32, names: Sequence[str], count: int = BEST) -> tuple[Answer, ...]:
    """The names with the largest scores, the first of equals first."""
    places = np.argsort(-scores, kind="stable")[:count]
    return tuple(Answer(names[place], float(scores[place])) for place in places)


def unit(vectors: Float32) -> Float32:
    """Vectors at length 1, along the last axis."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def in_sentences(labels: Sequence[str], template: str = TEMPLATE) -> list[str]:
    """A sentence for each label. **Raises** `BadRequest` for something that is no labels."""
    is_list = not isinstance(labels, str) and all(isinstance(each, str) for each in labels)
    if not is_list or "{}" not in template:
        raise BadRequest(
            f"got labels {ascii(labels)[:80]} in {ascii(template)[:80]}: give a list of "
            "strings, and a sentence with {} in it."
        )
    return [template.replace("{}", label) for label in labels]


def likeliest_first(logits: Float32, labels: Sequence[str], scores: Scores) -> list[Answer]:
    """How likely each label is, of `logits [labels]`, the likeliest first."""
    return list(best(SCORES[scores](logits), labels, len(labels)))
