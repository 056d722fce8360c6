"""Scenes of digits at several distances, with which `depth_digits` is trained and measured.

A nearer digit is larger, as objects of equal size are in a picture, and its strokes hide the digits
behind it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from zoo.data.digits.data import Digits

CANVAS_SIDE = 32
"""Pixels along a side of a scene."""

SMALLEST_DIGIT, LARGEST_DIGIT = 8, 24
"""Pixels along a side of the farthest and of the nearest digit."""

MAX_DIGITS = 3
"""The largest number of digits in a scene."""

INK = 0.4
"""Smallest brightness, from 0 to 1, of a pixel that belongs to a digit and has a nearness."""


@dataclass(frozen=True)
class Scenes:
    """Scenes of digits, with the nearness and the digit of each pixel.

    - `images`: grey images `[n, height, width]` from 0 to 1.
    - `nearness`: nearness of each pixel, from 1 for the nearest digits down to 1/3 for the
      farthest; 0 for a pixel without a digit.
    - `digit_numbers`: the number of the pixel's digit in its scene, from 1 for the farthest digit;
      0 for a pixel without a digit.
    """

    images: NDArray[np.float32]
    nearness: NDArray[np.float32]
    digit_numbers: NDArray[np.uint8]


def draw_scenes(digits: Digits, count: int, seed: int) -> Scenes:
    """Draw `count` scenes, each with one to three of the digits at different distances. The result
    is the same for the same arguments."""
    rng = np.random.Generator(np.random.PCG64(seed))
    shape = (count, CANVAS_SIDE, CANVAS_SIDE)
    scenes = Scenes(np.zeros(shape, "f4"), np.zeros(shape, "f4"), np.zeros(shape, "u1"))
    for scene in range(count):
        # The farthest digit is drawn first, and nearer ones over it.
        sides = rng.choice(
            np.arange(SMALLEST_DIGIT, LARGEST_DIGIT + 1, 2), rng.integers(1, MAX_DIGITS + 1), False
        )
        sides.sort()
        for number, side in enumerate(sides, start=1):
            grey = Image.fromarray(digits.images[rng.integers(len(digits.labels)), ..., 0])
            ink = np.asarray(grey.resize((side, side), Image.Resampling.BILINEAR), "f4") / 255
            top, left = rng.integers(0, CANVAS_SIDE - side + 1, 2)
            part = (scene, slice(top, top + side), slice(left, left + side))
            scenes.images[part] += ink * (1 - scenes.images[part])
            strokes = ink > INK
            scenes.nearness[part][strokes] = side / LARGEST_DIGIT
            scenes.digit_numbers[part][strokes] = number
    return scenes
