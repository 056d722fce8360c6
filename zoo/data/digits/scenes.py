"""Scenes of digits, some nearer than others: what `depth_digits` is trained and measured with.

A digit is the larger the nearer it is, as things of one size are in a picture, and hides what is
behind its strokes.
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

MOST_DIGITS = 3
"""Digits in a scene, at most."""

INK = 0.4
"""How bright a stroke has to be to be a thing that has a distance."""


@dataclass(frozen=True)
class Scenes:
    """Grey images [n, height, width] from 0 to 1, and how near what they show is: from 1, the
    nearest, to a third; 0 where there is nothing. `which` is the number of a digit in its scene,
    from 1, and 0 where there is none."""

    images: NDArray[np.float32]
    nearness: NDArray[np.float32]
    which: NDArray[np.uint8]


def draw_scenes(digits: Digits, count: int, seed: int) -> Scenes:
    """Scenes of such digits; the same arguments give the same."""
    rng = np.random.Generator(np.random.PCG64(seed))
    shape = (count, CANVAS_SIDE, CANVAS_SIDE)
    scenes = Scenes(np.zeros(shape, "f4"), np.zeros(shape, "f4"), np.zeros(shape, "u1"))
    for scene in range(count):
        # The farthest is drawn first.
        sides = rng.choice(
            np.arange(SMALLEST_DIGIT, LARGEST_DIGIT + 1, 2), rng.integers(1, MOST_DIGITS + 1), False
        )
        sides.sort()
        for number, side in enumerate(sides, start=1):
            grey = Image.fromarray(digits.images[rng.integers(len(digits.labels)), ..., 0])
            ink = np.asarray(grey.resize((side, side), Image.Resampling.BILINEAR), "f4") / 255
            top, left = rng.integers(0, CANVAS_SIDE - side + 1, 2)
            place = (scene, slice(top, top + side), slice(left, left + side))
            scenes.images[place] += ink * (1 - scenes.images[place])
            there = ink > INK
            scenes.nearness[place][there] = side / LARGEST_DIGIT
            scenes.which[place][there] = number
    return scenes
