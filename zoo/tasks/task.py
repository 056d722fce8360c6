"""Tasks of networks: outputs, answers, drawings, comparisons, and words for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from zoo.tasks.answer import AskedPicture, Outputs, PictureAnswer, Question, Size, features


class GivenOutput(NamedTuple):
    """An output's shape as model cards write it, and its meaning in words.

    `{pooler}` in the words stands for the words about the pooled vector of a published model.
    """

    shape: str
    words: str


Drawing: TypeAlias = tuple[NDArray[np.uint8], str]
"""A picture [height, width, 3], and what is on it, in words."""

Similarity: TypeAlias = Callable[[Mapping[str, Any]], tuple[float, float]]
"""Reads the factor and the summand that make a logit of a cosine from the leaves of a network."""


def keep_outputs(got: Outputs, wanted: Outputs) -> tuple[Outputs, Outputs]:
    """Return both as they are: the order of these outputs has a meaning."""
    return got, wanted


def answer_with_features(
    outputs: Outputs, picture: AskedPicture, question: Question
) -> PictureAnswer:
    """Return the outputs, which have no meaning in words."""
    return features(outputs)


def draw_nothing(outputs: Outputs, size: Size) -> Drawing | None:
    """Return None: there is nothing to draw."""
    return None


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a network computes, and how its outputs are read.

    - `name`: the task's name on model hubs.
    - `purpose`: a sentence that says what a network is for. `purpose_of` in `zoo.registry` fills in
      `{classes:,}`, examples of classes `{such}`, `{stride}`, and `{whole}` for a pooled vector.
    - `outputs`: the outputs that a file may have, by name.
    - `answer`: makes the answer about one picture of the outputs for it, without the batch axis.
    - `label_outputs`: the outputs that answer a question with labels.
    - `draw`: draws the outputs for a batch of one, for pictures of a size (height, width). All
      numbers are finite. Returns None where there is nothing to draw.
    - `page_draws`: the outputs that the web page of a network needs for its drawing.
    - `compare`: makes comparable numbers of the outputs of a file in low precision and of the
      expected ones, where rounding may change the order of rows.
    - `exact`: outputs that half precision computes in float32, because they are coordinates.
    - `similarity`: for networks that compare pictures with texts.
    """

    name: str
    purpose: str
    outputs: Mapping[str, GivenOutput]
    answer: Callable[[Outputs, AskedPicture, Question], PictureAnswer] = answer_with_features
    label_outputs: tuple[str, ...] = ()
    draw: Callable[[Outputs, Size], Drawing | None] = draw_nothing
    page_draws: frozenset[str] = frozenset()
    compare: Callable[[Outputs, Outputs], tuple[Outputs, Outputs]] = keep_outputs
    exact: tuple[str, ...] = ()
    similarity: Similarity | None = None

    def described(self, pooler: str) -> dict[str, GivenOutput]:
        """Return the outputs with the words about a model's pooled vector filled in."""
        return {
            name: GivenOutput(shape, words.replace("{pooler}", pooler))
            for name, (shape, words) in self.outputs.items()
        }
