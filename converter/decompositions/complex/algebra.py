"""Arithmetic on complex numbers, and what takes them apart; what orders, gathers and scatters them.

They are in the order of their real parts, then of their imaginary ones.
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
from converter.ir.complex_pairs import Pair, is_complex, parts, real_dtype, whole_number


def multiply(x: Pair, y: Pair) -> Pair:
    return Pair(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


def one_like(x: Pair) -> Pair:
    return Pair(jnp.ones_like(x.re), jnp.zeros_like(x.re))


def select(condition: jax.Array, x: Pair, y: Pair) -> Pair:
    """The first where it holds, else the second."""
    return Pair(jnp.where(condition, x.re, y.re), jnp.where(condition, x.im, y.im))


def sides(x: Pair) -> tuple[jax.Array, jax.Array]:
    """The larger and the smaller of the parts' magnitudes."""
    a, b = jnp.abs(x.re), jnp.abs(x.im)
    return jnp.maximum(a, b), jnp.minimum(a, b)


def is_ordinary(size: jax.Array) -> jax.Array:
    """Whether a magnitude can be divided by: not zero, infinite or NaN."""
    return (size > 0) & (size < jnp.inf)


@meaning("abs")
def size(x: Pair) -> jax.Array:
    """The larger side times the length for a larger side of one, so that nothing overflows."""
    large, small = sides(x)
    ratio = small / jnp.where(is_ordinary(large), large, 1)
    return large * jnp.sqrt(1 + ratio * ratio)


def polar_product(length: jax.Array, angle: jax.Array) -> Pair:
    """The number of half a logarithm's ``length``, twice, so that only the result overflows."""
    re, im = length * jnp.cos(angle) * length, length * jnp.sin(angle) * length
    return Pair(re, jnp.where(angle == 0, angle, im))


@meaning("div")
def divide(x: Pair, y: Pair) -> Pair:
    """The divisor is scaled to a larger side of one first (as in Smith's method, 1962).

    A zero divides as a real one does; an infinite one gives zero.
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
    """Power by repeated squaring, as JAX computes it."""
    result, left = None, abs(y)
    while left:
        if left % 2:
            result = x if result is None else multiply(result, x)
        x, left = square(x), left // 2
    power = one_like(x) if result is None else result
    return power if y >= 0 else divide(one_like(x), power)


@meaning("polynomial")
def horner(x: Pair, *coefficients: Pair) -> Pair:
    """Evaluate a polynomial by its coefficients, the constant one first; of jax >= 0.12."""
    *lower_ones, highest = coefficients
    result = Pair(*(jnp.broadcast_to(part, x.re.shape) for part in highest))
    for coefficient in reversed(lower_ones):
        step = multiply(result, x)
        result = Pair(step.re + coefficient.re, step.im + coefficient.im)
    return result


@meaning("conj", ignores=("input_dtype", "_input_dtype"))
def conj(x: Any) -> Pair:
    """Power of any number. JAX's own table of uses has the second spelling of the parameter."""
    return Pair(x.re, -x.im) if isinstance(x, Pair) else Pair(x, jnp.zeros_like(x))


@meaning("convert_element_type")
def convert_element_type(x: Any, *, new_dtype: Any) -> Any:
    """A real number that is made of a complex one is its real part."""
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
# Of complex numbers JAX takes no bits but as those of themselves.
meanings({"bitcast_convert_type": lambda x: x}, ignores=("new_dtype",))

# ----------------------------------------------------------------------- order, gathers, scatters

Combined = Callable[[Any, Any], Any]


def _select_later(compare: Combined, x: Pair, y: Pair) -> Pair:
    first = jnp.where(x.re == y.re, compare(x.im, y.im), compare(x.re, y.re))
    return select(first, x, y)


meanings({"max": partial(_select_later, lax.gt), "min": partial(_select_later, lax.lt)})


@meaning("sort")
def sort(*operands: Any, dimension: int, num_keys: int) -> tuple[Any, ...]:
    """A complex key is two real ones."""
    flat = [half for x in operands for half in (x if isinstance(x, Pair) else (x,))]
    keys = sum(2 if isinstance(x, Pair) else 1 for x in operands[:num_keys])
    arrays = iter(lax.sort(flat, dimension=dimension, num_keys=keys))
    return tuple(
        Pair(next(arrays), next(arrays)) if isinstance(x, Pair) else next(arrays) for x in operands
    )


def _single_array_form(combine: Combined) -> Combine:
    """For tuples of one array."""
    return lambda xs, ys: (combine(*xs, *ys),)


def _order_reduced(combine: Combined, x: Pair, *, axes: tuple[int, ...]) -> Pair:
    """Neighbours are combined until one is left."""
    (extreme,) = combine_neighbours(
        _single_array_form(combine), [reduced_axes_last(whole_number(x), axes)]
    )
    return parts(extreme[..., 0])


meaning("reduce_max")(partial(_order_reduced, lax.max))
meaning("reduce_min")(partial(_order_reduced, lax.min))


@meaning("reduce_prod")
def reduce_prod(x: Pair, *, axes: tuple[int, ...]) -> Pair:
    if 0 in x.re.shape:
        left = lax.reduce_prod(x.re, axes)
        return Pair(left, jnp.zeros_like(left))
    return _order_reduced(lax.mul, x, axes=axes)


def _cumulative(combine: Combined, x: Pair, *, axis: int, reverse: bool) -> Pair:
    return parts(lax.associative_scan(combine, whole_number(x), axis=axis, reverse=reverse))


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
    return parts(*reduce_windows([whole_number(x)], [start], _single_array_form(combine), *window))


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
    """Fill in NaN unless a number is given, which is real if it is NaN."""
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
    """Magnitudes are multiplied and angles added, in any order."""
    angles = [jnp.arctan2(z.im, z.re) for z in (x, updates)]
    length = lax.scatter_mul(size(x), indices, size(updates), dimension_numbers, mode=mode)
    zeros = jnp.zeros_like(x.re)
    angle = lax.scatter_add(zeros, indices, angles[1], dimension_numbers, mode=mode)
    ones = jnp.ones_like(updates.re)
    counts = lax.scatter_add(zeros, indices, ones, dimension_numbers, mode=mode)
    moved = polar_product(jnp.sqrt(length), angles[0] + angle)
    return Pair(*(jnp.where(counts > 0, m, original) for m, original in zip(moved, x, strict=True)))
