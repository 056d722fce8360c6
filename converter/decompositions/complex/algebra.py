"""Arithmetic, order, gathers and scatters of complex numbers.

Complex numbers are ordered by their real parts, then by their imaginary parts.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from converter.decompositions.complex.complex_rules import complex_rule, register_complex_rules
from converter.decompositions.computation import Combine, combine_neighbours, reduced_axes_last
from converter.decompositions.window_reductions import Pads, reduce_windows
from converter.ir.complex_pairs import Pair, combine_parts, complex_parts, is_complex, real_dtype


def multiply(x: Pair, y: Pair) -> Pair:
    """Return the product ``x y``."""
    return Pair(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


def one_like(x: Pair) -> Pair:
    """Return 1 in the shape and dtype of ``x``."""
    return Pair(jnp.ones_like(x.re), jnp.zeros_like(x.re))


def select(condition: jax.Array, x: Pair, y: Pair) -> Pair:
    """Return ``x`` where the condition is True, else ``y``."""
    return Pair(jnp.where(condition, x.re, y.re), jnp.where(condition, x.im, y.im))


def larger_and_smaller_part(x: Pair) -> tuple[jax.Array, jax.Array]:
    """Return, in this order, the larger and the smaller of the magnitudes of the real and the
    imaginary part."""
    a, b = jnp.abs(x.re), jnp.abs(x.im)
    return jnp.maximum(a, b), jnp.minimum(a, b)


def is_finite_nonzero(size: jax.Array) -> jax.Array:
    """Return True if a magnitude is a valid divisor: not zero, infinite or NaN."""
    return (size > 0) & (size < jnp.inf)


@complex_rule("abs")
def magnitude(x: Pair) -> jax.Array:
    """Return the magnitude of ``x``. It is scaled by the larger part, so that no square
    overflows."""
    large, small = larger_and_smaller_part(x)
    ratio = small / jnp.where(is_finite_nonzero(large), large, 1)
    return large * jnp.sqrt(1 + ratio * ratio)


def polar_product(length: jax.Array, angle: jax.Array) -> Pair:
    """Return the number with magnitude ``length**2`` and angle ``angle``.

    The magnitude is multiplied in two steps, so that nothing but the result can overflow.
    """
    re, im = length * jnp.cos(angle) * length, length * jnp.sin(angle) * length
    return Pair(re, jnp.where(angle == 0, angle, im))


@complex_rule("div")
def divide(x: Pair, y: Pair) -> Pair:
    """Return ``x / y``. The divisor is first scaled so that its larger part is one (as in Smith's
    method, 1962).

    A divisor of zero is treated as its real part, a zero with a sign. A finite number divided by an
    infinite number is zero.
    """
    large, _ = larger_and_smaller_part(y)
    is_valid_divisor = is_finite_nonzero(large)
    scale = 1 / jnp.where(large == 0, y.re, large)
    c, d = (
        jnp.where(is_valid_divisor, y.re * scale, 1),
        jnp.where(is_valid_divisor, y.im * scale, 0),
    )
    length = c * c + d * d
    re, im = x.re * c + x.im * d, x.im * c - x.re * d
    return Pair(re / length * scale, im / length * scale)


@complex_rule("sign")
def sign(x: Pair) -> Pair:
    """Return ``x / |x|``, or ``x`` if it is zero."""
    length = magnitude(x)
    return select(length == 0, x, Pair(x.re / length, x.im / length))


@complex_rule("square")
def square(x: Pair) -> Pair:
    """Return ``x ** 2``."""
    return Pair((x.re - x.im) * (x.re + x.im), (x.re + x.re) * x.im)


@complex_rule("integer_pow")
def integer_pow(x: Pair, *, y: int) -> Pair:
    """Return ``x ** y`` for an integer ``y``, by repeated squaring as in JAX. It is 1 if ``y`` is
    0."""
    result, remaining = None, abs(y)
    while remaining:
        if remaining % 2:
            result = x if result is None else multiply(result, x)
        x, remaining = square(x), remaining // 2
    power = one_like(x) if result is None else result
    return power if y >= 0 else divide(one_like(x), power)


@complex_rule("polynomial")
def horner(x: Pair, *coefficients: Pair) -> Pair:
    """Return the polynomial of ``x`` with these coefficients, the constant first, by Horner's rule
    (jax >= 0.12)."""
    *lower_ones, highest = coefficients
    result = Pair(*(jnp.broadcast_to(part, x.re.shape) for part in highest))
    for coefficient in reversed(lower_ones):
        step = multiply(result, x)
        result = Pair(step.re + coefficient.re, step.im + coefficient.im)
    return result


@complex_rule("conj", ignores=("input_dtype", "_input_dtype"))
def conj(x: Any) -> Pair:
    """Return the conjugate of ``x``, a pair or a real array.

    JAX spells the parameter that is ignored in two ways.
    """
    return Pair(x.re, -x.im) if isinstance(x, Pair) else Pair(x, jnp.zeros_like(x))


@complex_rule("convert_element_type")
def convert_element_type(x: Any, *, new_dtype: Any) -> Any:
    """Return ``x``, a pair or a real array, in another dtype.

    Either ``x`` or the dtype is complex. The result is a pair if the dtype is complex. Otherwise it
    is the converted real part of ``x``.
    """
    part_dtype = real_dtype(new_dtype)
    if not is_complex(new_dtype):
        return lax.convert_element_type(x.re, new_dtype)
    if isinstance(x, Pair):
        return Pair(*(lax.convert_element_type(half, part_dtype) for half in x))
    return Pair(lax.convert_element_type(x, part_dtype), jnp.zeros(x.shape, part_dtype))


@complex_rule("iota")
def iota(*_: Any, dtype: Any, shape: tuple[int, ...], dimension: int) -> Pair:
    """Return the numbers 0, 1 … along an axis of this shape, with imaginary parts of zero."""
    part_dtype = real_dtype(dtype)
    return Pair(lax.broadcasted_iota(part_dtype, shape, dimension), jnp.zeros(shape, part_dtype))


register_complex_rules(
    {
        "real": lambda x: x.re,
        "imag": lambda x: x.im,
        "complex": lambda re, im: Pair(*jnp.broadcast_arrays(re, im)),
        "eq": lambda x, y: (x.re == y.re) & (x.im == y.im),
        "ne": lambda x, y: (x.re != y.re) | (x.im != y.im),
    }
)
# JAX can reinterpret the bits of complex numbers only as numbers of the same dtype.
register_complex_rules({"bitcast_convert_type": lambda x: x}, ignores=("new_dtype",))

# ----------------------------------------------------------------------- order, gathers, scatters

Combined = Callable[[Any, Any], Any]


def _select_extreme(compare: Combined, x: Pair, y: Pair) -> Pair:
    """Return the larger or the smaller of two complex numbers, by real parts and then imaginary
    parts.

    ``compare`` is ``lax.gt`` for the larger and ``lax.lt`` for the smaller.
    """
    first = jnp.where(x.re == y.re, compare(x.im, y.im), compare(x.re, y.re))
    return select(first, x, y)


register_complex_rules(
    {"max": partial(_select_extreme, lax.gt), "min": partial(_select_extreme, lax.lt)}
)


@complex_rule("sort")
def sort(*operands: Any, dimension: int, num_keys: int) -> tuple[Any, ...]:
    """Sort arrays along an axis by the first ``num_keys`` of them. A complex key is treated as two
    keys: its real part, then its imaginary part."""
    flat = [half for x in operands for half in (x if isinstance(x, Pair) else (x,))]
    keys = sum(2 if isinstance(x, Pair) else 1 for x in operands[:num_keys])
    arrays = iter(lax.sort(flat, dimension=dimension, num_keys=keys))
    return tuple(
        Pair(next(arrays), next(arrays)) if isinstance(x, Pair) else next(arrays) for x in operands
    )


def _single_array_form(combine: Combined) -> Combine:
    """Return a function of two tuples of one array that applies ``combine``.

    ``combine`` is a function of two arrays.
    """
    return lambda xs, ys: (combine(*xs, *ys),)


def _reduce_neighbours(combine: Combined, x: Pair, *, axes: tuple[int, ...]) -> Pair:
    """Return ``x`` reduced over some axes by ``combine``, a function of two complex arrays.

    Neighbours are combined repeatedly until one is left. The axes must not be empty.
    """
    (reduced,) = combine_neighbours(
        _single_array_form(combine), [reduced_axes_last(combine_parts(x), axes)]
    )
    return complex_parts(reduced[..., 0])


complex_rule("reduce_max")(partial(_reduce_neighbours, lax.max))
complex_rule("reduce_min")(partial(_reduce_neighbours, lax.min))


@complex_rule("reduce_prod")
def reduce_prod(x: Pair, *, axes: tuple[int, ...]) -> Pair:
    """Return the product over some axes; it is 1 if there are no elements."""
    if 0 in x.re.shape:
        ones = lax.reduce_prod(x.re, axes)
        return Pair(ones, jnp.zeros_like(ones))
    return _reduce_neighbours(lax.mul, x, axes=axes)


def _cumulative(combine: Combined, x: Pair, *, axis: int, reverse: bool) -> Pair:
    """Return the cumulative results of ``combine``, a function of two complex arrays, along an
    axis; from the end with ``reverse``."""
    return complex_parts(
        lax.associative_scan(combine, combine_parts(x), axis=axis, reverse=reverse)
    )


complex_rule("cumprod")(partial(_cumulative, lax.mul))
complex_rule("cummax")(partial(_cumulative, lax.max))
complex_rule("cummin")(partial(_cumulative, lax.min))


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
    """Return the largest or smallest number of each window, as ``lax.reduce_window`` does.

    Arguments:
        combine: ``lax.max`` or ``lax.min``.
        start: the number for padding.
    """
    window = (window_dimensions, window_strides, padding, base_dilation, window_dilation)
    return complex_parts(
        *reduce_windows([combine_parts(x)], [start], _single_array_form(combine), *window)
    )


complex_rule("reduce_window_max")(partial(_extreme, lax.max, -jnp.inf))
complex_rule("reduce_window_min")(partial(_extreme, lax.min, jnp.inf))


@complex_rule("gather")
def gather(
    x: Pair,
    indices: jax.Array,
    *,
    dimension_numbers: Any,
    slice_sizes: tuple[int, ...],
    mode: Any,
    fill_value: Any,
) -> Pair:
    """Gather the real and the imaginary parts, as ``lax.gather`` does.

    If ``fill_value`` is None, slices that are out of bounds are filled with NaN in the real part
    and 0 in the imaginary part.
    """
    fill = complex(jnp.nan if fill_value is None else fill_value)
    return Pair(
        *(
            lax.gather(x_, indices, dimension_numbers, slice_sizes, mode=mode, fill_value=filler)
            for x_, filler in zip(x, (fill.real, fill.imag), strict=True)
        )
    )


@complex_rule("scatter-mul")
def scatter_mul(
    x: Pair, indices: jax.Array, updates: Pair, *, dimension_numbers: Any, mode: Any
) -> Pair:
    """Multiply elements of ``x`` by updates, as ``lax.scatter_mul`` does.

    Magnitudes are multiplied and angles added, so that the order of updates does not matter.
    """
    angles = [jnp.arctan2(z.im, z.re) for z in (x, updates)]
    length = lax.scatter_mul(
        magnitude(x), indices, magnitude(updates), dimension_numbers, mode=mode
    )
    zeros = jnp.zeros_like(x.re)
    angle = lax.scatter_add(zeros, indices, angles[1], dimension_numbers, mode=mode)
    ones = jnp.ones_like(updates.re)
    counts = lax.scatter_add(zeros, indices, ones, dimension_numbers, mode=mode)
    moved = polar_product(jnp.sqrt(length), angles[0] + angle)
    return Pair(*(jnp.where(counts > 0, m, original) for m, original in zip(moved, x, strict=True)))
