"""Compute the answer of a network about one picture from its outputs."""

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
    """The (height, width) of a network's input, and whether the picture was padded to that size."""

    size: Size
    padded: bool


def fit_size(image: Size, size: Size) -> Size:
    """Return the largest (height, width) with the proportions of `image` that fits into `size`.

    `image` and `size` are (height, width) too. The result is also larger than `image` if `size` is.
    Each side of the result is at least one pixel. Source: `get_size_with_aspect_ratio` of
    transformers. Its arithmetic, which is repeated here, can make the longer side one pixel shorter
    than `size`.
    """
    (height, width), (max_height, max_width) = image, size
    if height * max_width > width * max_height:
        exact = max_height * width / height
        return int(exact * height / width), max(1, round(exact))
    exact = max_width * height / width
    return max(1, round(exact)), int(exact * width / height)


Scores = Literal["softmax", "sigmoid", "none"]
"""The function that turns logits into scores: `softmax` for classes that exclude each other,
`sigmoid` for independent classes, `none` for logits that are scores already."""


def softmax(logits: Float32) -> Float32:
    """Return the probabilities of classes that exclude each other: softmax over the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def sigmoid(logits: Float32) -> Float32:
    """Return the probability of each class independently of the others: the logistic function.

    It does not overflow for large or small logits.
    """
    probabilities: Float32 = np.exp(-np.logaddexp(np.float32(0), -logits))
    return probabilities


SCORES: Mapping[Scores, Callable[[Float32], Float32]] = {
    "softmax": softmax,
    "sigmoid": sigmoid,
    "none": lambda logits: logits,
}


Outputs = Mapping[str, NDArray[Any]]

BEST_COUNT = 5


Corners = tuple[float, float, float, float]
"""The left, top, right and bottom edge of a box, in pixels from the upper left corner."""


class Answer(NamedTuple):
    """A name and its score from 0 to 1.

    The score is the network's confidence, or the share of the picture for a class of patches.
    """

    label: str
    score: float


@dataclass(frozen=True)
class PictureAnswer:
    """The answer of a network about one picture.

    - `kind`: the form of the answer, which determines the fields that are set.
    - `answers`: names with scores, best first: one for each class, area or box.
    - `boxes`: the left, top, right and bottom edge in pixels of the box of each answer.
    - `drawing`: a picture of the answer, at the size of the input picture, or None.
    - `values`: the numbers that `drawing` shows, `[height, width]`, or None.
    - `features`: the outputs of a network whose outputs have no meaning in words.
    """

    kind: Literal["classes", "areas", "boxes", "depth", "features"]

    answers: tuple[Answer, ...] = ()
    drawing: Image | None = None
    values: NDArray[Any] | None = None
    features: Outputs = field(default_factory=dict)
    boxes: tuple[Corners, ...] = ()


TEMPLATE = "This is a photo of {}."
"""The sentence into which the pipeline of transformers puts labels."""


@dataclass(frozen=True)
class Question:
    """The question of a user about pictures.

    - `labels`: words for what the pictures may show, for networks that compare pictures with texts.
    - `template`: the sentence into which each label is put, in place of `{}`.
    - `threshold`: the score that a box must exceed, from 0 to 1; None for the default.
    """

    labels: Sequence[str] = ()
    template: str = TEMPLATE
    threshold: float | None = None

    @property
    def sentences(self) -> list[str]:
        """The sentences to compare with a picture: `template` with each label in place of `{}`.

        **Raises** `BadRequest` if the labels are no list of strings, or `template` contains no
        `{}`.
        """
        return make_sentences(self.labels, self.template)


@dataclass(frozen=True)
class InputPicture:
    """A picture that a network was run on.

    - `names`: the names of the network's classes.
    - `size`: the (height, width) of the picture.
    - `input_size`: the size of the network's input, and whether the picture was padded.
    - `image`: the RGB picture, on which boxes are drawn. Without it, no boxes are drawn.
    """

    names: Sequence[str]
    size: Size
    input_size: InputSize
    image: Image | None = None


def answer_features(outputs: Outputs) -> PictureAnswer:
    """Return an answer of kind `features` that contains the outputs, without names and scores."""
    return PictureAnswer("features", features=outputs)


def answer_classes(outputs: Outputs, names: Sequence[str], scores: Scores) -> PictureAnswer:
    """Return the `BEST_COUNT` classes with the largest scores, from the output `logits [classes]`.

    If there is no output `logits`, return the outputs as features.

    **Arguments**

    - `outputs`: the outputs for one picture, by name.
    - `names`: the names of the classes, in the order of the logits.
    - `scores`: the function that turns logits into scores.
    """
    if "logits" not in outputs:
        return answer_features(outputs)
    return PictureAnswer("classes", best_answers(SCORES[scores](outputs["logits"]), names))


def best_answers(
    scores: Float32, names: Sequence[str], count: int = BEST_COUNT
) -> tuple[Answer, ...]:
    """Return the `count` largest scores with their names, in descending order.

    If there are fewer scores, return all of them. Equal scores keep the order of their names.

    **Arguments**

    - `scores`: one number for each name, `[names]`.
    - `names`: the names in the order of the scores.
    """
    indices = np.argsort(-scores, kind="stable")[:count]
    return tuple(Answer(names[index], float(scores[index])) for index in indices)


def normalize_vectors(vectors: Float32) -> Float32:
    """Return the vectors along the last axis divided by their Euclidean lengths.

    A vector of zeros becomes NaN.
    """
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def make_sentences(labels: Sequence[str], template: str = TEMPLATE) -> list[str]:
    """Return a sentence for each label: the template with the label in place of `{}`.

    **Raises** `BadRequest` if the labels are no list of strings, or the template contains no `{}`.
    """
    is_list = not isinstance(labels, str) and all(isinstance(label, str) for label in labels)
    if not is_list or "{}" not in template:
        raise BadRequest(
            f"got labels {ascii(labels)[:80]} and template {ascii(template)[:80]}: give a list "
            "of strings, and a template that contains {}."
        )
    return [template.replace("{}", label) for label in labels]


def rank_labels(logits: Float32, labels: Sequence[str], scores: Scores) -> list[Answer]:
    """Return all labels with their scores, best first.

    **Arguments**

    - `logits`: one number for each label, `[labels]`.
    - `labels`: the labels in the order of the logits.
    - `scores`: the function that turns logits into scores.
    """
    return list(best_answers(SCORES[scores](logits), labels, len(labels)))
