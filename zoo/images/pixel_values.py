"""Compute `pixel_values` from pictures, with the preprocessing of a model."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zoo.common.errors import BadRequest
from zoo.images.pictures import MAX_PIXELS, Part, ReadPicture
from zoo.images.preprocessing import CropRounding, Preprocessing
from zoo.images.resampling import Span, resize_part, resize_part_in_float
from zoo.tasks.answer import fit_size

if TYPE_CHECKING:
    from PIL.Image import Image

Float32 = NDArray[np.float32]
Size = tuple[int, int]  # (height, width)
Box = tuple[int, int, int, int]  # left, top, right and bottom edge


def pixel_values(images: Sequence[Image], preprocessing: Preprocessing, size: Size) -> Float32:
    """Return the preprocessed pixels of RGB images of any sizes, as `[images, 3, height, width]`.

    **Arguments**

    - `preprocessing`: the preprocessing of the model.
    - `size`: the (height, width) of the result. If it is not the model's own, a crop still shows
      the same share of the picture.

    **Raises** `BadRequest` for an invalid `size`.
    """
    return np.stack(
        [
            _preprocess_image(image, preprocessing, size, (image.height, image.width))
            for image in images
        ]
    )


def decoded_pixel_values(decoded: ReadPicture, preprocessing: Preprocessing, size: Size) -> Float32:
    """Return the preprocessed pixels of one decoded picture, as `[3, height, width]`.

    The picture may have been decoded at a reduced size. The other arguments are those of
    `pixel_values`.
    """
    return _preprocess_image(
        decoded.image, preprocessing, size, decoded.original_size, decoded.part
    )


def _preprocess_image(
    image: Image, preprocessing: Preprocessing, size: Size, sides: Size, part: Part | None = None
) -> Float32:
    """Return the preprocessed pixels of one RGB image, as `[3, height, width]`.

    **Arguments**

    - `image`: the image, which may be a reduced copy of the original picture.
    - `size`: the (height, width) of the result.
    - `sides`: the (height, width) of the original picture.
    - `part`: the part of `image` that shows the original picture. None means all of it.
    """
    _check_size(size)
    if preprocessing.padded:
        scaled = fit_size(sides, size)
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
    """Check that a size is a positive height and width, with at most `MAX_PIXELS` pixels.

    **Raises** `BadRequest`.
    """
    try:
        height, width = map(operator.index, size)
    except (TypeError, ValueError) as error:
        raise BadRequest(
            f"size is {ascii(size)[:60]}: give a height and a width as whole numbers of pixels."
        ) from error
    if min(height, width) < 1 or height * width > MAX_PIXELS:
        raise BadRequest(
            f"got {height} x {width} pixels as the size of the network's input: give a height and "
            f"a width of at least 1, and at most {MAX_PIXELS // 1_000_000} million pixels."
        )


def per_channel(values: Sequence[float]) -> Float32:
    """Return one number for each channel as an array `[channels, 1, 1]` in float32."""
    return np.asarray(values, np.float32)[:, None, None]


def resized_size(
    image: Size, preprocessing: Preprocessing, size: Size, larger: Callable[[Any, Any], Any] = max
) -> Size:
    """Return the (height, width) to which an image is resized before it is cropped to `size`.

    Without a crop this is `size` itself.

    **Arguments**

    - `image`: the (height, width) of the image, which may be symbolic dimensions.
    - `preprocessing`: the preprocessing of the model.
    - `size`: the (height, width) of the network's input.
    - `larger`: the function for the larger of two numbers. A graph that reads the size of its input
      passes one that takes symbolic dimensions.

    Only whole numbers are used, so that such a graph computes the same size.
    """
    if preprocessing.resize is None:
        return size
    # The smallest size that covers the crop by the same factor as at the model's own size.
    covering, (height, width) = preprocessing.size_before_crop(size, preprocessing.resize), image
    if preprocessing.is_stretched:
        return covering
    return (
        larger(covering[0], covering[1] * height // width),
        larger(covering[1], covering[0] * width // height),
    )


MAX_EDGE = 26_000
"""The longest edge in pixels, before and after resizing, for which the arithmetic of a file that
resizes is exact."""


def check_edges(sides: Size, preprocessing: Preprocessing) -> None:
    """Check that a file that resizes pictures itself can resize a picture of this size exactly.

    `sides` is the (height, width) of the picture. **Raises** `BadRequest` if an edge is longer than
    `MAX_EDGE` before or after the resize.
    """
    longest = max(*sides, *resized_size(sides, preprocessing, preprocessing.size))
    if longest > MAX_EDGE:
        raise BadRequest(
            f"got a picture of {sides[0]} x {sides[1]} pixels (height x width), which this file "
            f"would resize to {longest:,} along one edge: give one of at most {MAX_EDGE:,}."
        )


def centre_crop(image: Size, size: Size, rounding: CropRounding = "floor") -> Box:
    """Return the left, top, right and bottom edge of a crop from the centre of an image.

    **Arguments**

    - `image`: the (height, width) of the image.
    - `size`: the (height, width) of the crop.
    - `rounding`: how half of an odd margin is rounded: down, or to the even number.

    The sizes may be symbolic.
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
    """Return the centre of a resized and rescaled image, as `[3, height, width]`.

    **Arguments**

    - `scaled`: the (height, width) to which the image is resized.
    - `size`: the (height, width) of the crop.
    - `part`: the part of the image that is resized. None means all of it.

    If the crop is a small part of the resized image, only its pixels are computed. The result is
    the same.
    """
    left, top, right, bottom = centre_crop(scaled, size, preprocessing.crop_rounding)
    if scaled[0] * scaled[1] <= MAX_RATIO * size[0] * size[1]:
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


MAX_RATIO = 4
"""The largest ratio of pixels of a resized picture and its crop at which all of it is resized.

Above it, only the pixels of the crop are computed.
"""


def _resize(image: Image, preprocessing: Preprocessing, size: Size, box: Part | None) -> Float32:
    """Return an image resized to `size` (height, width) and rescaled, as `[3, height, width]`.

    Values are rounded to 8 bits before they are rescaled. With `rescale_first` they are rescaled
    first and not rounded. `box` is the part of the image that is resized. None means all of it.
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
