"""From photographs to `pixel_values`, as the models were trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from zoo.entry import Preprocessing

if TYPE_CHECKING:
    from PIL.Image import Image


def preprocess(
    images: Sequence[Image], how: Preprocessing, size: tuple[int, int]
) -> NDArray[np.float32]:
    """`[len(images), 3, height, width]` for images of any size.

    Equals `transformers.DINOv3ViTImageProcessor` to rounding: the resize works on floats and
    comes after the rescaling, so nothing is rounded to 8 bits in between.

    **Arguments:** the images, the model's preprocessing, and (height, width) of the result.
    """
    return np.stack([_one(image, how, size) for image in images])


def _one(image: Image, how: Preprocessing, size: tuple[int, int]) -> NDArray[np.float32]:
    from PIL import Image as pil

    height, width = size
    pixels = np.asarray(image.convert("RGB"), np.float32) * np.float32(how.rescale)
    # Pillow resizes floating-point images one channel at a time; its filters always antialias.
    channels = [
        np.asarray(
            pil.fromarray(pixels[..., channel]).resize((width, height), pil.Resampling.BILINEAR)
        )
        for channel in range(3)
    ]
    mean = np.asarray(how.mean, np.float32)[:, None, None]
    std = np.asarray(how.std, np.float32)[:, None, None]
    return (np.stack(channels) - mean) / std
