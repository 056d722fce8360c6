"""`zoo show MODEL IMAGE…`: draw the features of images."""

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from weights.parameters import parameter
from zoo.cli.command_options import Json, derive_options
from zoo.cli.console import CommandResult, print_picture
from zoo.cli.model_argument import file_of, model_in_jax, named_model
from zoo.common.errors import BadRequest
from zoo.common.options import FILE_OUT, FILE_SIZE, FORCE, Option, argument, weights_from

if TYPE_CHECKING:
    from PIL.Image import Image

    from zoo.apps.show.features import Features
    from zoo.images.pixel_values import Size


def read_patch(text: str) -> tuple[int, int]:
    """Return (row, column) of a text such as `3,5`. **Raises** `BadRequest`."""
    match = re.fullmatch(r"(\d{1,6}),(\d{1,6})", text, re.ASCII)
    if match is None:
        raise BadRequest(f"{parameter('patch')} {text} is no patch: write ROW,COLUMN, such as 3,5.")
    return int(match[1]), int(match[2])


SHOWN_SIZE = replace(
    FILE_SIZE, default="the file's, or twice the model's own where that has few patches"
)
PATCH = Option(
    "ROW,COLUMN",
    "The patch of the first image that the others are compared with, counted from 0.",
    default="the one in the middle",
    given=str,
    read=read_patch,
)


@derive_options()
def show(
    model: Annotated[str, named_model()],
    images: Annotated[Sequence[Path], argument("IMAGE", "Pictures.")],
    weights: Annotated[str | None, weights_from("auto; an .onnx file has its own")] = None,
    size: Annotated["Size | None", SHOWN_SIZE] = None,
    patch: Annotated[tuple[int, int] | None, PATCH] = None,
    out: Annotated[Path, FILE_OUT] = Path("features.png"),
    force: Annotated[bool, FORCE] = False,
    json: Json = False,
) -> int:
    """Draw the features of images, patch by patch, with matplotlib.

    The panels show principal components as colours and the cosine of all patches with one. For a
    model in JAX, another panel shows the attention of the class token. A line says if weights are
    random.
    """
    from zoo.apps.show.feature_figure import draw_features
    from zoo.apps.show.save import check_matplotlib, check_place, save_chart
    from zoo.common.progress import is_terminal
    from zoo.images.pictures import pictures

    check_place("--out", out, replace=force)
    check_matplotlib("`zoo show`")
    features = _features(model, weights, pictures(list(images)), size)
    save_chart(draw_features(features, patch), out)
    if not json and is_terminal(sys.stdout):
        print_picture(pictures([out])[0])
    rows, columns = features.grid
    summary = {"file": out, "images": len(images), "patches": [rows, columns]}
    found = CommandResult(summary, lambda _: [f"{out}: {rows} x {columns} patches an image"])
    return found.show(json)


def _features(
    model: str, weights: str | None, images: "Sequence[Image]", size: "Size | None"
) -> "Features":
    """Compute features with a file if one is named, otherwise with a model in JAX."""
    from zoo.apps.show.features import compute_file_features, compute_model_features, random_note
    from zoo.checkpoints.pretrained import from_pretrained
    from zoo.checkpoints.source import SeededWeights, read_weights

    if (file := file_of(model, weights)) is not None:
        return compute_file_features(file, images, size)
    name, place = model_in_jax(model, weights)
    chosen = read_weights(place)
    note = random_note(chosen.value) if isinstance(chosen, SeededWeights) else ""
    return compute_model_features(from_pretrained(name, place), images, size, note)
