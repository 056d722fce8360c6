"""Reduce windows by a caller's computation, or select one of their elements."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.decompositions.computation import (
    Arrays,
    Combine,
    single_operation,
    vectorized_combination,
)
from converter.decompositions.registered import decomposition
from converter.errors import UnsupportedError
from converter.ir import dims
from converter.ir.dtypes import highest, is_float, lowest

Pads = Sequence[tuple[int, int]]


WINDOW_MONOIDS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "add": (lax.add, lambda dtype: 0),
    "max": (lax.max, lowest),
    "min": (lax.min, highest),
}
"""Operations with a JAX primitive for windows, and their neutral element by dtype."""


@decomposition("reduce_window", of_complex=True)
def reduce_window(
    *operands: jax.Array,
    jaxpr: Any,
    consts: Sequence[Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Pads,
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> Arrays:
    """Reduce as many arrays as there are initial values, in this order.

    The computation has to be associative and commutative. As on XLA's CPU, padding is not combined
    with the initial value, which need not be neutral.
    """
    window = (window_dimensions, window_strides, padding, base_dilation, window_dilation)
    operation = single_operation(jaxpr)
    if operation in WINDOW_MONOIDS and not jnp.iscomplexobj(operands[0]):
        return (_reduce_by_primitive(operation, operands[0], operands[1], window),)
    count = len(operands) // 2
    combine, first = vectorized_combination(jaxpr, consts), operands[count:]

    def combine_inside(xs: Sequence[jax.Array], ys: Sequence[jax.Array]) -> Arrays:
        (*xs, x_inside), (*ys, y_inside) = xs, ys
        both = zip(combine(xs, ys), xs, ys, strict=True)
        merged = [jnp.where(x_inside & y_inside, z, jnp.where(x_inside, x, y)) for z, x, y in both]
        return *merged, x_inside | y_inside

    if not any(map(any, pads(padding, base_dilation))):
        reduced = reduce_windows(operands[:count], first, combine, *window)
        return combine([jnp.broadcast_to(v, reduced[0].shape) for v in first], reduced)
    inside = jnp.ones(operands[0].shape, bool)
    reduced = reduce_windows([*operands[:count], inside], [*first, False], combine_inside, *window)
    start = [jnp.broadcast_to(v, reduced[0].shape) for v in (*first, jnp.asarray(True))]
    return combine_inside(start, reduced)[:count]


@decomposition("select_and_gather_add")
def select_and_gather_add(
    tangents: jax.Array,
    operand: jax.Array,
    *,
    select_prim: Any,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Pads,
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> jax.Array:
    """Return the tangent where each window of the operand has its maximum (``ge``) or minimum
    (``le``).

    The first of equal elements counts; windows with only padding give 0.
    """
    above = select_prim is lax.ge_p

    def combine(xs: Sequence[jax.Array], ys: Sequence[jax.Array]) -> Arrays:
        first = xs[0] >= ys[0] if above else xs[0] <= ys[0]
        return tuple(jnp.where(first, x, y) for x, y in zip(xs, ys, strict=True))

    fillers = [jnp.asarray(v, operand.dtype) for v in (-np.inf if above else np.inf, 0)]
    window = (window_dimensions, window_strides, padding, base_dilation, window_dilation)
    selected = reduce_windows((operand, tangents), fillers, combine, *window)
    return combine([jnp.broadcast_to(v, selected[0].shape) for v in fillers], selected)[1]


def _reduce_by_primitive(operation: str, x: jax.Array, first: jax.Array, window: Any) -> jax.Array:
    """Reduce windows from a neutral value, and combine the result with the given initial value."""
    combine, neutral = WINDOW_MONOIDS[operation]
    start = np.asarray(neutral(x.dtype), x.dtype)
    reduced: jax.Array = combine(first, lax.reduce_window(x, start, combine, *window))
    return reduced


def pads(padding: Pads, base_dilation: Sequence[int] = ()) -> list[tuple[int, int, int]]:
    """Return the configuration of ``lax.pad`` for windows over a dilated and padded operand."""
    dilation = base_dilation or (1,) * len(padding)
    return [(low, high, d - 1) for (low, high), d in zip(padding, dilation, strict=True)]


def reduce_windows(
    xs: Sequence[jax.Array],
    fillers: Sequence[Any],
    combine: Combine,
    size: Sequence[int],
    strides: Sequence[int],
    padding: Pads,
    base_dilation: Sequence[int],
    dilation: Sequence[int],
) -> Sequence[jax.Array]:
    """Combine the elements of each window, one axis after the other, starting with the last."""
    room = pads(padding, base_dilation)
    xs = [lax.pad(x, jnp.asarray(v, x.dtype), room) for x, v in zip(xs, fillers, strict=True)]
    for axis in reversed(range(xs[0].ndim)):
        last = (size[axis] - 1) * dilation[axis]
        reach = xs[0].shape[axis] - last
        if not dims.is_at_least(reach, 0):
            raise UnsupportedError(
                f"primitive 'reduce_window' with a computation of its own over an axis of size "
                f"{xs[0].shape[axis]} cannot be written: it has to be known that a window of "
                f"{last + 1} fits; use a sum, maximum or minimum, or a size that is known"
            )
        starts = range(0, last + 1, dilation[axis])
        parts = [
            [lax.slice_in_dim(x, i, i + reach, strides[axis], axis) for x in xs] for i in starts
        ]
        xs = parts[0]
        for part in parts[1:]:
            xs = combine(xs, part)
    return xs


def window_elements(
    x: jax.Array, position: Sequence[Any], reach: Sequence[Any], strides: Sequence[int]
) -> jax.Array:
    """Return the elements at one position of each window; the first windows extend over
    ``reach``."""
    ends = [start + size for start, size in zip(position, reach, strict=True)]
    return lax.slice(x, position, ends, strides)


POOLED_AXES = 3
"""Largest number of axes for which the gradient of a float pool is a separate operation."""


def has_no_pool(avals: Sequence[Any], params: dict[str, Any]) -> bool:
    """Return True if the windows cannot be those of a pooling operator."""
    names = ("window_dimensions", "window_strides", "padding")
    window = zip(*(params[name] for name in names), strict=True)
    axes = sum(size != 1 or stride != 1 or tuple(pads) != (0, 0) for size, stride, pads in window)
    return not is_float(avals[0].dtype) or not 0 < axes <= POOLED_AXES


@decomposition("select_and_scatter_add", applies=has_no_pool)
def select_and_scatter_add(
    source: jax.Array,
    operand: jax.Array,
    *,
    select_prim: Any,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Pads,
) -> jax.Array:
    """Pad with the smallest or largest number, which is selected if it comes first, and scatter
    sums.

    For Booleans the sum is a logical or.
    """
    add = lax.bitwise_or if operand.dtype == bool else lax.add
    extreme = lowest if select_prim is lax.ge_p else highest
    filler, zero = (jnp.asarray(v, operand.dtype) for v in (extreme(operand.dtype), 0))
    padded = lax.pad(operand, filler, pads(padding))
    everywhere = jnp.ones(padded.shape, bool)
    window = (window_dimensions, window_strides, padding)
    return _scatter_selected(padded, everywhere, source, zero, select_prim.bind, add, *window)


@decomposition("select_and_scatter")
def select_and_scatter(
    operand: jax.Array,
    source: jax.Array,
    start: jax.Array,
    *,
    select_jaxpr: Any,
    select_consts: Sequence[Any],
    scatter_jaxpr: Any,
    scatter_consts: Sequence[Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Pads,
) -> jax.Array:
    padded = lax.pad(operand, jnp.zeros((), operand.dtype), pads(padding))
    inside = lax.pad(jnp.ones(operand.shape, bool), False, pads(padding))
    select = _unary_form(vectorized_combination(select_jaxpr, select_consts))
    scatter = _unary_form(vectorized_combination(scatter_jaxpr, scatter_consts))
    window = (window_dimensions, window_strides, padding)
    return _scatter_selected(padded, inside, source, start, select, scatter, *window)


def _unary_form(combine: Combine) -> Callable[..., jax.Array]:
    return lambda x, y: combine([x], [y])[0]


def _scatter_selected(
    x: jax.Array,
    inside: jax.Array,
    source: jax.Array,
    start: jax.Array,
    select: Callable[..., jax.Array],
    scatter: Callable[..., jax.Array],
    size: Sequence[int],
    strides: Sequence[int],
    padding: Pads,
) -> jax.Array:
    """Return ``start`` with each element of the source combined where its window has its selected
    element.

    An element stays selected while ``select`` of it and the next one is true. Elements that are not
    ``inside`` are ignored. Padding is cut off.
    """
    positions = list(itertools.product(*map(range, size)))
    reach = [n - k + 1 for n, k in zip(x.shape, size, strict=True)]
    best, best_is_inside = (window_elements(y, positions[0], reach, strides) for y in (x, inside))
    selected = jnp.zeros(source.shape, jnp.int32)
    for number, position in enumerate(positions[1:], 1):
        other, is_there = (window_elements(y, position, reach, strides) for y in (x, inside))
        moves = is_there & ~(best_is_inside & select(best, other))
        best, best_is_inside = jnp.where(moves, other, best), best_is_inside | is_there
        selected = jnp.where(moves, number, selected)
    total = jnp.broadcast_to(start, x.shape)
    for number, position in enumerate(positions):
        hit = (selected == number) & best_is_inside
        around = _window_padding(position, source.shape, strides, x.shape)
        spread, is_hit = lax.pad(source, start, around), lax.pad(hit, False, around)
        total = jnp.where(is_hit, scatter(total, spread), total)
    return lax.pad(total, start, [(-low, -high, 0) for low, high in padding])


def _window_padding(
    position: Sequence[int],
    shape: Sequence[int],
    strides: Sequence[int],
    operand_shape: Sequence[int],
) -> list[tuple[int, int, int]]:
    """Return the padding that places an element for each window at a position of the window."""
    parts = zip(position, shape, strides, operand_shape, strict=True)
    return [(p, size - p - (n - 1) * step - 1, step - 1) for p, n, step, size in parts]
