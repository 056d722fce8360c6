"""Compute `pixel_values` from pictures, with the preprocessing of a model."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zoo.common.errors import BadRequest
from zoo.images.pictures import MOST_PIXELS, Part, ReadPicture
from zoo.images.preprocessing import CropRounding, Preprocessing
from zoo.images.resampling import Span, resize_part, resize_part_in_float
from zoo.tasks.answer import size_inside

if TYPE_CHECKING:
    from PIL.Image import Image

Float32 = NDArray[np.float32]
Size = tuple[int, int]  # (height, width)
Box = tuple[int, int, int, int]  # left, top, right and bottom edge


def pixel_values(images: Sequence[Image], preprocessing: Preprocessing, size: Size) -> Float32:
    """Return `[len(images), 3, height, width]` for RGB images of any sizes.

    **Arguments**

    - `preprocessing`: the preprocessing of the model.
    - `size`: the (height, width) of the result. If it is not the model's own, a crop still shows
      the same share of the picture.
    """
    return np.stack(
        [
            _preprocess_image(image, preprocessing, size, (image.height, image.width))
            for image in images
        ]
    )


def decoded_pixel_values(decoded: ReadPicture, preprocessing: Preprocessing, size: Size) -> Float32:
    """Return `[3, height, width]` for a picture that may have been decoded at a smaller size."""
    return _preprocess_image(decoded.image, preprocessing, size, decoded.sides, decoded.part)


def _preprocess_image(
    image: Image, preprocessing: Preprocessing, size: Size, sides: Size, part: Part | None = None
) -> Float32:
    """Return the preprocessed image.

    `sides` is the (height, width) of the original picture, `part` the part of the image that shows
    it.
    """
    _check_size(size)
    if preprocessing.padded:
        scaled = size_inside(sides, size)
        bottom, right = (total - used for total, used in zip(size, scaled, strict=True))
        pixels = np.pad(
            _resize(image, preprocessing, scaled, part), ((0, 0), (0, bottom), (0, right))
        )
    else:
        pixels = _resize_and_crop(
            image, preprocessing, resized_size(sides, preprocessing, size), size, part
        )
    return (pixels - per_channel(preprocessing.mean)) / per_channel(preprocessing.std)


def _check_size(size: Size) -> None:
    """Check that a size is a positive height and width, of not too many pixels.

    **Raises** `BadRequest`.
    """
    try:
        height, width = map(operator.index, size)
    except (TypeError, ValueError) as error:
        raise BadRequest(
            f"size is {ascii(size)[:60]}: give a height and a width as whole numbers of pixels."
        ) from error
    if min(height, width) < 1 or height * width > MOST_PIXELS:
        raise BadRequest(
            f"got {height} x {width} pixels as the size of the network's input: give a height and "
            f"a width of at least 1, and at most {MOST_PIXELS // 1_000_000} million pixels."
        )


def per_channel(values: Sequence[float]) -> Float32:
    """Return numbers as an array that broadcasts to `[…, channels, height, width]`."""
    return np.asarray(values, np.float32)[:, None, None]


def resized_size(
    image: Size, preprocessing: Preprocessing, size: Size, larger: Callable[[Any, Any], Any] = max
) -> Size:
    """Return the size to which an image is resized before the crop; `size` without a crop.

    It is computed with whole numbers, so that a graph that reads the size of its input agrees. Such
    a graph passes its own function for the larger of two numbers.
    """
    if preprocessing.resize is None:
        return size
    # The smallest size that covers the crop by the same factor as at the model's own size.
    covering, (height, width) = preprocessing.covering(size, preprocessing.resize), image
    if preprocessing.is_stretched:
        return covering
    return (
        larger(covering[0], covering[1] * height // width),
        larger(covering[1], covering[0] * width // height),
    )


LONGEST_EDGE = 26_000
"""The longest edge in pixels, before and after resizing, for which the arithmetic of a file that
resizes is exact."""


def check_edges(sides: Size, preprocessing: Preprocessing) -> None:
    """Check that files that resize pictures themselves can resize a picture of these sides.

    **Raises** `BadRequest` if the picture is too long.
    """
    longest = max(*sides, *resized_size(sides, preprocessing, preprocessing.size))
    if longest > LONGEST_EDGE:
        raise BadRequest(
            f"got a picture of {sides[0]} x {sides[1]} pixels (height x width), which this file "
            f"would resize to {longest:,} along one edge: give one of at most {LONGEST_EDGE:,}."
        )


def centre_crop(image: Size, size: Size, rounding: CropRounding = "floor") -> Box:
    """Return the left, top, right and bottom edge of a crop from the centre of an image.

    If a margin is odd, its half is rounded as `rounding` says. The sizes may be symbolic.
    """
    margins = (total - part for total, part in zip(image, size, strict=True))
    top, left = (
        margin // 2 if rounding == "floor" else (margin + margin // 2 % 2) // 2
        for margin in margins
    )
    return left, top, left + size[1], top + size[0]


def _resize_and_crop(
    image: Image, preprocessing: Preprocessing, scaled: Size, size: Size, part: Part | None
) -> Float32:
    """Return `[3, *size]` from the centre of the image at the size `scaled`.

    If the crop is small, only its pixels are computed. The result is the same.
    """
    left, top, right, bottom = centre_crop(scaled, size, preprocessing.crop_rounding)
    if scaled[0] * scaled[1] <= LARGEST_RATIO * size[0] * size[1]:
        return _resize(image, preprocessing, scaled, part)[:, top:bottom, left:right]
    low_x, low_y, high_x, high_y = part or (0, 0, image.width, image.height)
    rows = Span(image.height, low_y, high_y, scaled[0], top, bottom)
    columns = Span(image.width, low_x, high_x, scaled[1], left, right)
    if preprocessing.rescale_first:
        scale = np.float32(preprocessing.rescale)
        return resize_part_in_float(image, rows, columns, preprocessing.resample, scale).transpose(
            2, 0, 1
        )
    levels = resize_part(image, rows, columns, preprocessing.resample).astype(np.float32)
    return levels.transpose(2, 0, 1) * np.float32(preprocessing.rescale)


LARGEST_RATIO = 4
"""If a resized picture has more than `LARGEST_RATIO` times the pixels of its crop, only the crop is
computed."""


def _resize(image: Image, preprocessing: Preprocessing, size: Size, box: Part | None) -> Float32:
    """Return `[3, height, width]`, resized and rescaled.

    Values are rounded to 8 bits before they are rescaled, or rescaled first and not rounded.
    """
    from PIL import Image as pil

    method = pil.Resampling[preprocessing.resample.upper()]
    if not preprocessing.rescale_first:
        resized = np.asarray(image.resize(size[::-1], method, box), np.float32)
        return resized.transpose(2, 0, 1) * np.float32(preprocessing.rescale)
    pixels = np.asarray(image, np.float32) * np.float32(preprocessing.rescale)
    # Pillow resizes floating-point images one channel at a time; its filters always antialias.
    planes = [pil.fromarray(pixels[..., channel]) for channel in range(3)]
    return np.stack([np.asarray(plane.resize(size[::-1], method, box)) for plane in planes])
