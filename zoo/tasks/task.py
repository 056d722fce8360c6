"""Tasks of networks: outputs, answers, drawings, comparisons, and descriptions for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from zoo.tasks.answer import InputPicture, Outputs, PictureAnswer, Question, Size, answer_features


class OutputDescription(NamedTuple):
    """The shape of an output as model cards write it, and the meaning of the output in words.

    `{pooler}` in the words is replaced by the words about the pooled vector of a published model.
    """

    shape: str
    words: str


Drawing: TypeAlias = tuple[NDArray[np.uint8], str]
"""A picture `[height, width, 3]`, and its caption."""

Similarity: TypeAlias = Callable[[Mapping[str, Any]], tuple[float, float]]
"""Returns the scale and the bias that turn a cosine into a logit, from the leaves of a network."""


def keep_outputs(got: Outputs, expected: Outputs) -> tuple[Outputs, Outputs]:
    """Return both outputs unchanged, because the order of their rows has a meaning."""
    return got, expected


def answer_with_features(
    outputs: Outputs, picture: InputPicture, question: Question
) -> PictureAnswer:
    """Return the outputs as features, because they have no meaning in words."""
    return answer_features(outputs)


def draw_nothing(outputs: Outputs, size: Size) -> Drawing | None:
    """Return None, because the outputs cannot be drawn."""
    return None


@dataclass(frozen=True, kw_only=True)
class Task:
    """The meaning of a network's outputs, and the functions that read them.

    - `name`: the name of the task on model hubs.
    - `purpose`: a sentence about the use of a network. `purpose` in `zoo.registry.model_words`
      fills in `{classes:,}`, examples of classes `{such}`, `{stride}`, and `{whole}` for a pooled
      vector.
    - `outputs`: the outputs that a file may have, by name.
    - `answer`: computes the answer about one picture from its outputs, without the batch axis.
    - `label_outputs`: the outputs that answer a question with labels.
    - `draw`: draws the outputs of a batch of one, for a picture of size (height, width). All
      numbers are finite. It returns None if there is nothing to draw.
    - `page_draws`: the outputs that the web page of a network needs for its drawing.
    - `compare`: turns the outputs of a low-precision file and the expected outputs into numbers
      that can be compared, if rounding may change the order of rows.
    - `exact`: outputs that half precision computes in float32, because they are coordinates.
    - `similarity`: returns the scale and the bias of a network that compares pictures with texts.
    """

    name: str
    purpose: str
    outputs: Mapping[str, OutputDescription]
    answer: Callable[[Outputs, InputPicture, Question], PictureAnswer] = answer_with_features
    label_outputs: tuple[str, ...] = ()
    draw: Callable[[Outputs, Size], Drawing | None] = draw_nothing
    page_draws: frozenset[str] = frozenset()
    compare: Callable[[Outputs, Outputs], tuple[Outputs, Outputs]] = keep_outputs
    exact: tuple[str, ...] = ()
    similarity: Similarity | None = None

    def describe_outputs(self, pooler: str) -> dict[str, OutputDescription]:
        """Return the outputs with the words about a model's pooled vector filled in."""
        return {
            name: OutputDescription(shape, words.replace("{pooler}", pooler))
            for name, (shape, words) in self.outputs.items()
        }
