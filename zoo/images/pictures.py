"""Pictures as callers have them: one or several, of PIL, as arrays, or in files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from zoo.errors import BadRequest

if TYPE_CHECKING:
    from PIL.Image import Image

UInt8 = NDArray[np.uint8]

Picture: TypeAlias = "Image | UInt8 | str | os.PathLike[str]"
"""A PIL image of any mode and size, RGB values `[height, width, 3]`, or the path of a file."""

Pictures: TypeAlias = "Picture | Sequence[Picture]"


def pictures(images: Pictures) -> list[Image]:
    """PIL images of what was given: one picture, a sequence, or an array `[n, height, width, 3]`.

    **Raises** `BadRequest`.
    """
    from PIL.Image import Image

    if isinstance(images, Image | str | os.PathLike):
        images = [images]
    if not isinstance(images, list | tuple):
        # One array; numpy's and JAX's alike.
        array = np.asarray(images)
        images = list(array) if array.ndim > 3 else [array]
    if not images:
        raise BadRequest("got no picture: give one or more.")
    return [_picture(image) for image in images]


def _picture(given: Picture) -> Image:
    from PIL import Image, UnidentifiedImageError

    if isinstance(given, Image.Image):
        return given
    if isinstance(given, str | os.PathLike):
        try:
            with Image.open(given) as picture:
                return picture.convert("RGB")
        except (OSError, UnidentifiedImageError) as error:
            raise BadRequest(
                f"{given} is no picture that can be read: name another one."
            ) from error
    array = np.asarray(given)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or not array.size:
        raise BadRequest(
            f"got an array {array.dtype}{list(array.shape)}: give PIL images, paths, or uint8 "
            "arrays [height, width, 3] of RGB."
        )
    return Image.fromarray(array)


def stack(images: Sequence[Image]) -> UInt8:
    """`[n, height, width, 3]` of equally large images. **Raises** `BadRequest`."""
    sizes = {(image.height, image.width) for image in images}
    if len(sizes) > 1:
        raise BadRequest(
            f"got images of the sizes {sorted(sizes)}: this file resizes them itself, so that "
            "those of a batch must be equally large."
        )
    return np.stack([np.asarray(image.convert("RGB"), np.uint8) for image in images])
