"""Preprocessing in JAX from 8-bit images to `pixel_values`, to be exported into an ONNX file.

Pillow's 8-bit resize is computed without rounding errors. Its coefficients are ratios of whole
numbers, rounded to 22 binary places. They are multiplied with the pixels in two parts of at most 12
bits. The factors of a GPU's tensor cores hold these parts. float32 holds the sums of their
products: for any pixels up to 30-fold reductions, and in practice beyond.

A pixel of the result depends on few pixels of the image, and its neighbours on nearly the same.
Therefore `BLOCK_PIXELS` pixels at a time are the product of coefficients and one window of pixels.
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
from zoo.images.pixel_values import Size, centre_crop, per_channel, resized_size
from zoo.images.preprocessing import Preprocessing

DIGITS = (8, 7, 7)
"""The steps in which Pillow's coefficients are computed, in binary places. Their sum is 22."""

BINARY_PLACES = sum(DIGITS)
LOWER_PLACES = 12  # binary places of the lower part

BLOCK_PIXELS = 16
"""The number of neighbouring pixels that are computed from one window of pixels.

More pixels need longer windows. Fewer pixels make less use of each window.
"""

RGB = np.eye(3, dtype=np.float32)
Edge: TypeAlias = Any  # pixels along a side: a number or a symbolic dimension of JAX

Weights: TypeAlias = Int64[Array, "blocks block length"]
"""Numerators of the filter coefficients of each output pixel.

The sum of the numerators of one pixel is the denominator of its coefficients.
"""

Coefficients: TypeAlias = Float32[Array, "blocks block length"]

Pixels: TypeAlias = Shaped[Array, "batch height width 3"]

Products: TypeAlias = Callable[[Callable[[Coefficients], Array], Weights], Array]
"""A function that resizes pixels along one side with given weights.

Its first argument is a function that multiplies the pixels with coefficients. Its second argument
holds the weights, from which it computes the coefficients, with or without rounding.
"""


class Windows(NamedTuple):
    """The input pixels along one side that each block of output pixels depends on.

    - `positions`: the positions of the input pixels of each block.
    - `weights`: the weight of each of these input pixels in each output pixel of the block.
    """

    positions: Int64[Array, "blocks length"]
    weights: Weights

    def select_blocks(self, share: Edge) -> "Windows":
        """Return the windows of all blocks if `share` is 1, or of the first block only if it is 0.

        `share` may be a symbolic dimension.
        """
        blocks = core.max_dim(1, share * self.positions.shape[0])
        return Windows(_take_first(self.positions, blocks, 0), _take_first(self.weights, blocks, 0))


def preprocess_image(
    image: UInt8[Array, "batch height width 3"], preprocessing: Preprocessing, size: Size
) -> Float32[Array, "batch 3 height width"]:
    """Return the `pixel_values` of a batch of images of one size, as a JAX computation.

    **Arguments**

    - `image`: the images, whose height and width may be symbolic. Edges may have up to `MAX_EDGE`
      pixels before and after the resize.
    - `preprocessing`: the preprocessing of the model. `padded` must be False.
    - `size`: the (height, width) of the result.

    The result equals `zoo.images.pixel_values` with Pillow 13: exactly if 8-bit values are resized,
    and up to rounding if floating-point values are resized. 64-bit integers have to be enabled
    (`jax.enable_x64`).
    """
    height, width = edges = image.shape[1], image.shape[2]
    scaled = resized_size(edges, preprocessing, size, larger=core.max_dim)
    left, top, _, _ = centre_crop(scaled, size, preprocessing.crop_rounding)
    rows = _compute_windows(preprocessing, height, scaled[0], top, size[0])
    columns = _compute_windows(preprocessing, width, scaled[1], left, size[1])
    if preprocessing.rescale_first:
        resized = _resize_width(
            _resize_height(image, rows, _multiply_floats), columns, _multiply_floats
        )
    else:
        resized = _resize_in_8_bits(image, rows, columns, _is_vertical_first(edges, scaled))
    pixels = resized[:, : size[0], : size[1]].transpose(0, 3, 1, 2)
    return (
        pixels * np.float32(preprocessing.rescale) - per_channel(preprocessing.mean)
    ) / per_channel(preprocessing.std)


def export_preprocessing(
    preprocessing: Preprocessing,
    size: Size,
    opset: int,
    batch: int | None = None,
    target: str = DEFAULT_TARGET,
) -> converter.Export:
    """Export preprocessing as an ONNX graph, to be joined with a network by `converter.join`.

    The input is `image`, 8-bit RGB `[batch, height, width, 3]` with symbolic height and width. The
    output is `pixel_values`, float32 `[batch, 3, *size]`. Constant factors are not multiplied with
    each other, so that the graph rounds as numpy does.

    **Arguments**

    - `preprocessing`: the preprocessing of the model.
    - `size`: the (height, width) of the output.
    - `opset`: the version of ONNX's operators.
    - `batch`: the batch size. None makes it symbolic.
    - `target`: the runtime that the graph is written for.
    """
    with enable_x64(True):
        return converter.to_onnx(
            partial(preprocess_image, preprocessing=preprocessing, size=size),
            [((batch or "batch_size", "height", "width", 3), np.uint8)],
            opset=opset,
            target=target,
            fold=False,
            input_names=["image"],
            output_names=["pixel_values"],
        )


