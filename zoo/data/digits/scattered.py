"""Digits scattered over a canvas, with which `boxes_digits` is trained and measured."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from zoo.data.digits.data import Digits

CANVAS_SIDE = 64
"""Pixels along a side of a canvas."""

SMALLEST_DIGIT, LARGEST_DIGIT = 14, 30
"""Smallest and largest side of a digit's image in pixels. The strokes of the digit need not fill
the width."""

MAX_DIGITS = 5
"""The largest number of digits on a canvas."""

INK = 0.3
"""Smallest brightness, from 0 to 1, of a pixel that belongs to a digit and is inside its box."""

NO_DIGIT = -1
"""The label of a row without a digit."""

TRIES = 20
"""Number of positions that are tried for a digit before it is left out."""


@dataclass(frozen=True)
class ScatteredDigits:
    """Canvases with digits, their boxes and their labels.

    - `images`: grey images `[n, height, width]` from 0 to 1.
    - `boxes`: the left, top, right and bottom edge of each digit in pixels, `[n, MAX_DIGITS, 4]`.
      Rows without a digit are zeros.
    - `labels`: the digit in each box, `[n, MAX_DIGITS]`; -1 for a row without a digit.
    """

    images: NDArray[np.float32]
    boxes: NDArray[np.float32]
    labels: NDArray[np.int32]


def scatter(digits: Digits, count: int, seed: int) -> ScatteredDigits:
    """Draw `count` canvases with noise and at most five of the digits, which do not overlap.

    A digit for which no free position is found is left out. The result is the same for the same
    arguments.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    noise = rng.uniform(0, 0.25, (count, CANVAS_SIDE, CANVAS_SIDE)).astype("f4")
    boxes = np.zeros((count, MAX_DIGITS, 4), "f4")
    labels = np.full((count, MAX_DIGITS), NO_DIGIT, "i4")
    for canvas in range(count):
        free = np.ones((CANVAS_SIDE, CANVAS_SIDE), bool)
        for row in range(rng.integers(1, MAX_DIGITS + 1)):
            index = rng.integers(len(digits.labels))
            side = int(rng.integers(SMALLEST_DIGIT, LARGEST_DIGIT + 1))
            ink, (left, top, right, bottom) = resize_digit(digits.images[index, ..., 0], side)
            for _ in range(TRIES):
                y, x = rng.integers(0, CANVAS_SIDE - side + 1, 2)
                part = (slice(y, y + side), slice(x, x + side))
                if free[part].all():
                    free[part] = False
                    noise[canvas][part] = np.maximum(noise[canvas][part], ink)
                    boxes[canvas, row] = x + left, y + top, x + right, y + bottom
                    labels[canvas, row] = digits.labels[index]
                    break
    return ScatteredDigits(noise, boxes, labels)


def resize_digit(
    image: NDArray[np.uint8], side: int
) -> tuple[NDArray[np.float32], tuple[int, int, int, int]]:
    """Resize the image `[8, 8]` of a digit to `side` x `side` pixels.

    **Returns** the image with values from 0 to 1, and the box of its strokes, which are the pixels
    brighter than `INK`: the positions of the first column and row, and those after the last column
    and row.
    """
    grey = Image.fromarray(image).resize((side, side), Image.Resampling.BILINEAR)
    ink = np.asarray(grey, np.float32) / np.float32(255)
    rows, columns = (np.flatnonzero((ink > INK).any(axis)) for axis in (1, 0))
    return ink, (int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)
