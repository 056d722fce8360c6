"""Preprocessing in JAX, so that a file can hold it: from 8-bit images to `pixel_values`.

Pillow's 8-bit resize is repeated without a rounding error. Its coefficients are ratios of whole
numbers, rounded to 22 binary places. They meet the pixels in two parts of at most 12 bits: float32
holds the sums of their products (to 30-fold reductions whatever the pixels, beyond in practice),
and the factors of a GPU's tensor cores hold the parts.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jaxtyping import Bool, Float32, Int64, UInt8

import converter
from zoo.images.pixel_values import Size, centre, channels, resized_size
from zoo.models.config import Preprocessing

DIGITS = (8, 7, 7)
"""Binary places of Pillow's coefficients of 8-bit values, in the steps they are computed in."""

PLACES = sum(DIGITS)

LOWER = 12
"""How many places the lower part has."""

Edge: TypeAlias = Any
"""Pixels along a side: a number, one that is computed, or one of JAX's symbols."""

Weights: TypeAlias = Int64[Array, "out edge"]
"""Numerators of an output's coefficients in each row, whose sum is their denominator."""

Coefficients: TypeAlias = Float32[Array, "out edge"]

Pixels: TypeAlias = Float32[Array, "batch 3 height width"]


def prepare(image: UInt8[Array, "batch height width 3"], how: Preprocessing, size: Size) -> Pixels:
    """`pixel_values` of (height, width) `size`, from images of any one size.

    Equals `zoo.images.pixel_values` with Pillow 13: exactly where that resizes 8-bit values, to
    rounding where it resizes floating-point ones. Edges may have up to 26,000 pixels, before and
    after; 64-bit integers have to be allowed (`jax.enable_x64`).
    """
    height, width = edges = image.shape[1], image.shape[2]
    scaled = resized_size(edges, how, size, larger=_larger)
    left, top, _, _ = centre(scaled, size)
    rows = _weights(how, height, scaled[0], top, size[0])
    columns = _weights(how, width, scaled[1], left, size[1])
    pixels = image.transpose(0, 3, 1, 2).astype(np.float32)
    if how.rescale_first:
        pixels = _resize_floats(pixels, rows, columns)
    else:
        pixels = _resize(pixels, rows, columns, _is_vertical_first(edges, scaled))
    return (pixels * np.float32(how.rescale) - channels(how.mean)) / channels(how.std)


def front(how: Preprocessing, size: Size, opset: int, batch: int | None = None) -> converter.Export:
    """Preprocessing as a graph of its own, for `converter.join`.

    From `image`, 8-bit RGB `[batch, height, width, 3]` with open height and width, to float32
    `pixel_values` `[batch, 3, *size]`; the batch size is open too if it is None. It rounds as numpy
    does, so its factors are not multiplied with each other.
    """
    with jax.enable_x64(True):
        return converter.to_onnx(
            partial(prepare, how=how, size=size),
            [((batch or "batch_size", "height", "width", 3), np.uint8)],
            opset=opset,
            fold=False,
            input_names=["image"],
            output_names=["pixel_values"],
        )


def _larger(one: Edge, other: Edge) -> Array:
    return jnp.maximum(jnp.asarray(one), jnp.asarray(other))


def _weights(how: Preprocessing, edge: Edge, scaled: Edge, start: Edge, out: int) -> Weights:
    """Of the pixels of an edge, for `out` pixels of the scaled one from `start` on.

    Distances of centres are counted in parts of a pixel, 2 * `scaled` of the edge's and 2 * `edge`
    of the scaled one's, which makes them whole numbers. The larger pixel of the two is the filter's
    unit: so it antialiases.
    """
    pixels = 2 * jnp.arange(edge) + 1
    wanted = 2 * (start + jnp.arange(out)) + 1
    distance = jnp.abs(pixels * jnp.asarray(scaled) - wanted[:, None] * jnp.asarray(edge))
    return FILTERS[how.resample](distance, 2 * _larger(edge, scaled))


def _triangle(distance: Array, unit: Array) -> Array:
    """1 - x up to x = 1."""
    return unit - jnp.minimum(distance, unit)


def _cubic(distance: Array, unit: Array) -> Array:
    """Keys's cubic convolution with a = -1/2, twice; its two polynomials meet in x = 1."""
    x, one = jnp.minimum(distance, 2 * unit), unit
    near = (3 * x - 5 * one) * x * x + 2 * one**3
    far = ((5 * one - x) * x - 8 * one**2) * x + 4 * one**3
    return jnp.where(x < one, near, far)


FILTERS: dict[str, Callable[[Array, Array], Array]] = {"bilinear": _triangle, "bicubic": _cubic}


def _resize_floats(pixels: Pixels, rows: Weights, columns: Weights) -> Pixels:
    """Without rounding."""
    vertical, horizontal = (
        weights.astype(np.float32) / weights.sum(1, keepdims=True).astype(np.float32)
        for weights in (rows, columns)
    )
    return vertical @ (pixels @ horizontal.T)


def _is_vertical_first(edges: tuple[Edge, Edge], scaled: tuple[Edge, Edge]) -> Bool[Array, ""]:
    """Whether Pillow (13 and later) begins with the columns: where much more height goes."""
    height, width = (
        jnp.asarray(edge) - jnp.asarray(to) for edge, to in zip(edges, scaled, strict=True)
    )
    return (height > 0) & (height > 2 * width)


def _resize(
    pixels: Pixels, rows: Weights, columns: Weights, vertical_first: Bool[Array, ""]
) -> Pixels:
    """As Pillow, which rounds to whole numbers from 0 to 255 after each of the two directions.

    A direction that keeps its length changes nothing, here by coefficients of 0 and 1.
    """
    vertical, horizontal = _coefficients(rows), _coefficients(columns)

    def along_rows(pixels: Pixels) -> Pixels:
        return _rounded(lambda part: pixels @ part.T, horizontal)

    def along_columns(pixels: Pixels) -> Pixels:
        return _rounded(lambda part: part @ pixels, vertical)

    by_columns, by_rows = along_rows(along_columns(pixels)), along_columns(along_rows(pixels))
    return jnp.where(vertical_first, by_columns, by_rows)


def _coefficients(weights: Weights) -> Coefficients:
    """Times 2**22, rounded, half away from zero: whole numbers of less than 24 bits."""
    total = weights.sum(1, keepdims=True)
    size, rest = jnp.int64(0), jnp.abs(weights)
    # Long division: 64 bits would not hold all digits at once.
    for places in DIGITS:
        size, rest = size * 2**places, rest * 2**places
        digit = lax.div(rest, jnp.broadcast_to(total, rest.shape))
        size, rest = size + digit, rest - digit * total
    size = (size + (2 * rest >= total)).astype(np.float32)
    # Without jnp.sign, for which the converter needs more nodes.
    return jnp.where(weights < 0, -size, size)


def _rounded(product: Callable[[Coefficients], Pixels], coefficients: Coefficients) -> Pixels:
    """A product with `coefficients` as Pillow's integers have it."""
    upper = jnp.round(coefficients / 2**LOWER)
    lower = coefficients - upper * 2**LOWER
    total = product(upper).astype(np.int32) * 2**LOWER + product(lower).astype(np.int32)
    level = lax.div(total + 2 ** (PLACES - 1), jnp.int32(2**PLACES))
    return jnp.clip(level, 0, 255).astype(np.float32)
