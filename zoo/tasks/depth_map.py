"""Depths at the size of a picture, and as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weights.initializers import Float32
from zoo.tasks.answer import Size
from zoo.tasks.colours import ramp

if TYPE_CHECKING:
    from PIL.Image import Image


def depth_map(predicted: Float32, size: Size) -> Float32:
    """Depths `[h, w]` resized to `[height, width]` by cubic convolution.

    Source: `post_process_depth_estimation` of transformers' `DPTImageProcessor`, which calls
    torch's `interpolate(mode="bicubic", align_corners=False)`: Keys's convolution with a = -3/4,
    the values at the edge repeated, and no antialiasing where it shrinks.
    """
    values = np.asarray(predicted, np.float32)
    for axis, count in enumerate(size):
        values = _convolved(values, axis, count)
    return values


A = -0.75
"""Keys's parameter, as torch has it; Pillow has -0.5."""


def _convolved(values: Float32, axis: int, count: int) -> Float32:
    """Resize `[h, w]` to `count` values along an axis."""
    length = values.shape[axis]
    if length == count:
        return values
    centres = (np.arange(count, dtype=np.float32) + 0.5) * np.float32(length / count) - 0.5
    first = np.floor(centres)
    share = np.expand_dims(centres - first, 1 - axis)
    total = np.zeros((), np.float32)
    for tap in range(-1, 3):
        positions = np.clip(first.astype(np.int64) + tap, 0, length - 1)
        total = total + values.take(positions, axis) * _weight(np.abs(share - tap))
    return total


def _weight(x: Float32) -> Float32:
    """Keys's cubic convolution at a distance of at most 2."""
    near = ((A + 2) * x - (A + 3)) * x * x + 1
    far = ((A * x - 5 * A) * x + 8 * A) * x - 4 * A
    return np.where(x <= 1, near, far).astype(np.float32)


def draw_depth(depth: Float32) -> Image:
    """Colours from the smallest to the largest depth."""
    from PIL import Image as pil

    return pil.fromarray(ramp(depth))
