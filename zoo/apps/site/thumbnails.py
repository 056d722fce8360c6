"""Draw a thumbnail of each model's output for the photograph, from its golden numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from zoo.apps.site.folders import BuiltFolder
from zoo.architectures.inputs import IMAGE, PIXELS
from zoo.artifacts.described_file import are_shapes_compatible, network_output_shapes
from zoo.common.errors import BadFile
from zoo.common.golden_file import read_golden
from zoo.export.assemble.extras import GOLDEN
from zoo.images.photograph import photograph

MAX_SIDE = 112
"""The longest side of a thumbnail in pixels.

The page enlarges smaller thumbnails.
"""

PALETTE_SIZE = 64
"""The number of colours of a thumbnail, which keeps its file small."""


@dataclass(frozen=True)
class Thumbnail:
    """A small picture of a model's output, and its caption."""

    picture: Image.Image
    caption: str


def draw_thumbnail(built: BuiltFolder) -> Thumbnail | None:
    """Return a small picture of a model's output for the photograph of a cat.

    The output is read from the golden numbers of the folder. If it cannot be drawn, return the
    photograph as the network receives it. If the folder has no golden numbers, return None.

    **Raises** `BadFile` if the golden numbers cannot be read.
    """
    if GOLDEN not in {file.name for file in built.files}:
        return None
    golden = read_golden(built.folder / GOLDEN)
    network_input = _network_input(built, golden.feeds)
    drawing = _draw_outputs(built, golden.outputs, network_input.shape[:2]) or (
        network_input,
        "The photograph of a cat",
    )
    picture = Image.fromarray(drawing[0])
    picture.thumbnail((MAX_SIDE, MAX_SIDE))
    return Thumbnail(picture.quantize(PALETTE_SIZE), drawing[1])


def write_thumbnail(thumbnail: Thumbnail, path: Path) -> None:
    """Write the picture of a thumbnail to a PNG file."""
    thumbnail.picture.save(path, optimize=True)


def _network_input(built: BuiltFolder, feeds: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
    """Return the photograph as the network receives it, `[height, width, 3]`.

    It is computed from `feeds`, the input arrays of the golden numbers. For a network that takes
    other arrays than plain pixels, it is the stored photograph. **Raises** `BadFile` if `feeds`
    contain no picture of three channels.
    """
    pictures = built.entry.config.pictures
    input_spec = IMAGE if IMAGE.name in feeds else PIXELS
    array = feeds.get(input_spec.name, np.zeros(0))
    if input_spec is PIXELS and pictures is not None and not pictures.is_plain:
        return np.asarray(photograph(), np.uint8)
    if 0 in array.shape or array.shape[-1 if input_spec is IMAGE else 1] != 3:
        raise BadFile(
            f"{built.folder / GOLDEN} contains no picture of three channels: pull or build the "
            "folder again."
        )
    if input_spec is IMAGE:
        return np.asarray(array[0], np.uint8)
    pixels = built.manifest.preprocessing
    values = array[0].transpose(1, 2, 0) * np.array(pixels.std) + np.array(pixels.mean)
    return np.asarray(np.nan_to_num(255 * values).clip(0, 255).round(), np.uint8)


def _draw_outputs(
    built: BuiltFolder, outputs: Mapping[str, NDArray[Any]], size: tuple[int, ...]
) -> tuple[NDArray[np.uint8], str] | None:
    """Return a drawing of the outputs, `[height, width, 3]`, and its caption.

    `outputs` are arrays by name, `size` the (height, width) of the network's input. Return None if
    the outputs cannot be drawn.
    """
    config = built.entry.config
    # Arrays are drawn only if they are not empty, finite, and of the shapes in the manifest.
    shapes = network_output_shapes(built.manifest)
    drawable = {
        name: array
        for name, array in outputs.items()
        if array.size
        and np.isfinite(array).all()
        and are_shapes_compatible(array.shape, shapes.get(name, ()))
    }
    return config.task.draw(drawable, (size[0], size[1]))
