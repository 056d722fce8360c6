"""What was found as one picture: thumbnails in rows, each with its key and a number."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont, ImageOps

from weights.parameters import parameter
from weights.printable import printable
from zoo.apps.embed.vector_table import KEY, THUMBNAIL, VectorTable
from zoo.common.errors import BadRequest
from zoo.common.fonts import font
from zoo.images.pictures import pictures, read_picture
from zoo.tasks.maps import INK, PAPER

GAP = 8
"""Pixels between cells."""

CELL_SIDE = 160
"""Pixels of the square that a picture is fitted into."""

TEXT_HEIGHT, LETTER_HEIGHT = 32, 12
"""Pixels of two lines below it, and of their letters."""

PER_LINE = 5
"""Pictures beside each other."""

MOST_CELLS = 200
"""Pictures of a sheet; what comes after them is left out."""

ABSENT = (224, 224, 224)
"""The colour of a picture that cannot be read."""


@dataclass(frozen=True)
class SheetCell:
    """A row of a dataset, and the number that is written below its picture."""

    row: int
    number: float


def contact_sheet(
    table: VectorTable, rows: Sequence[Sequence[SheetCell]], root: Path | None
) -> Image.Image:
    """Draw rows of pictures, each of which begins a new line.

    **Arguments:** `root` is the folder that the keys are paths in; None for the dataset's own
    thumbnails. **Raises** `BadRequest` where there are neither.
    """
    check_pictures(table, root)
    lines, across, down = list(_lines(rows)), CELL_SIDE + GAP, CELL_SIDE + TEXT_HEIGHT + GAP
    columns = max((len(line) for line in lines), default=1)
    sheet = Image.new("RGB", (columns * across + GAP, len(lines) * down + GAP), PAPER)
    pen, letters = ImageDraw.Draw(sheet), font(LETTER_HEIGHT)
    for number, line in enumerate(lines):
        names = (KEY,) if root is not None else (KEY, THUMBNAIL)
        taken = table.take([cell.row for cell in line], names)
        for column, (cell, values) in enumerate(zip(line, taken, strict=True)):
            left, top = GAP + column * across, GAP + number * down
            key = str(values[KEY])
            sheet.paste(_square(values.get(THUMBNAIL), key, root), (left, top))
            pen.text((left, top + CELL_SIDE), _shortened(key, letters), INK, letters)
            below = top + CELL_SIDE + TEXT_HEIGHT // 2
            pen.text((left, below), f"{cell.number:.4f}", INK, letters)
    return sheet


def check_pictures(table: VectorTable, root: Path | None) -> None:
    """**Raises** `BadRequest` where a dataset has no pictures to be shown."""
    if root is None and THUMBNAIL not in table.columns:
        raise BadRequest(
            f"{table.path} has no thumbnails: name the folder that its pictures are in with "
            f"{parameter('pictures')}."
        )
    if root is not None and not root.is_dir():
        raise BadRequest(
            f"{parameter('pictures')} {root} is no folder: name the one that the pictures are in."
        )


def _lines(rows: Sequence[Sequence[SheetCell]]) -> Iterator[Sequence[SheetCell]]:
    """Yield rows that are broken where they are too long, up to the most that a sheet has."""
    left = MOST_CELLS
    for row in rows:
        for start in range(0, min(len(row), left), PER_LINE):
            yield row[start : min(start + PER_LINE, left)]
        left -= min(len(row), left)


def _square(thumbnail: bytes | None, key: str, root: Path | None) -> Image.Image:
    """Return a picture in the middle of a square; a grey square if it cannot be read."""
    side = (CELL_SIDE, CELL_SIDE)
    try:
        if root is None:
            picture = read_picture(thumbnail or b"", key).image
        elif ".." in Path(key).parts or Path(key).is_absolute():
            return Image.new("RGB", side, ABSENT)  # of another folder than the one that was named
        else:
            picture = pictures(root / key)[0]
    except (BadRequest, OSError, ValueError):
        return Image.new("RGB", side, ABSENT)
    is_tiny = 4 * max(picture.size) < CELL_SIDE
    method = Image.Resampling.NEAREST if is_tiny else Image.Resampling.BICUBIC
    return ImageOps.pad(picture, side, method, PAPER)


def _shortened(key: str, letters: ImageFont.FreeTypeFont) -> str:
    """Return the end of a key, as much as there is room for.

    A letter and its accent become one, which macOS keeps apart in the names of files.
    """
    text = unicodedata.normalize("NFC", printable(key)).replace("\n", " ").replace("\t", " ")
    shown = text
    while letters.getlength(shown) > CELL_SIDE and len(shown) > 1:
        shown = "…" + shown[2:]
    return shown
