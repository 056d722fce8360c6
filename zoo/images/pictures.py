"""Pictures as callers have them: one or several, of PIL or as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from zoo.errors import BadRequest

if TYPE_CHECKING:
    from PIL.Image import Image

UInt8 = NDArray[np.uint8]

Picture: TypeAlias = "Image | UInt8"
"""A PIL image of any mode and size, or RGB values `[height, width, 3]`."""

Pictures: TypeAlias = "Picture | Sequence[Picture]"


def pictures(images: Pictures) -> list[Image]:
    """PIL images of what was given: one picture, a sequence, or an array `[n, height, width, 3]`.

    **Raises** `BadRequest`.
    """
    from PIL.Image import Image

    if isinstance(images, Image) or (isinstance(images, np.ndarray) and images.ndim < 4):
        images = [images]
    several: list[object] = list(images)
    if not several:
        raise BadRequest("got no picture: give one or more.")
    return [image if isinstance(image, Image) else _from_array(image) for image in several]


def _from_array(array: object) -> Image:
    from PIL.Image import fromarray

    if not isinstance(array, np.ndarray):
        raise BadRequest(f"got {type(array).__name__}: give PIL images or uint8 arrays.")
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or not array.size:
        raise BadRequest(
            f"got an array {array.dtype}{list(array.shape)}: give uint8 [height, width, 3], RGB."
        )
    return fromarray(array)


def stack(images: Sequence[Image]) -> UInt8:
    """`[n, height, width, 3]` of equally large images. **Raises** `BadRequest`."""
    sizes = {(image.height, image.width) for image in images}
    if len(sizes) > 1:
        raise BadRequest(
            f"got images of the sizes {sorted(sizes)}: this file resizes them itself, so that "
            "those of a batch must be equally large."
        )
    return np.stack([np.asarray(image.convert("RGB"), np.uint8) for image in images])
