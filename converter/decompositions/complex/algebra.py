"""Arithmetic, order, gathers and scatters of complex numbers.

They are ordered by their real parts, then by their imaginary parts.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from converter.decompositions.complex.complex_rules import meaning, meanings
from converter.decompositions.computation import Combine, combine_neighbours, reduced_axes_last
from converter.decompositions.window_reductions import Pads, reduce_windows
from converter.ir.complex_pairs import Pair, combine_parts, complex_parts, is_complex, real_dtype


def multiply(x: Pair, y: Pair) -> Pair:
    return Pair(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


def one_like(x: Pair) -> Pair:
    return Pair(jnp.ones_like(x.re), jnp.zeros_like(x.re))


def select(condition: jax.Array, x: Pair, y: Pair) -> Pair:
    """Return the first number where the condition holds, else the second."""
    return Pair(jnp.where(condition, x.re, y.re), jnp.where(condition, x.im, y.im))


def sides(x: Pair) -> tuple[jax.Array, jax.Array]:
    """Return the larger and the smaller magnitude of both parts."""
    a, b = jnp.abs(x.re), jnp.abs(x.im)
    return jnp.maximum(a, b), jnp.minimum(a, b)


def is_ordinary(size: jax.Array) -> jax.Array:
    """Return True if a magnitude is a valid divisor: not zero, infinite or NaN."""
    return (size > 0) & (size < jnp.inf)


@meaning("abs")
def size(x: Pair) -> jax.Array:
    """Return the magnitude, scaled by the larger part so that nothing overflows."""
    large, small = sides(x)
    ratio = small / jnp.where(is_ordinary(large), large, 1)
    return large * jnp.sqrt(1 + ratio * ratio)


def polar_product(length: jax.Array, angle: jax.Array) -> Pair:
    """Return the number of magnitude ``length**2`` and an angle, so that only the result can
    overflow."""
    re, im = length * jnp.cos(angle) * length, length * jnp.sin(angle) * length
    return Pair(re, jnp.where(angle == 0, angle, im))


@meaning("div")
def divide(x: Pair, y: Pair) -> Pair:
    """Divide after scaling the divisor to a larger part of one (as in Smith's method, 1962).

    A zero divides like a real zero; an infinite divisor gives zero.
    """
    large, _ = sides(y)
    is_ordinary_divisor = is_ordinary(large)
    scale = 1 / jnp.where(large == 0, y.re, large)
    c, d = (
        jnp.where(is_ordinary_divisor, y.re * scale, 1),
        jnp.where(is_ordinary_divisor, y.im * scale, 0),
    )
    length = c * c + d * d
    re, im = x.re * c + x.im * d, x.im * c - x.re * d
    return Pair(re / length * scale, im / length * scale)


@meaning("sign")
def sign(x: Pair) -> Pair:
    length = size(x)
    return select(length == 0, x, Pair(x.re / length, x.im / length))


@meaning("square")
def square(x: Pair) -> Pair:
    return Pair((x.re - x.im) * (x.re + x.im), (x.re + x.re) * x.im)


@meaning("integer_pow")
def integer_pow(x: Pair, *, y: int) -> Pair:
    """Return a power by repeated squaring, as JAX computes it."""
    result, left = None, abs(y)
    while left:
        if left % 2:
            result = x if result is None else multiply(result, x)
        x, left = square(x), left // 2
    power = one_like(x) if result is None else result
    return power if y >= 0 else divide(one_like(x), power)


@meaning("polynomial")
def horner(x: Pair, *coefficients: Pair) -> Pair:
    """Return a polynomial by its coefficients, the constant first (jax >= 0.12)."""
    *lower_ones, highest = coefficients
    result = Pair(*(jnp.broadcast_to(part, x.re.shape) for part in highest))
    for coefficient in reversed(lower_ones):
        step = multiply(result, x)
        result = Pair(step.re + coefficient.re, step.im + coefficient.im)
    return result


@meaning("conj", ignores=("input_dtype", "_input_dtype"))
def conj(x: Any) -> Pair:
    """Return the conjugate of a real or complex number. JAX spells the ignored parameter in two
    ways."""
    return Pair(x.re, -x.im) if isinstance(x, Pair) else Pair(x, jnp.zeros_like(x))


@meaning("convert_element_type")
def convert_element_type(x: Any, *, new_dtype: Any) -> Any:
    """Convert a number; a complex number becomes its real part in a real dtype."""
    part = real_dtype(new_dtype)
    if not is_complex(new_dtype):
        return lax.convert_element_type(x.re, new_dtype)
    if isinstance(x, Pair):
        return Pair(*(lax.convert_element_type(half, part) for half in x))
    return Pair(lax.convert_element_type(x, part), jnp.zeros(x.shape, part))


@meaning("iota")
def iota(*_: Any, dtype: Any, shape: tuple[int, ...], dimension: int) -> Pair:
    part = real_dtype(dtype)
    return Pair(lax.broadcasted_iota(part, shape, dimension), jnp.zeros(shape, part))


meanings(
    {
        "real": lambda x: x.re,
        "imag": lambda x: x.im,
        "complex": lambda re, im: Pair(*jnp.broadcast_arrays(re, im)),
        "eq": lambda x, y: (x.re == y.re) & (x.im == y.im),
        "ne": lambda x, y: (x.re != y.re) | (x.im != y.im),
    }
)
# JAX reinterprets the bits of complex numbers only as the same dtype.
meanings({"bitcast_convert_type": lambda x: x}, ignores=("new_dtype",))

# ----------------------------------------------------------------------- order, gathers, scatters

Combined = Callable[[Any, Any], Any]


def _select_later(compare: Combined, x: Pair, y: Pair) -> Pair:
    first = jnp.where(x.re == y.re, compare(x.im, y.im), compare(x.re, y.re))
    return select(first, x, y)


meanings({"max": partial(_select_later, lax.gt), "min": partial(_select_later, lax.lt)})


@meaning("sort")
def sort(*operands: Any, dimension: int, num_keys: int) -> tuple[Any, ...]:
    """Sort with two real keys for each complex key."""
    flat = [half for x in operands for half in (x if isinstance(x, Pair) else (x,))]
    keys = sum(2 if isinstance(x, Pair) else 1 for x in operands[:num_keys])
    arrays = iter(lax.sort(flat, dimension=dimension, num_keys=keys))
    return tuple(
        Pair(next(arrays), next(arrays)) if isinstance(x, Pair) else next(arrays) for x in operands
    )


def _single_array_form(combine: Combined) -> Combine:
    """Return the function for tuples of one array."""
    return lambda xs, ys: (combine(*xs, *ys),)


def _order_reduced(combine: Combined, x: Pair, *, axes: tuple[int, ...]) -> Pair:
    """Combine neighbours until one is left."""
    (extreme,) = combine_neighbours(
        _single_array_form(combine), [reduced_axes_last(combine_parts(x), axes)]
    )
    return complex_parts(extreme[..., 0])


meaning("reduce_max")(partial(_order_reduced, lax.max))
meaning("reduce_min")(partial(_order_reduced, lax.min))


@meaning("reduce_prod")
def reduce_prod(x: Pair, *, axes: tuple[int, ...]) -> Pair:
    if 0 in x.re.shape:
        left = lax.reduce_prod(x.re, axes)
        return Pair(left, jnp.zeros_like(left))
    return _order_reduced(lax.mul, x, axes=axes)


def _cumulative(combine: Combined, x: Pair, *, axis: int, reverse: bool) -> Pair:
    return complex_parts(
        lax.associative_scan(combine, combine_parts(x), axis=axis, reverse=reverse)
    )


meaning("cumprod")(partial(_cumulative, lax.mul))
meaning("cummax")(partial(_cumulative, lax.max))
meaning("cummin")(partial(_cumulative, lax.min))


def _extreme(
    combine: Combined,
    start: float,
    x: Pair,
    *,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Pads,
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> Pair:
    window = (window_dimensions, window_strides, padding, base_dilation, window_dilation)
    return complex_parts(
        *reduce_windows([combine_parts(x)], [start], _single_array_form(combine), *window)
    )


meaning("reduce_window_max")(partial(_extreme, lax.max, -jnp.inf))
meaning("reduce_window_min")(partial(_extreme, lax.min, jnp.inf))


@meaning("gather")
def gather(
    x: Pair,
    indices: jax.Array,
    *,
    dimension_numbers: Any,
    slice_sizes: tuple[int, ...],
    mode: Any,
    fill_value: Any,
) -> Pair:
    """Gather with NaN as the default fill value; it is real if it is NaN."""
    fill = complex(jnp.nan if fill_value is None else fill_value)
    return Pair(
        *(
            lax.gather(x_, indices, dimension_numbers, slice_sizes, mode=mode, fill_value=filler)
            for x_, filler in zip(x, (fill.real, fill.imag), strict=True)
        )
    )


@meaning("scatter-mul")
def scatter_mul(
    x: Pair, indices: jax.Array, updates: Pair, *, dimension_numbers: Any, mode: Any
) -> Pair:
    """Multiply magnitudes and add angles, in any order."""
    angles = [jnp.arctan2(z.im, z.re) for z in (x, updates)]
    length = lax.scatter_mul(size(x), indices, size(updates), dimension_numbers, mode=mode)
    zeros = jnp.zeros_like(x.re)
    angle = lax.scatter_add(zeros, indices, angles[1], dimension_numbers, mode=mode)
    ones = jnp.ones_like(updates.re)
    counts = lax.scatter_add(zeros, indices, ones, dimension_numbers, mode=mode)
    moved = polar_product(jnp.sqrt(length), angles[0] + angle)
    return Pair(*(jnp.where(counts > 0, m, original) for m, original in zip(moved, x, strict=True)))
