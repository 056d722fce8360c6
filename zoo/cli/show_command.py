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
from zoo.cli.model_argument import declare_model_argument, find_onnx_file, resolve_jax_model
from zoo.common.errors import BadRequest
from zoo.common.options import (
    FILE_OUT,
    FILE_SIZE,
    FORCE,
    Option,
    argument,
    weights_option,
)

if TYPE_CHECKING:
    from PIL.Image import Image

    from zoo.apps.show.features import Features
    from zoo.images.pixel_values import Size


def read_patch(text: str) -> tuple[int, int]:
    """Return (row, column) from a text such as `3,5`.

    **Raises** `BadRequest` for any other text.
    """
    match = re.fullmatch(r"(\d{1,6}),(\d{1,6})", text, re.ASCII)
    if match is None:
        raise BadRequest(f"{parameter('patch')} {text} is no patch: write ROW,COLUMN, such as 3,5.")
    return int(match[1]), int(match[2])


SIZE_OPTION = replace(
    FILE_SIZE, default="the file's or the model's, or twice the model's if that has few patches"
)
PATCH = Option(
    "ROW,COLUMN",
    "The patch of the first image that all patches are compared with, counted from 0.",
    default="the patch in the middle",
    command_line_type=str,
    convert=read_patch,
)


@derive_options()
def show(
    model: Annotated[str, declare_model_argument()],
    images: Annotated[Sequence[Path], argument("IMAGE", "Pictures.")],
    weights: Annotated[str | None, weights_option("auto; an .onnx file has its own")] = None,
    size: Annotated["Size | None", SIZE_OPTION] = None,
    patch: Annotated[tuple[int, int] | None, PATCH] = None,
    out: Annotated[Path, FILE_OUT] = Path("features.png"),
    force: Annotated[bool, FORCE] = False,
    json: Json = False,
) -> int:
    """Draw the features of images, patch by patch, with matplotlib.

    The panels show principal components as colours, and the cosine of every patch with one patch.
    For a model in JAX, another panel shows the attention of the class token. A line is added if the
    weights are random.
    """
    from zoo.apps.show.feature_figure import draw_features
    from zoo.apps.show.save import check_matplotlib, check_picture_path, save_chart
    from zoo.common.progress import is_terminal
    from zoo.images.pictures import pictures

    check_picture_path("--out", out, replace=force)
    check_matplotlib("`zoo show`")
    features = _compute_features(model, weights, pictures(list(images)), size)
    save_chart(draw_features(features, patch), out)
    if not json and is_terminal(sys.stdout):
        print_picture(pictures([out])[0])
    rows, columns = features.grid
    summary = {"file": out, "images": len(images), "patches": [rows, columns]}
    result = CommandResult(summary, lambda _: [f"{out}: {rows} x {columns} patches an image"])
    return result.show(json)


def _compute_features(
    model: str, weights: str | None, images: "Sequence[Image]", size: "Size | None"
) -> "Features":
    """Compute the features of images.

    If `model` is an ONNX file or a built folder, it runs in ONNX Runtime. Otherwise `model` is the
    name of a model or the path of a checkpoint and runs in JAX. `weights` is the option
    `--weights`, or None. `size` is the (height, width) of the network's input, or None for the
    default.
    """
    from zoo.apps.show.features import compute_file_features, compute_model_features, random_note
    from zoo.checkpoints.pretrained import from_pretrained
    from zoo.checkpoints.source import SeededWeights, read_weights

    if (file := find_onnx_file(model, weights)) is not None:
        return compute_file_features(file, images, size)
    name, weights_text = resolve_jax_model(model, weights)
    choice = read_weights(weights_text)
    note = random_note(choice.seed) if isinstance(choice, SeededWeights) else ""
    return compute_model_features(from_pretrained(name, weights_text), images, size, note)
