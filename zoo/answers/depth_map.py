"""Depths at the size of a picture, and as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weights.initializers import Float32
from zoo.answers.colours import ramp
from zoo.answers.fed import Size

if TYPE_CHECKING:
    from PIL.Image import Image


def depth_map(predicted: Float32, size: Size) -> Float32:
    """Depths `[h, w]` resized to `[height, width]` by cubic convolution.

    Source: `post_process_depth_estimation` of transformers' `DPTImageProcessor`, which resizes by
    torch's bicubic filter; Pillow's, which is taken here, antialiases where it shrinks.
    """
    from PIL import Image as pil

    image = pil.fromarray(np.asarray(predicted, np.float32))
    return np.asarray(image.resize(size[::-1], pil.Resampling.BICUBIC))


def draw_depth(depth: Float32) -> Image:
    """Colours from the smallest to the largest depth."""
    from PIL import Image as pil

    return pil.fromarray(ramp(depth))
