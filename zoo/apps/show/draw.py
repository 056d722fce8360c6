"""Features as one picture: a row for each image, a column for each way to look at it."""

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from weights.parameters import parameter
from zoo.apps.show.features import Features
from zoo.common.errors import BadRequest
from zoo.images.pictures import UInt8
from zoo.images.pixel_values import Float32
from zoo.tasks.maps import INK, PAPER, components, ramp

WARNING = (253, 231, 176)
"""Behind a note that is not to be overlooked."""

DRAWN_SIDE = 320
"""Pixels along the longer side of a panel, at least."""

GAP, SCALE_HEIGHT = 8, 12
"""Pixels between panels, and that a scale is high."""

LETTERS_ACROSS = 22
"""Letters are so many times lower than a panel is wide, or `LABEL_HEIGHT` pixels high."""

LABEL_HEIGHT = 14


def likeness(patches: Float32, patch: tuple[int, int]) -> Float32:
    """The cosine of each patch of an image with one of the first image's: [n, rows, columns]."""
    unit = patches / np.maximum(np.linalg.norm(patches, axis=-1, keepdims=True), 1e-12)
    return unit @ unit[0, patch[0], patch[1]]


@dataclass(frozen=True)
class Panel:
    """One way to look at pictures: `pictures` [n, rows, columns, 3] and the words below them.

    With a `scale` a bar of colours goes from the first of these words to the last.
    """

    pictures: UInt8
    told: str
    scale: tuple[str, str] | None = None


def draw_grid(features: Features, patch: tuple[int, int] | None = None) -> Image.Image:
    """All of it in a grid, with scales below and above it the features' note, if any.

    **Arguments:** the features, and the (row, column) of the patch whose likeness is shown; the one
    in the middle by default. **Raises** `BadRequest` where there is no such patch.
    """
    rows, columns = features.grid
    row, column = patch = patch or (rows // 2, columns // 2)
    if not (0 <= row < rows and 0 <= column < columns):
        raise BadRequest(
            f"{parameter('patch')} {row},{column} is outside: there are {rows} rows and {columns} "
            "columns of patches, counted from 0."
        )
    height, width = features.pixels.shape[1:3]
    scale = max(1, round(DRAWN_SIDE / max(height, width)))
    grid = _grid(panels(features, patch), (scale * width, scale * height))
    # A frame around the chosen patch of the first image.
    wide, tall = scale * width / columns, scale * height / rows
    left, top = GAP + column * wide, head(scale * width) + row * tall
    corners = (left, top, left + wide - 1, top + tall - 1)
    ImageDraw.Draw(grid).rectangle(corners, outline=(255, 64, 64), width=2)
    return _with_note(grid, features.note) if features.note else grid


def panels(features: Features, patch: tuple[int, int]) -> dict[str, Panel]:
    """Panels of features, by their titles."""
    rows, columns = features.grid
    height, width = features.pixels.shape[1:3]
    size = f"{height} x {width} pixels, {rows} x {columns} patches"
    alike = likeness(features.patches, patch)
    drawn = {
        "image": Panel(features.pixels, size),
        "principal components": Panel(
            components(features.patches), "red, green, blue: the first, second, third"
        ),
        f"likeness to patch {patch[0]},{patch[1]}": Panel(
            ramp(alike), "cosine", (f"{alike.min():.2f}", f"{alike.max():.2f}")
        ),
    }
    if (looks := features.attention) is not None:
        ends = (f"{looks.min():.2%}", f"{looks.max():.2%}")
        drawn["attention of the class token"] = Panel(ramp(looks), "share of a patch", ends)
    return drawn


def letters(width: int) -> int:
    """How high letters are, in pixels, beside a panel of that width."""
    return max(LABEL_HEIGHT, width // LETTERS_ACROSS)


def head(width: int) -> int:
    """How high a line of them is."""
    return letters(width) + GAP + GAP // 2


def _grid(shown: dict[str, Panel], size: tuple[int, int]) -> Image.Image:
    """The pictures of a panel below each other, panels beside each other, each `size` pixels."""
    width, height = size
    count = max(len(panel.pictures) for panel in shown.values())
    below = head(width) + count * (height + GAP)
    across = len(shown) * (width + GAP) + GAP
    grid = Image.new("RGB", (across, below + SCALE_HEIGHT + head(width)), PAPER)
    pen, font = ImageDraw.Draw(grid), ImageFont.load_default(letters(width))
    for place, (name, panel) in enumerate(shown.items()):
        left = GAP + place * (width + GAP)
        pen.text((left, GAP // 2), name, INK, font)
        for index, pixels in enumerate(panel.pictures):
            picture = Image.fromarray(pixels).resize(size, Image.Resampling.NEAREST)
            grid.paste(picture, (left, head(width) + index * (height + GAP)))
        _foot(grid, panel, (left, below), width)
    return grid


def _foot(grid: Image.Image, panel: Panel, corner: tuple[int, int], width: int) -> None:
    """What is written below a panel, and its scale."""
    pen, (left, top) = ImageDraw.Draw(grid), corner
    font = ImageFont.load_default(letters(width) - 2)
    if panel.scale is None:
        pen.text((left, top), panel.told, INK, font)
        return
    colours = ramp(np.arange(width, dtype=np.float32))[None]
    grid.paste(Image.fromarray(colours).resize((width, SCALE_HEIGHT)), corner)
    words = ((left, "la", panel.scale[0]), (left + width, "ra", panel.scale[1]))
    for across, anchor, text in (*words, (left + width // 2, "ma", panel.told)):
        pen.text((across, top + SCALE_HEIGHT + 4), text, INK, font, anchor=anchor)


def _with_note(grid: Image.Image, note: str) -> Image.Image:
    """The same below a line that says what has to be known about it."""
    font = ImageFont.load_default(grid.width // (4 * LETTERS_ACROSS))
    high = 2 * GAP + grid.width // (4 * LETTERS_ACROSS)
    noted = Image.new("RGB", (grid.width, grid.height + high), PAPER)
    noted.paste(WARNING, (0, 0, grid.width, high))
    noted.paste(grid, (0, high))
    ImageDraw.Draw(noted).text((GAP, high // 2), note, INK, font, anchor="lm")
    return noted
