"""Digits scattered over a canvas: what `boxes_digits` is trained and measured with."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from zoo.data.digits.data import Digits

CANVAS_SIDE = 64
"""Pixels along a side of a canvas."""

SMALLEST_DIGIT, LARGEST_DIGIT = 14, 30
"""Pixels along a side of a digit's image, of which its strokes need not fill the width."""

MOST_DIGITS = 5
"""Digits on a canvas, at most."""

INK = 0.3
"""How bright a stroke has to be for its box to be around it."""

NOTHING = -1
"""The label of a digit that is not there."""

TRIES = 20
"""Places that are tried for a digit before it is left out."""


@dataclass(frozen=True)
class ScatteredDigits:
    """Grey images [n, height, width] from 0 to 1; the boxes [n, most, 4] of what is on them, as
    left, top, right and bottom edge in pixels, and which digits these are [n, most]; -1 for one
    that is not there."""

    images: NDArray[np.float32]
    boxes: NDArray[np.float32]
    labels: NDArray[np.int32]


def scatter(digits: Digits, count: int, seed: int) -> ScatteredDigits:
    """Canvases with one to five of such digits, which do not touch, on some noise; the same
    arguments give the same."""
    rng = np.random.Generator(np.random.PCG64(seed))
    noise = rng.uniform(0, 0.25, (count, CANVAS_SIDE, CANVAS_SIDE)).astype("f4")
    boxes = np.zeros((count, MOST_DIGITS, 4), "f4")
    labels = np.full((count, MOST_DIGITS), NOTHING, "i4")
    for canvas in range(count):
        free = np.ones((CANVAS_SIDE, CANVAS_SIDE), bool)
        for place in range(rng.integers(1, MOST_DIGITS + 1)):
            which = rng.integers(len(digits.labels))
            side = int(rng.integers(SMALLEST_DIGIT, LARGEST_DIGIT + 1))
            ink, (left, top, right, bottom) = drawn(digits.images[which, ..., 0], side)
            for _ in range(TRIES):
                y, x = rng.integers(0, CANVAS_SIDE - side + 1, 2)
                part = (slice(y, y + side), slice(x, x + side))
                if free[part].all():
                    free[part] = False
                    noise[canvas][part] = np.maximum(noise[canvas][part], ink)
                    boxes[canvas, place] = x + left, y + top, x + right, y + bottom
                    labels[canvas, place] = digits.labels[which]
                    break
    return ScatteredDigits(noise, boxes, labels)


def drawn(
    image: NDArray[np.uint8], side: int
) -> tuple[NDArray[np.float32], tuple[int, int, int, int]]:
    """A digit at another size, from 0 to 1, and the left, top, right and bottom edge of its
    strokes."""
    grey = Image.fromarray(image).resize((side, side), Image.Resampling.BILINEAR)
    ink = np.asarray(grey, np.float32) / np.float32(255)
    rows, columns = (np.flatnonzero((ink > INK).any(axis)) for axis in (1, 0))
    return ink, (int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)
