"""Contact sheet: one picture with the thumbnails of rows, their keys and cosines."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont, ImageOps

from weights.parameters import parameter
from weights.printable import printable
from zoo.apps.embed.requests import KEY, THUMBNAIL
from zoo.apps.embed.vector_table import VectorTable
from zoo.common.errors import BadRequest
from zoo.common.fonts import font
from zoo.images.pictures import pictures, read_picture
from zoo.tasks.maps import INK, PAPER

GAP = 8  # pixels between cells
CELL_SIDE = 160  # side of the square that a picture is fitted into, in pixels

TEXT_HEIGHT, LETTER_HEIGHT = 32, 12
"""Height of the two lines below a picture and height of their letters, in pixels."""

PER_LINE = 5  # the largest number of pictures in a line of the sheet
MOST_CELLS = 200  # the largest number of pictures in a sheet; further rows are left out
ABSENT = (224, 224, 224)  # the colour of a square in place of a picture that cannot be read

Cells = Sequence[tuple[int, float]]
"""Rows of a dataset by their offset, each with the number that is written below its picture."""


def contact_sheet(table: VectorTable, groups: Sequence[Cells], root: Path | None) -> Image.Image:
    """Draw the pictures of at most `MOST_CELLS` rows, with their keys. Every group begins on a new
    line of the sheet.

    **Arguments:** `groups` are the offsets of rows, each with the number that is written below its
    picture. `root` is the folder that the keys of the rows are relative to; None draws the
    thumbnails in the dataset. **Raises** `BadRequest` as `check_pictures` does.
    """
    check_pictures(table, root)
    lines, across, down = _break_lines(groups), CELL_SIDE + GAP, CELL_SIDE + TEXT_HEIGHT + GAP
    columns = max((len(line) for line in lines), default=1)
    sheet = Image.new("RGB", (columns * across + GAP, len(lines) * down + GAP), PAPER)
    pen, letters = ImageDraw.Draw(sheet), font(LETTER_HEIGHT)
    names = (KEY,) if root is not None else (KEY, THUMBNAIL)
    for top, line in zip(range(GAP, sheet.height, down), lines, strict=False):
        records = table.take([row for row, _ in line], names)
        for column, ((_, number), record) in enumerate(zip(line, records, strict=True)):
            left, key = GAP + column * across, str(record[KEY])
            sheet.paste(_fit_square(record.get(THUMBNAIL), key, root), (left, top))
            text_top = top + CELL_SIDE
            pen.text((left, text_top), _shorten_key(key, letters), INK, letters)
            pen.text((left, text_top + TEXT_HEIGHT // 2), f"{number:.4f}", INK, letters)
    return sheet


def check_pictures(table: VectorTable, root: Path | None) -> None:
    """Check that a dataset has thumbnails or, if `root` is given, that it is a folder.

    **Raises** `BadRequest`.
    """
    if root is None and THUMBNAIL not in table.columns:
        raise BadRequest(
            f"{table.path} has no thumbnails: name the folder that its pictures are in with "
            f"{parameter('pictures')}."
        )
    if root is not None and not root.is_dir():
        raise BadRequest(
            f"{parameter('pictures')} {root} is no folder: name the one that the pictures are in."
        )


def _break_lines(groups: Sequence[Cells]) -> list[Cells]:
    """Return the groups as lines of at most `PER_LINE` cells. Cells after the first `MOST_CELLS`
    are left out."""
    left, lines = MOST_CELLS, list[Cells]()
    for group in groups:
        cells = group[:left]
        left -= len(cells)
        lines += [cells[start : start + PER_LINE] for start in range(0, len(cells), PER_LINE)]
    return lines


def _fit_square(thumbnail: bytes | None, key: str, root: Path | None) -> Image.Image:
    """Return the picture of a row in the middle of a square, or a grey square without one.

    Without `root` the picture is the thumbnail. A key that leads out of `root` is not read.
    """
    size = (CELL_SIDE, CELL_SIDE)
    try:
        if root is None:
            picture = read_picture(thumbnail or b"", key).image
        elif ".." in Path(key).parts or Path(key).is_absolute():
            return Image.new("RGB", size, ABSENT)
        else:
            picture = pictures(root / key)[0]
    except (BadRequest, OSError, ValueError):
        return Image.new("RGB", size, ABSENT)
    is_tiny = 4 * max(picture.size) < CELL_SIDE
    method = Image.Resampling.NEAREST if is_tiny else Image.Resampling.BICUBIC
    return ImageOps.pad(picture, size, method, PAPER)


def _shorten_key(key: str, letters: ImageFont.FreeTypeFont) -> str:
    """Return the end of a key, as long as a cell is wide.

    macOS stores a letter and its accent as two characters in the names of files. They become one
    character, for which the font has a glyph.
    """
    text = unicodedata.normalize("NFC", printable(key)).replace("\n", " ").replace("\t", " ")
    while letters.getlength(text) > CELL_SIDE and len(text) > 1:
        text = "…" + text[2:]
    return text
