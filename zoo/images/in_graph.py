"""Preprocessing in JAX, so that a file can hold it: from 8-bit images to `pixel_values`.

Pillow's 8-bit resize is repeated without a rounding error. Its coefficients are ratios of whole
numbers, rounded to 22 binary places. They meet the pixels in two parts of at most 12 bits: float32
holds the sums of their products (to 30-fold reductions whatever the pixels, beyond in practice),
and the factors of a GPU's tensor cores hold the parts.

A pixel of the result depends on few of the image, its neighbours on nearly the same. So
`BLOCK_PIXELS` at a time are the product of coefficients with one window of pixels.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array, core, lax
from jaxtyping import Float32, Int64, Shaped, UInt8

import converter
from converter.jax_versions import enable_x64
from converter.opsets import DEFAULT_TARGET
from zoo.images.pixel_values import Size, centre, channels, resized_size
from zoo.images.preprocessing import Preprocessing

DIGITS = (8, 7, 7)
"""Binary places of Pillow's coefficients of 8-bit values, in the steps they are computed in."""

PLACES = sum(DIGITS)
LOWER = 12  # how many places the lower part has

BLOCK_PIXELS = 16
"""So many neighbours are computed from one window: more need longer ones, fewer use them less."""

RGB = np.eye(3, dtype=np.float32)
Edge: TypeAlias = Any  # pixels along a side: a number, or one of JAX's symbols

Weights: TypeAlias = Int64[Array, "blocks block length"]
"""Numerators of an output's coefficients, whose sum is their denominator."""

Coefficients: TypeAlias = Float32[Array, "blocks block length"]

Pixels: TypeAlias = Shaped[Array, "batch height width 3"]

Products: TypeAlias = Callable[[Callable[[Coefficients], Array], Weights], Array]
"""From what multiplies with coefficients, and weights, to the resized pixels of all blocks."""


class Windows(NamedTuple):
    """The pixels along a side that blocks of outputs depend on, and how much."""

    places: Int64[Array, "blocks length"]
    weights: Weights

    def some(self, share: Edge) -> "Windows":
        """All blocks, or one: `share` is one or zero."""
        blocks = core.max_dim(1, share * self.places.shape[0])
        return Windows(_first(self.places, blocks, 0), _first(self.weights, blocks, 0))


def prepare(
    image: UInt8[Array, "batch height width 3"], how: Preprocessing, size: Size
) -> Float32[Array, "batch 3 height width"]:
    """`pixel_values` of (height, width) `size`, from images of any one size.

    Equals `zoo.images.pixel_values` with Pillow 13: exactly where that resizes 8-bit values, to
    rounding where it resizes floating-point ones. Edges may have up to `LONGEST_EDGE` pixels,
    before and after; 64-bit integers have to be allowed (`jax.enable_x64`).
    """
    height, width = edges = image.shape[1], image.shape[2]
    scaled = resized_size(edges, how, size, larger=core.max_dim)
    left, top, _, _ = centre(scaled, size, how.crop_rounding)
    rows = _windows(how, height, scaled[0], top, size[0])
    columns = _windows(how, width, scaled[1], left, size[1])
    if how.rescale_first:
        resized = _across(_down(image, rows, _floats), columns, _floats)
    else:
        resized = _levels(image, rows, columns, _is_vertical_first(edges, scaled))
    pixels = resized[:, : size[0], : size[1]].transpose(0, 3, 1, 2)
    return (pixels * np.float32(how.rescale) - channels(how.mean)) / channels(how.std)


def front(
    how: Preprocessing,
    size: Size,
    opset: int,
    batch: int | None = None,
    target: str = DEFAULT_TARGET,
) -> converter.Export:
    """Preprocessing as a graph of its own, for `converter.join`.

    From `image`, 8-bit RGB `[batch, height, width, 3]` with open height and width, to float32
    `pixel_values` `[batch, 3, *size]`; the batch size is open too if it is None. It rounds as numpy
    does, so its factors are not multiplied with each other.
    """
    with enable_x64(True):
        return converter.to_onnx(
            partial(prepare, how=how, size=size),
            [((batch or "batch_size", "height", "width", 3), np.uint8)],
            opset=opset,
            target=target,
            fold=False,
            input_names=["image"],
            output_names=["pixel_values"],
        )