def _compute_windows(
    preprocessing: Preprocessing, edge: Edge, scaled: Edge, start: Edge, out: int
) -> Windows:
    """Return the windows of consecutive pixels of an edge that is resized.

    **Arguments**

    - `preprocessing`: the preprocessing, which names the filter.
    - `edge`: the length of the edge in the image.
    - `scaled`: the length of the resized edge.
    - `start`: the position of the first computed pixel in the resized edge.
    - `out`: the number of computed pixels. The last block is filled with copies of the last pixel.

    Distances between centres are whole numbers, in units of 1 / (2 * `scaled`) of the edge's pixel,
    which is 1 / (2 * `edge`) of the scaled pixel. The unit of the filter is the larger of the two
    pixels, so that it antialiases.
    """
    blocks = -(-out // BLOCK_PIXELS)
    unit = core.max_dim(edge, scaled)
    reach = REACH[preprocessing.resample] * unit
    length = core.min_dim(edge, ((BLOCK_PIXELS - 1) * edge + 2 * reach) // scaled + 2)
    # The last block is filled with copies of the last pixel, whose window exists.
    outputs = 2 * (start + jnp.minimum(jnp.arange(blocks * BLOCK_PIXELS), out - 1)) + 1
    centres = outputs.reshape(blocks, BLOCK_PIXELS, 1) * jnp.asarray(edge)
    first = (centres[:, 0] - jnp.asarray(2 * reach)) // jnp.asarray(2 * scaled)
    positions = jnp.clip(first, 0, jnp.asarray(edge - length)) + jnp.arange(length)
    distance = jnp.abs((2 * positions + 1)[:, None] * jnp.asarray(scaled) - centres)
    return Windows(
        positions, FILTER_FUNCTIONS[preprocessing.resample](distance, jnp.asarray(2 * unit))
    )


def _triangle(distance: Array, unit: Array) -> Array:
    """Return the triangle filter in whole numbers: `max(unit - distance, 0)`.

    `unit` is the distance that counts as 1.
    """
    return unit - jnp.minimum(distance, unit)


def _cubic(distance: Array, unit: Array) -> Array:
    """Return the cubic filter in whole numbers: `2 * unit**3` times Keys's function with a = -1/2.

    The argument of Keys's function is `distance / unit`. Its two polynomials meet at 1.
    """
    x, one = jnp.minimum(distance, 2 * unit), unit
    inner = (3 * x - 5 * one) * x * x + 2 * one**3
    outer = ((5 * one - x) * x - 8 * one**2) * x + 4 * one**3
    return jnp.where(x < one, inner, outer)


FILTER_FUNCTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "bilinear": _triangle,
    "bicubic": _cubic,
}
REACH = {"bilinear": 1, "bicubic": 2}  # the distance from which a filter is zero, in its unit


def _resize_height(pixels: Pixels, rows: Windows, products: Products) -> Pixels:
    """Resize images along the height to `BLOCK_PIXELS` rows for each block of windows.

    `rows` are the windows of the output rows. `products` multiplies the pixels with the
    coefficients.
    """
    batch, height, width, _ = pixels.shape
    lines = pixels.reshape(batch, height, width * 3)
    gathered = _gather_windows(lines, rows).astype(np.float32)
    summed = products(lambda part: part @ gathered, rows.weights)
    return summed.reshape(batch, rows.positions.shape[0] * BLOCK_PIXELS, width, 3)


def _resize_width(pixels: Pixels, columns: Windows, products: Products) -> Pixels:
    """Resize images along the width to `BLOCK_PIXELS` columns for each block of windows.

    `columns` are the windows of the output columns. `products` multiplies the pixels with the
    coefficients. The colours stay on the last axis, because transposing an image would take longer.
    """
    batch, height, width, _ = pixels.shape
    blocks, length = columns.positions.shape
    lines = pixels.reshape(batch * height, width, 3)
    gathered = _gather_windows(lines, columns).reshape(batch * height, blocks, length * 3)
    transposed = gathered.transpose(1, 0, 2).astype(np.float32)

    def product(part: Coefficients) -> Array:
        """Return the pixels of each block multiplied with its coefficients."""
        matrices = part.transpose(0, 2, 1)[:, :, None, :, None] * RGB[:, None]
        return transposed @ matrices.reshape(blocks, length * 3, BLOCK_PIXELS * 3)

    summed = products(product, columns.weights).transpose(1, 0, 2)
    return summed.reshape(batch, height, blocks * BLOCK_PIXELS, 3)


def _gather_windows(lines: Array, windows: Windows) -> Array:
    """Return the pixels of each window of images, as `[images, blocks, length, …]`.

    `lines` are the images `[images, pixels, …]`, which are resized along their second axis.
    """
    return jnp.take(lines, windows.positions, axis=1, mode="clip")


def _take_first(array: Array, count: Edge, axis: int) -> Array:
    """Return the first `count` entries of an array along an axis.

    The entries are gathered because JAX refuses a slice if it cannot prove that the array is so
    long.
    """
    return jnp.take(array, lax.iota(np.int64, count), axis=axis, mode="clip")


def _is_vertical_first(edges: tuple[Edge, Edge], scaled: tuple[Edge, Edge]) -> Edge:
    """Return 1 if Pillow 13 or later resizes the height before the width, otherwise 0.

    `edges` and `scaled` are the (height, width) before and after, which may be symbolic. Pillow
    resizes the height first if it shrinks by more than twice as many pixels as the width.
    """
    height, width = (edge - to for edge, to in zip(edges, scaled, strict=True))
    excess = core.min_dim(height, height - 2 * width)
    return core.max_dim(0, core.min_dim(1, excess))


def _resize_in_8_bits(image: Pixels, rows: Windows, columns: Windows, vertical: Edge) -> Pixels:
    """Resize images as Pillow does, which rounds to whole numbers after each direction.

    **Arguments**

    - `image`: the images.
    - `rows`, `columns`: the windows of the output rows and columns.
    - `vertical`: 1 if the height is resized first, 0 if the width is.

    The results are from 0 to 255. The graph contains both orders of the directions. For the order
    that Pillow does not use, only the first rows are computed, which takes little time, and
    discarded. A direction that keeps its length has the coefficients 0 and 1.
    """
    horizontal = 1 - vertical
    rows_needed = _take_first(image, core.max_dim(1, image.shape[1] * horizontal), 1)
    by_columns = _resize_width(
        _resize_height(image, rows.select_blocks(vertical), _multiply_rounded),
        columns,
        _multiply_rounded,
    )
    by_rows = _resize_height(
        _resize_width(rows_needed, columns, _multiply_rounded),
        rows.select_blocks(horizontal),
        _multiply_rounded,
    )
    first_row = jnp.asarray(BLOCK_PIXELS * horizontal)  # after the one block of `by_columns`
    positions = first_row + jnp.arange(rows.positions.shape[0] * BLOCK_PIXELS)
    return jnp.take(jnp.concatenate([by_columns, by_rows], 1), positions, axis=1, mode="clip")


def _multiply_floats(product: Callable[[Coefficients], Array], weights: Weights) -> Array:
    """Resize pixels with coefficients in float32 and do not round the result.

    `product` multiplies the pixels with coefficients. A coefficient is a weight divided by the sum
    of the weights of its pixel.
    """
    total = weights.sum(-1, keepdims=True)
    return product(weights.astype(np.float32) / total.astype(np.float32))


def _coefficients(weights: Weights) -> Coefficients:
    """Return Pillow's coefficients: weights divided by their sum, times 2**22, as whole numbers.

    They are rounded half away from zero and are smaller than 2**24.
    """
    total = weights.sum(-1, keepdims=True)
    size, remainder = jnp.int64(0), jnp.abs(weights)
    # Long division in steps, because 64 bits do not hold all digits at once.
    for digits in DIGITS:
        size, remainder = size * 2**digits, remainder * 2**digits
        digit = lax.div(remainder, jnp.broadcast_to(total, remainder.shape))
        size, remainder = size + digit, remainder - digit * total
    size = (size + (2 * remainder >= total)).astype(np.float32)
    # jnp.where in place of jnp.sign, which takes the converter more nodes.
    return jnp.where(weights < 0, -size, size)


def _multiply_rounded(product: Callable[[Coefficients], Array], weights: Weights) -> Array:
    """Resize pixels with Pillow's coefficients, and round the result to 0 … 255 as Pillow does.

    `product` multiplies the pixels with coefficients. It is called twice, with the upper and the
    lower binary places of the coefficients.
    """
    coefficients = _coefficients(weights)
    upper = jnp.round(coefficients / 2**LOWER_PLACES)
    lower = coefficients - upper * 2**LOWER_PLACES
    # In the unit of the upper part: the remainder of the lower part does not change the result.
    total = product(upper) + jnp.floor(product(lower) / 2**LOWER_PLACES)
    half, unit = 2 ** (BINARY_PLACES - LOWER_PLACES - 1), 2 ** (BINARY_PLACES - LOWER_PLACES)
    return jnp.clip(jnp.floor((total + half) / unit), 0, 255)
