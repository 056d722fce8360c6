"""`zoo run MODEL PICTURE…`: what a model says of pictures."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np

from zoo.cli.command_options import Json, options_of
from zoo.cli.console import print_picture, print_result
from zoo.cli.model_argument import file_of, model_in_jax, named_model
from zoo.common.errors import FAILED_CHECK, BadRequest
from zoo.common.options import FORCE, Option, argument, out_folder, weights_from
from zoo.common.terminal import complain, say

if TYPE_CHECKING:
    from PIL.Image import Image

    from zoo.tasks.answer import PictureAnswer

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
    answered: "PictureAnswer"
    files: tuple[Path, ...]


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
    from zoo.images.photograph import photograph

    asked = [str(image) for image in images]
    from zoo.images.photograph import STORED

    readable, refused = _read(asked) if asked else ({STORED: photograph()}, {})
    asked = [each for each in asked if each in readable] or [STORED]
    answers = _answers(model, [readable[each] for each in asked], weights, labels, threshold)
    answered = [
        WrittenAnswer(picture, each, _files(each, out / stem))
        for picture, stem, each in zip(asked, _stems(asked), answers, strict=True)
    ]
    for each in answered:
        for file in each.files:
            check_free(file, force)
    for each in answered:
        _write(each)
    if not json and is_terminal(sys.stdout):
        for each in answered:
            if each.answered.drawing is not None:
                print_picture(each.answered.drawing)
    unread = [{"picture": picture, "error": why} for picture, why in refused.items()]
    print_result(json, answered, _show, lambda all: [*map(_record, all), *unread])
    for picture, why in refused.items():
        complain(f"error: {why}" if picture in why else f"error: {picture}: {why}")
    return FAILED_CHECK if refused else 0


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
    model: str,
    images: "Sequence[Image]",
    weights: str | None,
    labels: Sequence[str],
    threshold: float | None,
) -> "list[PictureAnswer]":
    """From a file or a folder in ONNX Runtime, else from a model in JAX."""
    from zoo.artifacts.session import open_file
    from zoo.tasks.answer import PictureAnswer

    if (file := file_of(model, weights)) is not None:
        built = open_file(file)
        if labels:
            return [
                PictureAnswer("classes", tuple(built.classify([each], labels))) for each in images
            ]
        return built.answer(images, threshold)
    name, place = model_in_jax(model, weights)
    from zoo.checkpoints.checkpoint_tokenizer import tokenizer_of

    tokenizer = tokenizer_of(name, place) if labels else None
    from zoo.artifacts.in_jax import answers_in_words, answers_of
    from zoo.checkpoints.pretrained import from_pretrained

    network = from_pretrained(name, place)
    if tokenizer:
        return answers_in_words(network, tokenizer, images, labels)
    return answers_of(network, images, threshold)


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


def _files(answered: "PictureAnswer", stem: Path) -> tuple[Path, ...]:
    """Where that goes which is no name: a drawing, or features as numpy's files."""
    if answered.drawing is not None:
        return (stem.with_name(f"{stem.name}-{answered.kind}.png"),)
    return tuple(stem.with_name(f"{stem.name}-{name}.npy") for name in answered.features)


def _write(answer: WrittenAnswer) -> None:
    """Write the files of a picture."""
    from zoo.apps.show.save import save_picture
    from zoo.common.staging import replacing

    if answer.answered.drawing is not None:
        save_picture(answer.answered.drawing, *answer.files)
    for file, values in zip(answer.files, answer.answered.features.values(), strict=False):
        with replacing(file) as place:
            np.save(place, values)


def _show(pictures_told: list[WrittenAnswer]) -> None:
    from zoo.cli.tables import print_table

    for each in pictures_told:
        if each.answered.answers:
            boxes = [f"{', '.join(f'{edge:.1f}' for edge in box)}" for box in each.answered.boxes]
            titles = ("answer", ">score", "left, top, right, bottom")[: 3 if boxes else 2]
            answers = zip_longest(each.answered.answers, boxes)
            rows = ((label, f"{score:.4f}", box)[: len(titles)] for (label, score), box in answers)
            print_table(titles, rows, each.picture)
        elif each.answered.kind == "boxes":
            say(f"{each.picture}: nothing that the network is sure of")
        for file in each.files:
            say(f"{each.picture}: {file}")


def _record(row: WrittenAnswer) -> dict[str, object]:
    answers: list[dict[str, object]] = [each._asdict() for each in row.answered.answers]
    for answer, box in zip(answers, row.answered.boxes, strict=False):
        answer["box"] = box
    files = {"files": row.files} if row.files else {}
    return {"picture": row.picture, "answers": answers, **files}
