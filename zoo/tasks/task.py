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

    An example of a shape is `[batch_size, 384]`. `{pooler}` in the words stands for a description
    of a model's pooled vector.
    """

    shape: str
    words: str


Drawing: TypeAlias = tuple[NDArray[np.uint8], str]
"""A picture `[height, width, 3]`, and its caption."""

Similarity: TypeAlias = Callable[[Mapping[str, Any]], tuple[float, float]]
"""A function that reads the scale and the bias of a network's logits from its leaves.

A logit is the scale times the cosine of two vectors, plus the bias. The leaves are arrays by name.
"""


def keep_outputs(actual: Outputs, expected: Outputs) -> tuple[Outputs, Outputs]:
    """Return both arguments unchanged: the default of `Task.align_outputs`.

    It suits outputs whose rows have a fixed order.
    """
    return actual, expected


def answer_with_features(
    outputs: Outputs, picture: InputPicture, question: Question
) -> PictureAnswer:
    """Return the outputs as features: the default of `Task.answer`.

    It suits outputs that have no meaning in words.
    """
    return answer_features(outputs)


def draw_nothing(outputs: Outputs, size: Size) -> Drawing | None:
    """Return None: the default of `Task.draw`, for outputs that cannot be drawn."""
    return None


@dataclass(frozen=True, kw_only=True)
class Task:
    """The meaning of a network's outputs, and the functions that interpret them.

    - `name`: the name of the task on model hubs.
    - `purpose`: a sentence about the use of a network. `describe_purpose` in
      `zoo.registry.model_descriptions` fills in `{classes:,}`, examples of classes `{such}`,
      `{stride}`, and `{whole}` for a pooled vector.
    - `outputs`: descriptions of the outputs that a file may have, by name.
    - `answer`: computes the answer about one picture. Its arguments are the outputs without the
      batch axis, the picture, and the question.
    - `label_outputs`: the names of the outputs that answer a question with labels.
    - `draw`: draws the outputs of a batch of one picture. Its arguments are the outputs, all of
      whose numbers are finite, and the (height, width) of the picture. It returns None if there is
      nothing to draw.
    - `page_draws`: the names of the outputs that the web page of a network needs for its drawing.
    - `align_outputs`: makes the numbers of a low-precision file's outputs comparable with those of
      the expected outputs, if rounding may change the order of rows.
    - `exact`: the names of outputs that half precision computes in float32, because they are
      coordinates.
    - `similarity`: reads the scale and the bias of the logits of a network that compares pictures
      with texts. None for other networks.
    """

    name: str
    purpose: str
    outputs: Mapping[str, OutputDescription]
    answer: Callable[[Outputs, InputPicture, Question], PictureAnswer] = answer_with_features
    label_outputs: tuple[str, ...] = ()
    draw: Callable[[Outputs, Size], Drawing | None] = draw_nothing
    page_draws: frozenset[str] = frozenset()
    align_outputs: Callable[[Outputs, Outputs], tuple[Outputs, Outputs]] = keep_outputs
    exact: tuple[str, ...] = ()
    similarity: Similarity | None = None

    def describe_outputs(self, pooler: str) -> dict[str, OutputDescription]:
        """Return the output descriptions with `pooler` in place of `{pooler}` in their words.

        `pooler` describes a model's pooled vector.
        """
        return {
            name: OutputDescription(shape, words.replace("{pooler}", pooler))
            for name, (shape, words) in self.outputs.items()
        }
