"""Answer questions about pictures with a network that runs in JAX or in ONNX Runtime."""

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
class AnsweringNetwork:
    """A network, in JAX or in ONNX Runtime, that answers questions about pictures.

    Arguments:
        name: name of the model.
        config: configuration of the network.
        class_names: names of the network's classes, in the order of the logits.
        input_kinds: the kinds of inputs that this file or module takes. A file may hold only one of
            the two towers of a network.
        preprocessing: how pictures become arrays.
        size: (height, width) of the network's input, or None if it depends on the picture.
        feed_pictures: function from RGB images to the arrays that `run` takes.
        feed_texts: function from texts to the arrays that `run` takes.
        run: function from arrays and output names to outputs by name. No names mean all outputs.
    """

    name: str
    config: Config
    class_names: Sequence[str]
    input_kinds: frozenset[Kind]
    preprocessing: Preprocessing
    size: Size | None
    feed_pictures: Callable[[Sequence[Image]], Feeds]
    feed_texts: Callable[[Sequence[str]], Feeds]
    run: Callable[[Feeds, Sequence[str]], Outputs]

    def answers(self, images: Sequence[Image], question: Question) -> list[PictureAnswer]:
        """Return the answer to a question about each RGB image, in the order of the images.

        The network runs on one image at a time. **Raises** `BadRequest` for a question that the
        network cannot answer.
        """
        self._check(question)
        task, texts, output_names = self.config.task, Feeds(), tuple[str, ...]()
        if question.labels:
            output_names = task.label_outputs
            texts = self.feed_texts(question.sentences)
        answers = []
        for image in images:
            batches = self.run(self.feed_pictures([image]) | texts, output_names)
            outputs = {name: row[0] for name, row in batches.items()}
            size = image.height, image.width
            input_size = InputSize(
                self.size or self.preprocessing.input_size_for(*size), self.preprocessing.padded
            )
            picture = InputPicture(self.class_names, size, input_size, image)
            answers.append(task.answer(outputs, picture, question))
        return answers

    def _check(self, question: Question) -> None:
        """Check that the labels of a question fit the inputs of the network.

        **Raises** `BadRequest` for a question without labels if the network takes texts. It is also
        raised for a question with labels, unless the network takes pictures and texts and compares
        them.
        """
        takes_texts = "text" in self.input_kinds
        if not question.labels and takes_texts:
            input_names = " and ".join(
                name for network_input in self.config.inputs for name in network_input.names
            )
            raise BadRequest(
                f"{self.name} takes {input_names}, not pictures alone: with both towers, name what "
                f"may be in pictures with {parameter('labels')}, or ask the `text`, `image` or "
                "`classify` of what `zoo.load` gives; with one, build it first."
            )
        if question.labels and not (self.config.task.similarity and len(self.input_kinds) == 2):
            raise BadRequest(
                f"{parameter('labels')} is for a model with towers for pictures and for texts, and "
                f"{self.name} is none: `zoo list '*_dual'` names them."
            )


def check_logits(path: object, outputs: Outputs, question: Question) -> None:
    """Check that a file returned one logit for each label of a question about one picture.

    Nothing is checked for a question without labels, or outputs without `logits_per_image`. `path`
    is the file, for the message. **Raises** `BadFile`.
    """
    logits = outputs.get("logits_per_image")
    count = len(question.labels)
    if count and logits is not None and logits.shape != (1, count):
        raise BadFile(
            f"{path} gives logits_per_image {list(logits.shape)} for a picture and {count} labels: "
            "pull or build the folder again."
        )
