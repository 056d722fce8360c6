"""`zoo run MODEL PICTURE…`: what a model says of pictures."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np

from zoo.cli.command_options import Json, options_of
from zoo.cli.console import CommandResult, print_picture
from zoo.cli.model_argument import file_of, model_in_jax, named_model
from zoo.common.errors import FAILED_CHECK, BadRequest
from zoo.common.options import FORCE, Option, argument, out_folder, weights_from
from zoo.common.terminal import complain

if TYPE_CHECKING:
    from PIL.Image import Image

    from zoo.cli.tables import Block
    from zoo.tasks.answer import PictureAnswer, Question

MODEL = named_model(", which run in ONNX Runtime")
PICTURES = argument("[PICTURE]...", "Pictures; a photograph without any.")
LABELS = Option(
    "TEXT,TEXT",
    "What may be in the pictures, in words; of a model that has a tower for texts too.",
    several=True,
)

THRESHOLD = Option(
    "SHARE",
    "How sure a network has to be of a thing in a box, from 0 to 1.",
    default="0.5",
    least=0,
    most=1,
)


@dataclass(frozen=True)
class WrittenAnswer:
    """Answer about a picture, and the files that were written of it."""

    picture: str
    answer: "PictureAnswer"
    files: tuple[Path, ...]

    def blocks(self) -> "Iterator[Block]":
        """Yield what is printed: a table of answers, and the files."""
        from zoo.cli.tables import Table

        if self.answer.answers:
            boxes = [f"{', '.join(f'{edge:.1f}' for edge in box)}" for box in self.answer.boxes]
            titles = ("answer", ">score", "left, top, right, bottom")[: 3 if boxes else 2]
            pairs = zip_longest(self.answer.answers, boxes)
            rows = [(label, f"{score:.4f}", box)[: len(titles)] for (label, score), box in pairs]
            yield Table(titles, rows, self.picture)
        elif self.answer.kind == "boxes":
            yield f"{self.picture}: nothing that the network is sure of"
        for file in self.files:
            yield f"{self.picture}: {file}"

    def record(self) -> dict[str, object]:
        """Return the answer for JSON."""
        answers: list[dict[str, object]] = [each._asdict() for each in self.answer.answers]
        for answer, box in zip(answers, self.answer.boxes, strict=False):
            answer["box"] = box
        files = {"files": self.files} if self.files else {}
        return {"picture": self.picture, "answers": answers, **files}

    def write(self) -> None:
        """Write the files."""
        from zoo.apps.show.save import save_picture
        from zoo.common.staging import replacing

        if self.answer.drawing is not None:
            save_picture(self.answer.drawing, *self.files)
        for file, values in zip(self.files, self.answer.features.values(), strict=False):
            with replacing(file) as path:
                np.save(path, values)


@dataclass(frozen=True)
class RunResult:
    """Answers about pictures, and the reasons why other pictures cannot be read."""

    answers: Sequence[WrittenAnswer]
    refused: Mapping[str, str]

    def blocks(self) -> "Iterator[Block]":
        """Yield what is printed on stdout."""
        for answer in self.answers:
            yield from answer.blocks()

    def record(self) -> list[object]:
        """Return all answers and errors for JSON."""
        unread = [{"picture": picture, "error": why} for picture, why in self.refused.items()]
        return [*(answer.record() for answer in self.answers), *unread]


@options_of()
def run(
    model: Annotated[str, MODEL],
    images: Annotated[Sequence[Path], PICTURES] = (),
    weights: Annotated[str | None, weights_from("auto; a file or a folder has its own")] = None,
    labels: Annotated[Sequence[str], LABELS] = (),
    threshold: Annotated[float | None, THRESHOLD] = None,
    out: Annotated[Path, out_folder("the current folder")] = Path(),
    force: Annotated[bool, FORCE] = False,
    json: Json = False,
) -> int:
    """Say what is in pictures: their classes, things in boxes, areas, depths, or their features.

    Of a classifier the five best classes are printed, of things in boxes those that the network is
    surer of than --threshold. Boxes, areas and depths become a picture, features .npy files. Where
    some of several pictures cannot be read, the others are answered, and the exit code is 1.
    """
    from zoo.common.progress import is_terminal
    from zoo.common.staging import check_free
    from zoo.images.photograph import STORED, photograph
    from zoo.tasks.answer import Question

    named = [str(image) for image in images]
    readable, refused = _read(named) if named else ({STORED: photograph()}, {})
    named = [name for name in named if name in readable] or [STORED]
    question = Question(labels, threshold=threshold)
    answers = _answers(model, weights, [readable[name] for name in named], question)
    result = RunResult(
        [
            WrittenAnswer(picture, answer, _files(answer, out / stem))
            for picture, stem, answer in zip(named, _stems(named), answers, strict=True)
        ],
        refused,
    )
    for written in result.answers:
        for file in written.files:
            check_free(file, force)
    for written in result.answers:
        written.write()
    if not json and is_terminal(sys.stdout):
        for answer in answers:
            if answer.drawing is not None:
                print_picture(answer.drawing)
    code = FAILED_CHECK if refused else 0
    CommandResult(result, RunResult.blocks, RunResult.record, code).show(json)
    for picture, why in refused.items():
        complain(f"error: {why}" if picture in why else f"error: {picture}: {why}")
    return code


def _read(asked: Sequence[str]) -> "tuple[dict[str, Image], dict[str, str]]":
    """The pictures that can be read, and why others cannot. **Raises** `BadRequest` where there
    is none that can."""
    from zoo.images.pictures import pictures

    readable: dict[str, Image] = {}
    refused: dict[str, str] = {}
    for each in asked:
        try:
            (readable[each],) = pictures(each)
        except BadRequest as error:
            refused[each] = str(error)
            if len(refused) == len({*asked}):
                raise
    return readable, refused


def _answers(
    model: str, weights: str | None, images: "Sequence[Image]", question: "Question"
) -> "list[PictureAnswer]":
    """Ask a file or a folder in ONNX Runtime, or else a model in JAX."""
    from zoo.artifacts.session import open_file

    if (file := file_of(model, weights)) is not None:
        return open_file(file).ask(images, question)
    name, place = model_in_jax(model, weights)
    from zoo.checkpoints.checkpoint_tokenizer import load_tokenizer

    # Without a tokenizer no network answers this: it is looked for before weights are read.
    tokenizer = load_tokenizer(name, place) if question.labels else None
    from zoo.artifacts.in_jax import to_answering_network
    from zoo.checkpoints.pretrained import from_pretrained

    return to_answering_network(from_pretrained(name, place), tokenizer).answers(images, question)


def _stems(pictures: Sequence[str]) -> list[str]:
    """How files about pictures begin: with their names, numbered where several have one, for a
    system too that does not tell small letters from capitals."""
    stems: dict[str, str] = {}
    for picture in pictures:
        name = stem = Path(picture).stem
        for number in count(2):
            if stem.casefold() not in stems:
                break
            stem = f"{name}-{number}"
        stems[stem.casefold()] = stem
    return list(stems.values())


def _files(answer: "PictureAnswer", stem: Path) -> tuple[Path, ...]:
    """Return where the drawing of an answer goes, or its features as numpy's files."""
    if answer.drawing is not None:
        return (stem.with_name(f"{stem.name}-{answer.kind}.png"),)
    return tuple(stem.with_name(f"{stem.name}-{name}.npy") for name in answer.features)
