"""A part of a resized picture, computed alone, with Pillow's numbers.

Pillow resizes to the full size before a crop: of a picture of 20,000 x 1 pixels it makes
5,120,000 x 256, of which 224 x 224 are kept. Its arithmetic for one pixel is repeated here
(`Resample.c`, 13.0), so that the pixels of the crop are the same to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoo.images.preprocessing import Filter

if TYPE_CHECKING:
    from PIL.Image import Image

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

PLACES = 22
"""Binary places of Pillow's coefficients of 8-bit values."""


class Span(NamedTuple):
    """Pixels along one edge of the resized picture, and the edge before and after.

    `start` and `stop` are the positions of the computed pixels among `scaled`; `low` and `high`
    are the part of the picture's edge that is resized to `scaled` pixels.
    """

    edge: int
    low: float
    high: float
    scaled: int
    start: int
    stop: int


class Taps(NamedTuple):
    """First pixel that each computed pixel depends on, and the coefficients from there on."""

    first: Int64
    coefficients: Float64

    @property
    def last(self) -> int:
        """The pixel behind the last that one of them depends on."""
        return int(self.first.max()) + self.coefficients.shape[1]


def resized_part(image: Image, rows: Span, columns: Span, resample: Filter) -> NDArray[np.uint8]:
    """Return the part `[rows, columns, 3]` of an RGB image that is resized in 8 bits."""
    pixels, down, across = _source(image, rows, columns, resample)
    for axis in _order(rows, columns):
        taps = (down, across)[axis]
        levels = np.trunc(taps.coefficients * 2**PLACES + np.copysign(0.5, taps.coefficients))
        total = _summed(pixels, taps.first, levels.astype(np.int64), axis)
        pixels = np.clip((total + 2 ** (PLACES - 1)) >> PLACES, 0, 255).astype(np.uint8)
    return pixels


def resized_float_part(
    image: Image, rows: Span, columns: Span, resample: Filter, scale: np.float32
) -> NDArray[np.float32]:
    """Return the part `[rows, columns, 3]` of an RGB image whose values are multiplied by `scale`
    and resized in floating point."""
    pixels, down, across = _source(image, rows, columns, resample)
    values = pixels.astype(np.float32) * scale
    for axis in _order(rows, columns):
        taps = (down, across)[axis]
        values = _summed(values, taps.first, taps.coefficients, axis).astype(np.float32)
    return values


def _source(
    image: Image, rows: Span, columns: Span, resample: Filter
) -> tuple[NDArray[np.uint8], Taps, Taps]:
    """Return the pixels that the part depends on, and the coefficients of its rows and columns."""
    down, across = _taps(rows, resample), _taps(columns, resample)
    top, left = int(down.first.min()), int(across.first.min())
    pixels = np.asarray(image.crop((left, top, across.last, down.last)), np.uint8)
    return pixels, down._replace(first=down.first - top), across._replace(first=across.first - left)


def _taps(span: Span, resample: Filter) -> Taps:
    """Return Pillow's coefficients (`precompute_coeffs`) of the pixels of a span."""
    reach, function = FILTERS[resample]
    # Pillow keeps a box in 32 bits, and subtracts in them.
    low, length = float(np.float32(span.low)), np.float32(span.high) - np.float32(span.low)
    scale = float(length) / span.scaled
    unit = max(scale, 1.0)
    centres = low + (np.arange(span.start, span.stop) + 0.5) * scale
    first = np.maximum(0, (centres - reach * unit + 0.5).astype(np.int64))
    last = np.minimum(span.edge, (centres + reach * unit + 0.5).astype(np.int64))
    count = int((last - first).max())
    positions = first[:, None] + np.arange(count)
    found = function(np.abs((positions - centres[:, None] + 0.5) * (1.0 / unit)))
    found[positions >= last[:, None]] = 0
    total = np.zeros(len(found))
    for column in found.T:  # in Pillow's order, which decides the last bit
        total += column
    # Where fewer pixels are left, the positions move so that all of them exist.
    moved = np.minimum(first, span.edge - count)
    shift = positions - np.arange(count) - moved[:, None]
    return Taps(moved, _shifted(found / total[:, None], shift[:, 0]))


def _shifted(coefficients: Float64, shift: Int64) -> Float64:
    """Return each row moved to the right by its shift, with zeros before it."""
    positions = np.arange(coefficients.shape[1]) - shift[:, None]
    taken = np.take_along_axis(coefficients, np.maximum(positions, 0), axis=1)
    return np.where(positions < 0, 0.0, taken)


def _summed(
    values: NDArray[Any], first: Int64, coefficients: NDArray[Any], axis: int
) -> NDArray[Any]:
    """Return the products with the coefficients along an axis, summed from the first pixel on."""
    shape = (-1, 1, 1) if axis == 0 else (1, -1, 1)
    total: NDArray[Any] = np.zeros((), coefficients.dtype)
    for tap in range(coefficients.shape[1]):
        total = total + values.take(first + tap, axis) * coefficients[:, tap].reshape(shape)
    return total


def _order(rows: Span, columns: Span) -> tuple[int, int]:
    """Return the axes in the order in which Pillow resizes them: the height first where much more
    of it goes than of the width."""
    height, width = rows.edge - rows.scaled, columns.edge - columns.scaled
    return (0, 1) if height > 0 and height > 2 * width else (1, 0)


def _triangle(x: Float64) -> Float64:
    return np.maximum(0.0, 1.0 - x)


def _cubic(x: Float64) -> Float64:
    """Return Keys's cubic convolution with a = -1/2, in Pillow's order of operations."""
    a = -0.5
    near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))


FILTERS: dict[Filter, tuple[float, Callable[[Float64], Float64]]] = {
    "bilinear": (1.0, _triangle),
    "bicubic": (2.0, _cubic),
}
"""How far each filter reaches, in its unit, and its value at a distance."""
