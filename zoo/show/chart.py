"""Charts: bars beside each other, and how often errors of each size occur."""

from collections.abc import Mapping
from itertools import cycle

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

PAPER, INK, FAINT = (255, 255, 255), (32, 32, 32), (200, 200, 200)
COLOURS = (
    *((0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167)),
    *((86, 180, 233), (213, 94, 0), (120, 120, 120), (240, 228, 66)),
)
"""Colours that the colour blind can tell apart (Okabe and Ito, 2008)."""

MARGIN, LINE, BAR, GAP = 16, 22, 16, 12
"""Pixels around everything, of a line of text, of a bar, and between groups of bars."""

LENGTH = 420
"""Pixels of the longest bar."""

TEXT = 14


def font(size: int = TEXT) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Pillow's own."""
    return ImageFont.load_default(size)


def bars(
    title: str, groups: Mapping[str, Mapping[str, float | None]], mark: float | None = None
) -> Image.Image:
    """Horizontal bars in groups.

    **Arguments:** the title; by group and then by series the values, None for what there is none
    of; and a value at which a line is drawn, such as 1 for ratios.
    """
    series = dict.fromkeys(name for group in groups.values() for name in group)
    colours = dict(zip(series, cycle(COLOURS), strict=False))
    left = MARGIN + round(max((font().getlength(name) for name in groups), default=0)) + GAP
    values = [value for group in groups.values() for value in group.values() if value is not None]
    top = MARGIN + 2 * LINE
    heights = [len(group) * BAR + GAP for group in groups.values()]
    size = (left + LENGTH + 5 * TEXT, top + sum(heights) + LINE * len(series) + MARGIN)
    picture = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(picture)
    pen.text((MARGIN, MARGIN), title, INK, font(TEXT + 2))
    scale = LENGTH / max([*values, mark or 0, 1e-12])
    for (name, group), height in zip(groups.items(), heights, strict=True):
        middle = top + (height - GAP) / 2
        pen.text((left - GAP, middle), name, INK, font(), anchor="rm")
        for index, (label, value) in enumerate(group.items()):
            x, y = left + (value or 0) * scale, top + index * BAR
            pen.rectangle((left, y + 1, x, y + BAR - 2), colours[label] if value else FAINT)
            told = "not run" if value is None else f"{value:.2f}"
            pen.text((x + 6, y + BAR / 2), told, INK, font(TEXT - 2), anchor="lm")
        top += height
    if mark is not None:
        x = left + mark * scale
        pen.line((x, MARGIN + 2 * LINE - GAP / 2, x, top - GAP / 2), INK)
    for name, colour in colours.items():
        pen.rectangle((MARGIN, top + 4, MARGIN + TEXT - 4, top + TEXT), colour)
        pen.text((MARGIN + TEXT + 2, top), name, INK, font())
        top += LINE
    return picture


def histogram(values: NDArray[np.floating], size: tuple[int, int]) -> Image.Image:
    """How many values there are of each magnitude, four bars a decade; zeros are in the first."""
    width, height = size
    picture = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(picture)
    found = np.abs(values[np.isfinite(values)], dtype=np.float64)
    largest = found.max(initial=0.0)
    high = int(np.ceil(np.log10(largest))) if largest else 0
    decades = 8
    levels = np.log10(np.maximum(found, 10.0 ** (high - decades)))
    counts, edges = np.histogram(levels, 4 * decades, (high - decades, high))
    step, floor = width / len(counts), height - LINE
    for index, count in enumerate(counts):
        tall = (floor - 2) * count / max(counts.max(), 1)
        pen.rectangle((index * step, floor - tall, (index + 1) * step - 2, floor), COLOURS[0])
    pen.line((0, floor, width, floor), INK)
    for edge in edges[::8]:
        x = (edge - edges[0]) / (edges[-1] - edges[0]) * width
        anchor = {0: "la", width: "ra"}.get(round(x), "ma")
        pen.text((x, floor + 4), f"1e{edge:.0f}", INK, font(TEXT - 3), anchor=anchor)
    return picture
