"""From pictures to `pixel_values`, as the models were trained."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zoo.common.errors import BadRequest
from zoo.images.pictures import MOST_PIXELS, Part, ReadPicture
from zoo.images.preprocessing import CropRounding, Preprocessing
from zoo.images.resampling import Span, resized_float_part, resized_part
from zoo.tasks.answer import size_inside

if TYPE_CHECKING:
    from PIL.Image import Image

Float32 = NDArray[np.float32]
Size = tuple[int, int]  # (height, width)
Box = tuple[int, int, int, int]  # left, top, right and bottom edge


def pixel_values(images: Sequence[Image], how: Preprocessing, size: Size) -> Float32:
    """`[len(images), 3, height, width]` for images of any size, as `preprocess` makes them.

    **Arguments:** RGB images, the model's preprocessing, and (height, width) of the result. Another
    size than the model's own keeps the share of the picture that a crop shows.
    """
    return np.stack([_one(image, how, size, (image.height, image.width)) for image in images])


def drafted_values(read: ReadPicture, how: Preprocessing, size: Size) -> Float32:
    """`[3, height, width]` of a picture that may have been decoded smaller than it is."""
    return _one(read.image, how, size, read.sides, read.part)


def _one(
    image: Image, how: Preprocessing, size: Size, sides: Size, part: Part | None = None
) -> Float32:
    _check_size(size)
    if how.padded:
        scaled = size_inside(sides, size)
        below, beside = (whole - own for whole, own in zip(size, scaled, strict=True))
        pixels = np.pad(_resized(image, how, scaled, part), ((0, 0), (0, below), (0, beside)))
    else:
        pixels = _cropped(image, how, resized_size(sides, how, size), size, part)
    return (pixels - channels(how.mean)) / channels(how.std)


def _check_size(size: Size) -> None:
    """**Raises** `BadRequest` for a size that is none, or of which there is not enough memory."""
    try:
        height, width = map(operator.index, size)
    except (TypeError, ValueError) as error:
        raise BadRequest(
            f"size is {ascii(size)[:60]}: give a height and a width, two whole numbers of pixels."
        ) from error
    if min(height, width) < 1 or height * width > MOST_PIXELS:
        raise BadRequest(
            f"got {height} x {width} pixels as the size that the network gets: give a height and a "
            f"width of 1 at least, and of {MOST_PIXELS // 1_000_000} million pixels at most."
        )


def channels(values: Sequence[float]) -> Float32:
    """A number for each channel of `[…, channels, height, width]`."""
    return np.asarray(values, np.float32)[:, None, None]


def resized_size(
    image: Size, how: Preprocessing, size: Size, larger: Callable[[Any, Any], Any] = max
) -> Size:
    """Size that an image of one size is resized to before the crop of another: `size` without a
    crop.

    Computed with whole numbers, so that a graph that reads the sizes from its input agrees; it
    brings its own `larger`.
    """
    if how.resize is None:
        return size
    # The smallest that covers the crop by as much as it would at the model's own size.
    covering, (height, width) = how.covering(size, how.resize), image
    if how.is_stretched:
        return covering
    return (
        larger(covering[0], covering[1] * height // width),
        larger(covering[1], covering[0] * width // height),
    )


LONGEST_EDGE = 26_000
"""Pixels along an edge, before and after resizing, up to which a file's own arithmetic is exact."""


def check_edges(sides: Size, how: Preprocessing) -> None:
    """**Raises** `BadRequest` for a picture that is too long for files that resize it
    themselves."""
    longest = max(*sides, *resized_size(sides, how, how.size))
    if longest > LONGEST_EDGE:
        raise BadRequest(
            f"got a picture of {sides[0]} x {sides[1]} pixels (height x width), which this file "
            f"would resize to {longest:,} along one edge: give one of at most {LONGEST_EDGE:,}."
        )


def centre(image: Size, size: Size, rounding: CropRounding = "floor") -> Box:
    """The part of an image that a crop from its centre leaves.

    Where the margin is odd, its half is rounded as the preprocessing says. Of symbolic sizes, too.
    """
    margins = (whole - part for whole, part in zip(image, size, strict=True))
    top, left = (
        margin // 2 if rounding == "floor" else (margin + margin // 2 % 2) // 2
        for margin in margins
    )
    return left, top, left + size[1], top + size[0]


def _cropped(
    image: Image, how: Preprocessing, scaled: Size, size: Size, part: Part | None
) -> Float32:
    """`[3, *size]` from the centre of the image at the size `scaled`, the rest of which is computed
    only where that is faster. Both ways give the same numbers."""
    left, top, right, bottom = centre(scaled, size, how.crop_rounding)
    if scaled[0] * scaled[1] <= FEW_TIMES * size[0] * size[1]:
        return _resized(image, how, scaled, part)[:, top:bottom, left:right]
    low_x, low_y, high_x, high_y = part or (0, 0, image.width, image.height)
    rows = Span(image.height, low_y, high_y, scaled[0], top, bottom)
    columns = Span(image.width, low_x, high_x, scaled[1], left, right)
    if how.rescale_first:
        scale = np.float32(how.rescale)
        return resized_float_part(image, rows, columns, how.resample, scale).transpose(2, 0, 1)
    levels = resized_part(image, rows, columns, how.resample).astype(np.float32)
    return levels.transpose(2, 0, 1) * np.float32(how.rescale)


FEW_TIMES = 4
"""How many times larger than its crop a picture may be resized, before the crop alone is."""


def _resized(image: Image, how: Preprocessing, size: Size, box: Part | None) -> Float32:
    """`[3, height, width]`, rescaled after it was rounded to 8 bits, or first and never rounded."""
    from PIL import Image as pil

    method = pil.Resampling[how.resample.upper()]
    if not how.rescale_first:
        resized = np.asarray(image.resize(size[::-1], method, box), np.float32)
        return resized.transpose(2, 0, 1) * np.float32(how.rescale)
    pixels = np.asarray(image, np.float32) * np.float32(how.rescale)
    # Pillow resizes floating-point images one channel at a time; its filters always antialias.
    planes = [pil.fromarray(pixels[..., channel]) for channel in range(3)]
    return np.stack([np.asarray(plane.resize(size[::-1], method, box)) for plane in planes])
