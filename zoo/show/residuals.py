"""Where the errors of a file lie: in which output, at which patch, and of which size."""

from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image, ImageDraw

from zoo.images.pixel_values import Float32, Size
from zoo.show.chart import GAP, INK, LINE, MARGIN, PAPER, font, histogram
from zoo.show.draw import ramp

PANEL = (320, 160)
"""Width and height of a map and of a histogram, in pixels."""


def draw_residuals(title: str, errors: Mapping[str, Float32], grid: Size) -> Image.Image:
    """A row for each output: the mean error of each patch as a map, and a histogram of all.

    **Arguments:** absolute differences by the output's name, of one image each: tokens
    `[1, tokens, dim]`, maps `[1, dim, rows, columns]` or vectors `[1, dim]`; and the rows and
    columns of patches. A vector's map has a column for each of its numbers.
    """
    width, height = PANEL
    row = height + 2 * LINE + GAP
    size = (3 * MARGIN + 2 * width, MARGIN + LINE + GAP + len(errors) * row)
    picture = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(picture)
    pen.text((MARGIN, MARGIN), title, INK, font(16))
    top = MARGIN + LINE + GAP
    for name, found in errors.items():
        pen.text((MARGIN, top), summary(name, found, grid), INK, font())
        shown = Image.fromarray(ramp(patch_means(found, grid)))
        picture.paste(shown.resize(PANEL, Image.Resampling.NEAREST), (MARGIN, top + LINE))
        picture.paste(histogram(found, (width, height + LINE)), (2 * MARGIN + width, top + LINE))
        top += row
    return picture


def patch_means(errors: Float32, grid: Size) -> Float32:
    """[rows, columns]: the mean over the channels, of patches if there are any."""
    finite = np.nan_to_num(errors[0], posinf=0.0)
    rows, columns = grid
    if finite.ndim == 3:
        return finite.mean(axis=0)
    if finite.ndim == 2 and len(finite) >= rows * columns:
        return finite[len(finite) - rows * columns :].mean(axis=1).reshape(grid)
    return finite.reshape(1, -1)


def summary(name: str, errors: Float32, grid: Size) -> str:
    """The largest and the mean error, and the mean of what lies before the patches."""
    told = f"{name}: largest {errors.max():.1e}, mean {errors.mean():.1e}"
    before = errors.shape[1] - grid[0] * grid[1] if errors.ndim == 3 else 0
    if before <= 0:
        return told
    first = errors[0, :before].mean()
    return f"{told}, of the {before} tokens before the patches {first:.1e}"


def stack_rows(pictures: Sequence[Image.Image]) -> Image.Image:
    """One below the other."""
    size = (max(each.width for each in pictures), sum(each.height for each in pictures))
    whole = Image.new("RGB", size, PAPER)
    top = 0
    for each in pictures:
        whole.paste(each, (0, top))
        top += each.height
    return whole
