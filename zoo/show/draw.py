"""Features as one picture: a row for each image, a column for each way to look at it."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from zoo.errors import BadRequest
from zoo.images.pictures import UInt8
from zoo.images.pixel_values import Float32
from zoo.show.features import Features

PAPER, INK = (255, 255, 255), (32, 32, 32)

SIDE = 224
"""Pixels along the longer side of a panel, at least."""

GAP, HEAD = 8, 24
"""Pixels between panels, and above the first row."""

RAMP = np.array(
    [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]], np.float32
)
"""From small to large: five colours of viridis, which stay in order in grey and for the colour
blind (Smith and van der Walt, 2015)."""


def components(patches: Float32) -> UInt8:
    """The first three principal components of all patches as red, green and blue.

    **Arguments:** [n, rows, columns, dim]. The components are those of all images together, so that
    what is alike in two of them has one colour. **Returns** [n, rows, columns, 3].
    """
    rows = patches.reshape(-1, patches.shape[-1])
    centred = rows - rows.mean(axis=0)
    directions = np.linalg.svd(centred, full_matrices=False)[2][:3]
    # The sign of a component is left open: its largest weight is made positive.
    largest = np.take_along_axis(directions, abs(directions).argmax(1)[:, None], axis=1)
    scores = centred @ (directions * np.sign(largest)).T
    return _spread(scores, axis=0).reshape(*patches.shape[:3], len(directions))


def likeness(patches: Float32, patch: tuple[int, int]) -> Float32:
    """The cosine of each patch of an image with one of the first image's: [n, rows, columns]."""
    unit = patches / np.maximum(np.linalg.norm(patches, axis=-1, keepdims=True), 1e-12)
    return unit @ unit[0, patch[0], patch[1]]


def ramp(values: Float32) -> UInt8:
    """Colours from the smallest to the largest value: [..., 3]."""
    level = _spread(values, axis=None).astype(np.float32) / 255 * (len(RAMP) - 1)
    bands = [np.interp(level, range(len(RAMP)), RAMP[:, band]) for band in range(3)]
    return np.stack(bands, axis=-1).round().astype(np.uint8)


def _spread(values: Float32, axis: int | None) -> UInt8:
    """From 0 to 255."""
    low, high = values.min(axis, keepdims=True), values.max(axis, keepdims=True)
    return (255 * (values - low) / np.maximum(high - low, 1e-12)).round().astype(np.uint8)


def draw_grid(features: Features, patch: tuple[int, int] | None = None) -> Image.Image:
    """All of it in a grid.

    **Arguments:** the features, and the (row, column) of the patch whose likeness is shown; the one
    in the middle by default. **Raises** `BadRequest` where there is no such patch.
    """
    rows, columns = features.grid
    row, column = patch = patch or (rows // 2, columns // 2)
    if not (0 <= row < rows and 0 <= column < columns):
        raise BadRequest(
            f"--patch {row},{column} is outside: there are {rows} rows and {columns} columns of "
            "patches, counted from 0."
        )
    maps = {"image": features.pixels, "principal components": components(features.patches)}
    maps[f"likeness to patch {row},{column}"] = ramp(likeness(features.patches, patch))
    if features.attention is not None:
        maps["attention of the class token"] = np.stack([ramp(a) for a in features.attention])
    height, width = features.pixels.shape[1:3]
    scale = max(1, round(SIDE / max(height, width)))
    grid = _grid(maps, (scale * width, scale * height))
    # A frame around the chosen patch of the first image.
    wide, tall = scale * width / columns, scale * height / rows
    left, top = GAP + column * wide, HEAD + row * tall
    corners = (left, top, left + wide - 1, top + tall - 1)
    ImageDraw.Draw(grid).rectangle(corners, outline=(255, 64, 64), width=2)
    return grid


def _grid(maps: dict[str, UInt8], panel: tuple[int, int]) -> Image.Image:
    width, height = panel
    count = max(map(len, maps.values()))
    size = (len(maps) * (width + GAP) + GAP, HEAD + count * (height + GAP) + GAP)
    grid = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(grid)
    for place, (name, pictures) in enumerate(maps.items()):
        left = GAP + place * (width + GAP)
        pen.text((left, GAP // 2), name, INK, ImageFont.load_default(14))
        for index, pixels in enumerate(pictures):
            picture = Image.fromarray(pixels).resize(panel, Image.Resampling.NEAREST)
            grid.paste(picture, (left, HEAD + index * (height + GAP)))
    return grid
