"""A small picture of what each model makes of the photograph, from its golden numbers."""

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

LONGEST = 112
"""Pixels of a side, at most: what has fewer is enlarged by the page."""

PALETTE_SIZE = 64
"""Of a picture, which keeps it small."""


@dataclass(frozen=True)
class Thumbnail:
    """A picture, and what is on it, in words."""

    picture: Image.Image
    told: str


def draw_thumbnail(built: BuiltFolder) -> Thumbnail | None:
    """Picture of what a model makes of the photograph; the photograph as the model sees it, where
    it makes nothing that can be drawn; None for a folder without golden numbers.

    **Raises** `BadFile` where those cannot be read.
    """
    if GOLDEN not in {file.name for file in built.files}:
        return None
    golden = read_golden(built.folder / GOLDEN)
    seen = _seen(built, golden.fed)
    made = _drawn(built, golden.outputs, seen.shape[:2]) or (seen, "The photograph of a cat")
    picture = Image.fromarray(made[0])
    picture.thumbnail((LONGEST, LONGEST))
    return Thumbnail(picture.quantize(PALETTE_SIZE), made[1])


def write_thumbnail(thumbnail: Thumbnail, place: Path) -> None:
    """Write it as PNG."""
    thumbnail.picture.save(place, optimize=True)


def _seen(built: BuiltFolder, fed: Mapping[str, NDArray[Any]]) -> NDArray[np.uint8]:
    """The photograph as the network gets it: [height, width, 3]."""
    pictures = built.entry.config.pictures
    taken = IMAGE if IMAGE.name in fed else PIXELS
    found = fed.get(taken.name, np.zeros(0))
    if taken is PIXELS and pictures is not None and not pictures.is_plain:
        return np.asarray(photograph(), np.uint8)
    if 0 in found.shape or found.shape[-1 if taken is IMAGE else 1] != 3:
        raise BadFile(
            f"{built.folder / GOLDEN} holds no picture of three channels: pull or build the folder "
            "again."
        )
    if taken is IMAGE:
        return np.asarray(found[0], np.uint8)
    how = built.manifest.preprocessing
    values = found[0].transpose(1, 2, 0) * np.array(how.std) + np.array(how.mean)
    return np.asarray(np.nan_to_num(255 * values).clip(0, 255).round(), np.uint8)


def _drawn(
    built: BuiltFolder, outputs: Mapping[str, NDArray[Any]], size: tuple[int, ...]
) -> tuple[NDArray[np.uint8], str] | None:
    """The output that says most to people, as [height, width, 3]."""
    config = built.entry.config
    # There are numbers to draw, none but numbers, and those of this network.
    stated = network_output_shapes(built.manifest)
    sound = {
        name: each
        for name, each in outputs.items()
        if each.size
        and np.isfinite(each).all()
        and are_shapes_compatible(each.shape, stated.get(name, ()))
    }
    return config.task.draw(sound, (size[0], size[1]))
