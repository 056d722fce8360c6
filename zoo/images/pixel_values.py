"""From photographs to `pixel_values`, as the models were trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zoo.models.config import Preprocessing

if TYPE_CHECKING:
    from PIL.Image import Image

Float32 = NDArray[np.float32]
Size = tuple[int, int]
"""(height, width)."""

Box = tuple[int, int, int, int]
"""Left, top, right and bottom edge."""


def pixel_values(images: Sequence[Image], how: Preprocessing, size: Size) -> Float32:
    """`[len(images), 3, height, width]` for images of any size.

    Equals transformers' image processor of the model: to rounding where it resizes
    floating-point values (DINOv3), exactly where it resizes 8-bit ones as Pillow does.

    **Arguments:** the images, the model's preprocessing, and (height, width) of the result. Another
    size than the model's own keeps the share of the picture that a crop shows.
    """
    return np.stack([_one(image.convert("RGB"), how, size) for image in images])


def _one(image: Image, how: Preprocessing, size: Size) -> Float32:
    scaled = resized_size((image.height, image.width), how, size)
    pixels = (
        _resize_floats(image, how, scaled) if how.rescale_first else _resize(image, how, scaled)
    )
    left, top, right, bottom = centre(scaled, size)
    mean = np.asarray(how.mean, np.float32)[:, None, None]
    std = np.asarray(how.std, np.float32)[:, None, None]
    return (pixels[:, top:bottom, left:right] - mean) / std


def resized_size(
    image: Size, how: Preprocessing, size: Size, larger: Callable[[Any, Any], Any] = max
) -> Size:
    """What an image of one size is resized to before the crop of another: `size` without a crop.

    Computed with whole numbers, so that a graph that reads the sizes from its input agrees; it
    brings its own `larger`.
    """
    if how.resize is None:
        return size
    # The smallest that covers the crop by as much as it would at the model's own size.
    shortest = [
        round(how.resize * wanted / own) for wanted, own in zip(size, how.size, strict=True)
    ]
    height, width = image
    return (
        larger(shortest[0], shortest[1] * height // width),
        larger(shortest[1], shortest[0] * width // height),
    )


def centre(image: Size, size: Size) -> Box:
    """The part of an image that a crop from its centre leaves."""
    top, left = ((whole - part) // 2 for whole, part in zip(image, size, strict=True))
    return left, top, left + size[1], top + size[0]


def _resize(image: Image, how: Preprocessing, size: Size) -> Float32:
    """`[3, height, width]`, rounded to 8 bits before it is rescaled."""
    from PIL import Image as pil

    resized = image.resize(size[::-1], pil.Resampling[how.resample.upper()])
    return np.asarray(resized, np.float32).transpose(2, 0, 1) * np.float32(how.rescale)


def _resize_floats(image: Image, how: Preprocessing, size: Size) -> Float32:
    """`[3, height, width]`, rescaled first and rounded nowhere."""
    from PIL import Image as pil

    pixels = np.asarray(image, np.float32) * np.float32(how.rescale)
    # Pillow resizes floating-point images one channel at a time; its filters always antialias.
    method = pil.Resampling[how.resample.upper()]
    channels = [pil.fromarray(pixels[..., channel]) for channel in range(3)]
    return np.stack([np.asarray(channel.resize(size[::-1], method)) for channel in channels])
