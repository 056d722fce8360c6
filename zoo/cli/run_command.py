"""`zoo run MODEL PICTURE…`: print and draw the answers of a model about pictures."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np

from zoo.cli.command_options import Json, derive_options
from zoo.cli.console import CommandResult, print_picture
from zoo.cli.model_argument import declare_model_argument, find_onnx_file, resolve_jax_model
from zoo.common.errors import FAILED_CHECK, BadRequest
from zoo.common.options import FORCE, Option, argument, out_folder_option, weights_option
from zoo.common.terminal import print_stderr

if TYPE_CHECKING:
    from PIL.Image import Image

    from zoo.cli.tables import Block
    from zoo.tasks.answer import PictureAnswer, Question

MODEL = declare_model_argument(", which run in ONNX Runtime")
PICTURES = argument("[PICTURE]...", "Pictures; by default a photograph in this package.")
LABELS = Option(
    "TEXT,TEXT",
    "Words for what the pictures may show, for a model that compares pictures with texts.",
    several=True,
)

THRESHOLD = Option(
    "SHARE",
    "Score that a box must exceed to be printed, from 0 to 1.",
    default="0.5",
    minimum=0,
    maximum=1,
)


@dataclass(frozen=True)
class WrittenAnswer:
    """The answer about a picture, and the files that it is written to.

    - `picture`: the name of the picture.
    - `answer`: the answer.
    - `files`: the path of the drawing, or of the file of each feature. The tuple may be empty.
    """

    picture: str
    answer: "PictureAnswer"
    files: tuple[Path, ...]

    def blocks(self) -> "Iterator[Block]":
        """Yield what is printed: a table of the answers, and the paths of the files."""
        from zoo.cli.tables import Table

        if self.answer.answers:
            boxes = [f"{', '.join(f'{edge:.1f}' for edge in box)}" for box in self.answer.boxes]
            titles = ("answer", ">score", "left, top, right, bottom")[: 3 if boxes else 2]
            labelled_boxes = zip_longest(self.answer.answers, boxes)
            rows = [
                (label, f"{score:.4f}", box)[: len(titles)]
                for (label, score), box in labelled_boxes
            ]
            yield Table(titles, rows, self.picture)
        elif self.answer.kind == "boxes":
            yield f"{self.picture}: no box with a score above the threshold"
        for file in self.files:
            yield f"{self.picture}: {file}"

    def record(self) -> dict[str, object]:
        """Return the answer as `--json` prints it."""
        answers: list[dict[str, object]] = [answer._asdict() for answer in self.answer.answers]
        for answer, box in zip(answers, self.answer.boxes, strict=False):
            answer["box"] = box
        files = {"files": self.files} if self.files else {}
        return {"picture": self.picture, "answers": answers, **files}

    def write(self) -> None:
        """Write the drawing as a picture, or each feature as a .npy file. Existing files are
        replaced."""
        from zoo.apps.show.save import save_picture
        from zoo.common.staging import replacing

        if self.answer.drawing is not None:
            save_picture(self.answer.drawing, *self.files)
        for file, values in zip(self.files, self.answer.features.values(), strict=False):
            with replacing(file) as path:
                np.save(path, values)


@dataclass(frozen=True)
class RunResult:
    """The answers about pictures.

    - `answers`: the answers about the pictures that can be read.
    - `unreadable`: the reasons why other pictures cannot be read, by the name of the picture.
    """

    answers: Sequence[WrittenAnswer]
    unreadable: Mapping[str, str]

    def blocks(self) -> "Iterator[Block]":
        """Yield what is printed on stdout: the answers."""
        for answer in self.answers:
            yield from answer.blocks()

    def record(self) -> list[object]:
        """Return all answers and errors as `--json` prints them."""
        unread = [
            {"picture": picture, "error": reason} for picture, reason in self.unreadable.items()
        ]
        return [*(answer.record() for answer in self.answers), *unread]


@derive_options()
def run(
    model: Annotated[str, MODEL],
    images: Annotated[Sequence[Path], PICTURES] = (),
    weights: Annotated[str | None, weights_option("auto; a file or a folder has its own")] = None,
    labels: Annotated[Sequence[str], LABELS] = (),
    threshold: Annotated[float | None, THRESHOLD] = None,
    out: Annotated[Path, out_folder_option("the current folder")] = Path(),
    force: Annotated[bool, FORCE] = False,
    json: Json = False,
) -> int:
    """Print what a model sees in pictures: classes, boxes, areas, depths or features.

    A classifier prints its five best classes. A detector prints the boxes whose score is above
    --threshold. Boxes, areas and depths are also drawn as a picture, and features are written as
    .npy files. If some of several pictures cannot be read, the others are answered and the exit
    code is 1.
    """
    from zoo.common.progress import is_terminal
    from zoo.common.staging import check_free
    from zoo.images.photograph import STORED, photograph
    from zoo.tasks.answer import Question

    names = [str(image) for image in images]
    readable, unreadable = _read_pictures(names) if names else ({STORED: photograph()}, {})
    names = [name for name in names if name in readable] or [STORED]
    question = Question(labels, threshold=threshold)
    answers = _compute_answers(model, weights, [readable[name] for name in names], question)
    result = RunResult(
        [
            WrittenAnswer(picture, answer, _answer_files(answer, out / stem))
            for picture, stem, answer in zip(names, _file_stems(names), answers, strict=True)
        ],
        unreadable,
    )
    for answered in result.answers:
        for file in answered.files:
            check_free(file, force)
    for answered in result.answers:
        answered.write()
    if not json and is_terminal(sys.stdout):
        for answer in answers:
            if answer.drawing is not None:
                print_picture(answer.drawing)
    code = FAILED_CHECK if unreadable else 0
    CommandResult(result, RunResult.blocks, RunResult.record, code).show(json)
    for picture, reason in unreadable.items():
        print_stderr(f"error: {reason}" if picture in reason else f"error: {picture}: {reason}")
    return code


def _read_pictures(paths: Sequence[str]) -> "tuple[dict[str, Image], dict[str, str]]":
    """Return the pictures that can be read, and the reasons why others cannot, both by path.

    **Raises** `BadRequest` if no picture can be read.
    """
    from zoo.images.pictures import pictures

    readable: dict[str, Image] = {}
    unreadable: dict[str, str] = {}
    for path in paths:
        try:
            (readable[path],) = pictures(path)
        except BadRequest as error:
            unreadable[path] = str(error)
            if len(unreadable) == len({*paths}):
                raise
    return readable, unreadable


def _compute_answers(
    model: str, weights: str | None, images: "Sequence[Image]", question: "Question"
) -> "list[PictureAnswer]":
    """Return the answer to a question about each picture.

    If `model` is an ONNX file or a built folder, it runs in ONNX Runtime. Otherwise `model` is the
    name of a model or the path of a checkpoint and runs in JAX. `weights` is the option
    `--weights`, or None.
    """
    from zoo.artifacts.session import open_file

    if (file := find_onnx_file(model, weights)) is not None:
        return open_file(file).ask(images, question)
    name, weights_text = resolve_jax_model(model, weights)
    from zoo.checkpoints.checkpoint_tokenizer import load_tokenizer

    # Labels need a tokenizer. It is found, or refused, before the weights are read.
    tokenizer = load_tokenizer(name, weights_text) if question.labels else None
    from zoo.artifacts.jax_network import to_answering_network
    from zoo.checkpoints.pretrained import from_pretrained

    return to_answering_network(from_pretrained(name, weights_text), tokenizer).answers(
        images, question
    )


def _file_stems(pictures: Sequence[str]) -> list[str]:
    """Return a file stem for each picture, so that all stems differ.

    It is the stem of the picture's name, with a number such as `-2` if an earlier picture has the
    same one. Stems that differ only in case count as equal, because some file systems ignore case.
    """
    stems: dict[str, str] = {}
    for picture in pictures:
        name = stem = Path(picture).stem
        for number in count(2):
            if stem.casefold() not in stems:
                break
            stem = f"{name}-{number}"
        stems[stem.casefold()] = stem
    return list(stems.values())


def _answer_files(answer: "PictureAnswer", stem: Path) -> tuple[Path, ...]:
    """Return the paths of the files to which an answer is written.

    They are a .png file of its drawing, or one .npy file for each of its features. All begin with
    `stem`, a path without an ending.
    """
    if answer.drawing is not None:
        return (stem.with_name(f"{stem.name}-{answer.kind}.png"),)
    return tuple(stem.with_name(f"{stem.name}-{name}.npy") for name in answer.features)