def _windows(how: Preprocessing, edge: Edge, scaled: Edge, start: Edge, out: int) -> Windows:
    """For `out` pixels of the scaled edge from `start` on, and some more to fill the last block.

    Distances of centres are counted in parts of a pixel, 2 * `scaled` of the edge's and 2 * `edge`
    of the scaled one's, which makes them whole numbers. The larger pixel of the two is the filter's
    unit: so it antialiases.
    """
    blocks = -(-out // BLOCK_PIXELS)
    unit = core.max_dim(edge, scaled)
    reach = REACH[how.resample] * unit
    length = core.min_dim(edge, ((BLOCK_PIXELS - 1) * edge + 2 * reach) // scaled + 2)
    # What fills the last block repeats the last pixel, which has neighbours.
    outputs = 2 * (start + jnp.minimum(jnp.arange(blocks * BLOCK_PIXELS), out - 1)) + 1
    centres = outputs.reshape(blocks, BLOCK_PIXELS, 1) * jnp.asarray(edge)
    first = (centres[:, 0] - jnp.asarray(2 * reach)) // jnp.asarray(2 * scaled)
    places = jnp.clip(first, 0, jnp.asarray(edge - length)) + jnp.arange(length)
    distance = jnp.abs((2 * places + 1)[:, None] * jnp.asarray(scaled) - centres)
    return Windows(places, FILTER_FUNCTIONS[how.resample](distance, jnp.asarray(2 * unit)))


def _triangle(distance: Array, unit: Array) -> Array:
    """1 - x up to x = 1."""
    return unit - jnp.minimum(distance, unit)


def _cubic(distance: Array, unit: Array) -> Array:
    """Keys's cubic convolution with a = -1/2, twice; its two polynomials meet in x = 1."""
    x, one = jnp.minimum(distance, 2 * unit), unit
    near = (3 * x - 5 * one) * x * x + 2 * one**3
    far = ((5 * one - x) * x - 8 * one**2) * x + 4 * one**3
    return jnp.where(x < one, near, far)


FILTER_FUNCTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "bilinear": _triangle,
    "bicubic": _cubic,
}
REACH = {"bilinear": 1, "bicubic": 2}  # how far from its centre a filter is not zero, in its unit


def _down(pixels: Pixels, rows: Windows, products: Products) -> Pixels:
    """Resized along the height."""
    batch, height, width, _ = pixels.shape
    lines = pixels.reshape(batch, height, width * 3)
    taken = _taken(lines, rows).astype(np.float32)
    summed = products(lambda part: part @ taken, rows.weights)
    return summed.reshape(batch, rows.places.shape[0] * BLOCK_PIXELS, width, 3)


def _across(pixels: Pixels, columns: Windows, products: Products) -> Pixels:
    """Resized along the width, the colours side by side: to turn an image would take longer."""
    batch, height, width, _ = pixels.shape
    blocks, length = columns.places.shape
    lines = pixels.reshape(batch * height, width, 3)
    taken = _taken(lines, columns).reshape(batch * height, blocks, length * 3)
    turned = taken.transpose(1, 0, 2).astype(np.float32)

    def product(part: Coefficients) -> Array:
        each = part.transpose(0, 2, 1)[:, :, None, :, None] * RGB[:, None]
        return turned @ each.reshape(blocks, length * 3, BLOCK_PIXELS * 3)

    summed = products(product, columns.weights).transpose(1, 0, 2)
    return summed.reshape(batch, height, blocks * BLOCK_PIXELS, 3)


def _taken(lines: Array, windows: Windows) -> Array:
    return jnp.take(lines, windows.places, axis=1, mode="clip")


def _first(array: Array, count: Edge, axis: int) -> Array:
    """So many, from the first on. JAX cannot tell that there are as many, and would not slice."""
    return jnp.take(array, lax.iota(np.int64, count), axis=axis, mode="clip")


def _is_vertical_first(edges: tuple[Edge, Edge], scaled: tuple[Edge, Edge]) -> Edge:
    """One if Pillow (13 and later) begins with the columns, else zero. It does where much more
    height goes than width."""
    height, width = (edge - to for edge, to in zip(edges, scaled, strict=True))
    more = core.min_dim(height, height - 2 * width)
    return core.max_dim(0, core.min_dim(1, more))


def _levels(image: Pixels, rows: Windows, columns: Windows, vertical: Edge) -> Pixels:
    """As Pillow, which rounds to whole numbers from 0 to 255 after each of the two directions.

    Both orders are written down, but of the one that is not Pillow's only the first rows are
    computed, which takes no time, and left out.
    A direction that keeps its length changes nothing, here by coefficients of 0 and 1.
    """
    horizontal = 1 - vertical
    cut = _first(image, core.max_dim(1, image.shape[1] * horizontal), 1)
    by_columns = _across(_down(image, rows.some(vertical), _rounded), columns, _rounded)
    by_rows = _down(_across(cut, columns, _rounded), rows.some(horizontal), _rounded)
    begin = jnp.asarray(BLOCK_PIXELS * horizontal)  # behind the one block by columns
    places = begin + jnp.arange(rows.places.shape[0] * BLOCK_PIXELS)
    return jnp.take(jnp.concatenate([by_columns, by_rows], 1), places, axis=1, mode="clip")


def _floats(product: Callable[[Coefficients], Array], weights: Weights) -> Array:
    """Without rounding."""
    total = weights.sum(-1, keepdims=True)
    return product(weights.astype(np.float32) / total.astype(np.float32))


def _coefficients(weights: Weights) -> Coefficients:
    """Times 2**22, rounded, half away from zero: whole numbers of less than 24 bits."""
    total = weights.sum(-1, keepdims=True)
    size, remainder = jnp.int64(0), jnp.abs(weights)
    # Long division: 64 bits would not hold all digits at once.
    for places in DIGITS:
        size, remainder = size * 2**places, remainder * 2**places
        digit = lax.div(remainder, jnp.broadcast_to(total, remainder.shape))
        size, remainder = size + digit, remainder - digit * total
    size = (size + (2 * remainder >= total)).astype(np.float32)
    # Without jnp.sign, for which the converter needs more nodes.
    return jnp.where(weights < 0, -size, size)


def _rounded(product: Callable[[Coefficients], Array], weights: Weights) -> Array:
    """A product with coefficients as Pillow's integers have it."""
    coefficients = _coefficients(weights)
    upper = jnp.round(coefficients / 2**LOWER)
    lower = coefficients - upper * 2**LOWER
    # In the unit of the upper part, where the rest of the lower one changes no whole number.
    total = product(upper) + jnp.floor(product(lower) / 2**LOWER)
    half, unit = 2 ** (PLACES - LOWER - 1), 2 ** (PLACES - LOWER)
    return jnp.clip(jnp.floor((total + half) / unit), 0, 255)
