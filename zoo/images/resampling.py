"""Compute a part of a resized picture alone, with the numbers of Pillow.

Pillow resizes a picture to the full size before a crop. A picture of 20,000 x 1 pixels becomes
5,120,000 x 256, of which 224 x 224 are kept. This module repeats Pillow's arithmetic for a single
pixel (`Resample.c`, 13.0), so that the pixels of the crop are equal to the last bit.
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

BINARY_PLACES = 22
"""Binary places of Pillow's coefficients of 8-bit values."""


class Span(NamedTuple):
    """The pixels along one edge of a resized picture that are computed.

    - `edge`: the length of the edge in the source picture.
    - `low`, `high`: the part of this edge that is resized to `scaled` pixels.
    - `scaled`: the length of the resized edge.
    - `start`, `stop`: the positions of the first computed pixel and after the last one, among the
      `scaled` pixels.
    """

    edge: int
    low: float
    high: float
    scaled: int
    start: int
    stop: int


class Taps(NamedTuple):
    """The source pixels that the computed pixels along one edge depend on.

    - `first`: the position of the first source pixel of each computed pixel.
    - `coefficients`: the coefficients of that source pixel and the following ones, `[computed
      pixels, length]`.
    """

    first: Int64
    coefficients: Float64

    @property
    def last(self) -> int:
        """The position after the last source pixel that any computed pixel depends on."""
        return int(self.first.max()) + self.coefficients.shape[1]


def resize_part(image: Image, rows: Span, columns: Span, resample: Filter) -> NDArray[np.uint8]:
    """Return a part of an RGB image that is resized in 8 bits, as `[rows, columns, 3]`.

    `rows` and `columns` are the part to compute. The numbers are those of Pillow's `resize`.
    """
    pixels, row_taps, column_taps = _read_source(image, rows, columns, resample)
    for axis in _axis_order(rows, columns):
        taps = (row_taps, column_taps)[axis]
        levels = np.trunc(
            taps.coefficients * 2**BINARY_PLACES + np.copysign(0.5, taps.coefficients)
        )
        total = _sum_products(pixels, taps.first, levels.astype(np.int64), axis)
        pixels = np.clip((total + 2 ** (BINARY_PLACES - 1)) >> BINARY_PLACES, 0, 255).astype(
            np.uint8
        )
    return pixels


def resize_part_in_float(
    image: Image, rows: Span, columns: Span, resample: Filter, scale: np.float32
) -> NDArray[np.float32]:
    """Return a part of an RGB image that is resized in floating point, as `[rows, columns, 3]`.

    `rows` and `columns` are the part to compute. The pixels are multiplied by `scale` before they
    are resized. The numbers are those of Pillow's `resize` of the scaled channels.
    """
    pixels, row_taps, column_taps = _read_source(image, rows, columns, resample)
    values = pixels.astype(np.float32) * scale
    for axis in _axis_order(rows, columns):
        taps = (row_taps, column_taps)[axis]
        values = _sum_products(values, taps.first, taps.coefficients, axis).astype(np.float32)
    return values


def _read_source(
    image: Image, rows: Span, columns: Span, resample: Filter
) -> tuple[NDArray[np.uint8], Taps, Taps]:
    """Return the source pixels that a part depends on, and the taps of its rows and columns.

    The positions in the taps refer to the returned pixels.
    """
    row_taps, column_taps = _compute_taps(rows, resample), _compute_taps(columns, resample)
    top, left = int(row_taps.first.min()), int(column_taps.first.min())
    pixels = np.asarray(image.crop((left, top, column_taps.last, row_taps.last)), np.uint8)
    return (
        pixels,
        row_taps._replace(first=row_taps.first - top),
        column_taps._replace(first=column_taps.first - left),
    )


def _compute_taps(span: Span, resample: Filter) -> Taps:
    """Return Pillow's filter coefficients for the computed pixels of a span.

    Source: `precompute_coeffs` in Pillow's `Resample.c`.
    """
    radius, function = FILTERS[resample]
    # Pillow stores a box in 32-bit floats and subtracts them in this precision.
    low, length = float(np.float32(span.low)), np.float32(span.high) - np.float32(span.low)
    scale = float(length) / span.scaled
    unit = max(scale, 1.0)
    centres = low + (np.arange(span.start, span.stop) + 0.5) * scale
    first = np.maximum(0, (centres - radius * unit + 0.5).astype(np.int64))
    last = np.minimum(span.edge, (centres + radius * unit + 0.5).astype(np.int64))
    count = int((last - first).max())
    positions = first[:, None] + np.arange(count)
    weights = function(np.abs((positions - centres[:, None] + 0.5) * (1.0 / unit)))
    weights[positions >= last[:, None]] = 0
    total = np.zeros(len(weights))
    for column in weights.T:  # in Pillow's order, which determines the last bit
        total += column
    # At the end of the edge the positions move left, so that all of them exist.
    first_positions = np.minimum(first, span.edge - count)
    shift = positions - np.arange(count) - first_positions[:, None]
    return Taps(first_positions, _shift_rows(weights / total[:, None], shift[:, 0]))


def _shift_rows(coefficients: Float64, shift: Int64) -> Float64:
    """Return the coefficients with each row moved to the right by its number in `shift`.

    Zeros fill the start of a row. Coefficients beyond the end are dropped.
    """
    positions = np.arange(coefficients.shape[1]) - shift[:, None]
    shifted = np.take_along_axis(coefficients, np.maximum(positions, 0), axis=1)
    return np.where(positions < 0, 0.0, shifted)


def _sum_products(
    values: NDArray[Any], first: Int64, coefficients: NDArray[Any], axis: int
) -> NDArray[Any]:
    """Return weighted sums of consecutive values along an axis, one for each row of `coefficients`.

    Row `i` multiplies the values at the positions `first[i]`, `first[i] + 1`, … `axis` is 0 or 1.
    """
    shape = (-1, 1, 1) if axis == 0 else (1, -1, 1)
    total: NDArray[Any] = np.zeros((), coefficients.dtype)
    for tap in range(coefficients.shape[1]):
        total = total + values.take(first + tap, axis) * coefficients[:, tap].reshape(shape)
    return total


def _axis_order(rows: Span, columns: Span) -> tuple[int, int]:
    """Return the axes, 0 for the height and 1 for the width, in the order in which Pillow resizes.

    The height comes first if it shrinks by more than twice as many pixels as the width.
    """
    height, width = rows.edge - rows.scaled, columns.edge - columns.scaled
    return (0, 1) if height > 0 and height > 2 * width else (1, 0)


def _triangle(x: Float64) -> Float64:
    """Return the triangle filter `max(0, 1 - x)` at distances `x`."""
    return np.maximum(0.0, 1.0 - x)


def _cubic(x: Float64) -> Float64:
    """Return Keys's cubic filter with a = -1/2 at distances `x`.

    The order of operations is Pillow's, so that the result is equal to the last bit.
    """
    a = -0.5
    inner = ((a + 2.0) * x - (a + 3.0)) * x * x + 1
    outer = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1.0, inner, np.where(x < 2.0, outer, 0.0))


FILTERS: dict[Filter, tuple[float, Callable[[Float64], Float64]]] = {
    "bilinear": (1.0, _triangle),
    "bicubic": (2.0, _cubic),
}
"""The radius of each filter, and the function from a distance to the filter's value.

Both are in units of one pixel of the coarser of the two pictures.
"""
