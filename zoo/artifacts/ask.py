"""Questions about pictures, answered by a network that runs in JAX or in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weights.parameters import parameter
from zoo.architectures.architecture import Config
from zoo.architectures.inputs import Feeds, Kind
from zoo.common.errors import BadFile, BadRequest
from zoo.images.preprocessing import Preprocessing
from zoo.tasks.answer import InputPicture, InputSize, Outputs, PictureAnswer, Question

if TYPE_CHECKING:
    from PIL.Image import Image

Size = tuple[int, int]  # (height, width)


@dataclass(frozen=True)
class AskedNetwork:
    """A network that can be asked about pictures.

    - `name` and `config` are the model's; `names` are the names of its classes.
    - `takes` are the kinds of things that it takes as it is here: a file may be of one tower alone.
    - `size` is the (height, width) of its input; None where that follows the picture.
    - `feed_pictures` and `feed_texts` make the arrays that `run` takes; `run` returns all outputs
      by name, or those that are asked for.
    """

    name: str
    config: Config
    names: Sequence[str]
    takes: frozenset[Kind]
    preprocessing: Preprocessing
    size: Size | None
    feed_pictures: Callable[[Sequence[Image]], Feeds]
    feed_texts: Callable[[Sequence[str]], Feeds]
    run: Callable[[Feeds, Sequence[str]], Outputs]

    def answers(self, images: Sequence[Image], question: Question) -> list[PictureAnswer]:
        """Return the answer about each of some RGB images.

        **Raises** `BadRequest` for a question that the network cannot answer.
        """
        self._check(question)
        task, texts, names = self.config.task, Feeds(), tuple[str, ...]()
        if question.labels:
            names = task.label_outputs
            texts = self.feed_texts(question.sentences)
        answers = []
        for image in images:
            rows = self.run(self.feed_pictures([image]) | texts, names)
            outputs = {name: row[0] for name, row in rows.items()}
            size = image.height, image.width
            fed = InputSize(
                self.size or self.preprocessing.fitted(*size), self.preprocessing.padded
            )
            picture = InputPicture(self.names, size, fed, image)
            answers.append(task.answer(outputs, picture, question))
        return answers

    def _check(self, question: Question) -> None:
        """**Raises** `BadRequest` where labels are missing, or are asked of another network."""
        takes_texts = "text" in self.takes
        if not question.labels and takes_texts:
            taken = " and ".join(name for each in self.config.inputs for name in each.names)
            raise BadRequest(
                f"{self.name} takes {taken}, not pictures alone: with both towers, name what may "
                f"be in pictures with {parameter('labels')}, or ask the `text`, `image` or "
                "`classify` of what `zoo.load` gives; with one, build it first."
            )
        if question.labels and not (self.config.task.similarity and len(self.takes) == 2):
            raise BadRequest(
                f"{parameter('labels')} is for a model with towers for pictures and for texts, and "
                f"{self.name} is none: `zoo list '*_dual'` names them."
            )


def check_logits(path: object, outputs: Outputs, question: Question) -> None:
    """**Raises** `BadFile` where a file does not give a logit for each label of a question."""
    logits = outputs.get("logits_per_image")
    count = len(question.labels)
    if count and logits is not None and logits.shape != (1, count):
        raise BadFile(
            f"{path} gives logits_per_image {list(logits.shape)} for a picture and {count} labels: "
            "pull or build the folder again."
        )
