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
"""The padding before and after each axis."""

WINDOW_MONOIDS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "add": (lax.add, lambda dtype: 0),
    "max": (lax.max, lowest),
    "min": (lax.min, highest),
}
"""Operations by which JAX has a primitive to reduce windows, and their neutral number by dtype."""


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
    """Reduce the elements of each window of arrays by a computation on scalars.

    The computation has to be associative and commutative. The initial value is combined once with
    the elements of each window, and need not be neutral. As on XLA's CPU, padding and the gaps of a
    dilated operand contribute nothing. The parameters have the same meaning as in
    ``lax.reduce_window``.

    Arguments:
        operands: the arrays, followed by as many initial values.
        jaxpr: the computation, of as many pairs of scalars as there are arrays.
        consts: the constants of the computation.

    Raises:
        UnsupportedError: an axis has a named size that may be shorter than a window, and the
            computation is not the sum, maximum or minimum of real numbers.
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

    if not any(map(any, to_pad_config(padding, base_dilation))):
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
    """Return, for each window, the element of ``tangents`` at the position of the maximum or
    minimum of ``operand``.

    The maximum is used if ``select_prim`` is ``ge``, and the minimum if it is ``le``. If elements
    are equal, the first one is used. The result is 0 for a window that contains only padding, or
    whose maximum is -inf or minimum inf. This operation is the derivative of max pooling and min
    pooling.
    """
    selects_maximum = select_prim is lax.ge_p

    def combine(xs: Sequence[jax.Array], ys: Sequence[jax.Array]) -> Arrays:
        first = xs[0] >= ys[0] if selects_maximum else xs[0] <= ys[0]
        return tuple(jnp.where(first, x, y) for x, y in zip(xs, ys, strict=True))

    fillers = [jnp.asarray(v, operand.dtype) for v in (-np.inf if selects_maximum else np.inf, 0)]
    window = (window_dimensions, window_strides, padding, base_dilation, window_dilation)
    selected = reduce_windows((operand, tangents), fillers, combine, *window)
    return combine([jnp.broadcast_to(v, selected[0].shape) for v in fillers], selected)[1]


def _reduce_by_primitive(operation: str, x: jax.Array, first: jax.Array, window: Any) -> jax.Array:
    """Reduce the windows of ``x`` by JAX's own primitive, and combine the results with an initial
    value.

    Arguments:
        operation: a name in `WINDOW_MONOIDS`.
        first: the initial value, which need not be neutral.
        window: sizes, strides, padding and both dilations, as ``lax.reduce_window`` takes them.
    """
    combine, neutral = WINDOW_MONOIDS[operation]
    start = np.asarray(neutral(x.dtype), x.dtype)
    reduced: jax.Array = combine(first, lax.reduce_window(x, start, combine, *window))
    return reduced


def to_pad_config(padding: Pads, base_dilation: Sequence[int] = ()) -> list[tuple[int, int, int]]:
    """Return the padding configuration of ``lax.pad``, (low, high, interior) for each axis.

    For a dilation d of the operand, the interior padding is ``d - 1`` elements between neighbours.
    Without ``base_dilation`` there is none.
    """
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
    """Return the padded arrays with the elements of each window combined, one axis after the other,
    beginning with the last axis.

    Arguments:
        xs: arrays of one shape.
        fillers: the number for the padding of each array.
        combine: combines two tuples of arrays, element by element.
        size: the size of a window along each axis.
        strides: the distance between windows.
        padding: the padding of each axis.
        base_dilation: the distance of the arrays' elements after dilation.
        dilation: the distance of a window's elements.

    Raises:
        UnsupportedError: an axis has a named size that may be shorter than a window.
    """
    config = to_pad_config(padding, base_dilation)
    xs = [lax.pad(x, jnp.asarray(v, x.dtype), config) for x, v in zip(xs, fillers, strict=True)]
    for axis in reversed(range(xs[0].ndim)):
        last_offset = (size[axis] - 1) * dilation[axis]
        extent = xs[0].shape[axis] - last_offset
        if not dims.is_at_least(extent, 0):
            raise UnsupportedError(
                f"primitive 'reduce_window' with a computation of its own over an axis of size "
                f"{xs[0].shape[axis]} cannot be written: it has to be known that a window of "
                f"{last_offset + 1} fits; use a sum, maximum or minimum, or a size that is known"
            )
        starts = range(0, last_offset + 1, dilation[axis])
        parts = [
            [lax.slice_in_dim(x, i, i + extent, strides[axis], axis) for x in xs] for i in starts
        ]
        xs = parts[0]
        for part in parts[1:]:
            xs = combine(xs, part)
    return xs


def window_elements(
    x: jax.Array, position: Sequence[Any], extent: Sequence[Any], strides: Sequence[int]
) -> jax.Array:
    """Return the element of each window at one position in the window.

    Arguments:
        position: the position, along each axis.
        extent: the size of the part of ``x`` in which windows begin, along each axis.
        strides: the distance between windows.
    """
    ends = [start + size for start, size in zip(position, extent, strict=True)]
    return lax.slice(x, position, ends, strides)


POOLED_AXES = 3
"""Largest number of axes for which the gradient of a float pool is a separate operation."""


def needs_decomposition(avals: Sequence[Any], params: dict[str, Any]) -> bool:
    """Return True if `select_and_scatter_add` has to be decomposed, because no pooling operation
    computes it.

    A pooling operation computes it if the dtype is a float and the windows extend over one to
    `POOLED_AXES` axes. ``params`` contains the sizes, strides and padding of the windows.
    """
    names = ("window_dimensions", "window_strides", "padding")
    window = zip(*(params[name] for name in names), strict=True)
    axes = sum(size != 1 or stride != 1 or tuple(pads) != (0, 0) for size, stride, pads in window)
    return not is_float(avals[0].dtype) or not 0 < axes <= POOLED_AXES


@decomposition("select_and_scatter_add", applies=needs_decomposition)
def select_and_scatter_add(
    source: jax.Array,
    operand: jax.Array,
    *,
    select_prim: Any,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Pads,
) -> jax.Array:
    """Return the sums of the ``source`` elements at the elements of ``operand`` that windows
    select.

    The result has the shape of ``operand``. A window selects its maximum if ``select_prim`` is
    ``ge``, else its minimum, and the first one if several are equal. Padding is filled with the
    lowest number (or the highest, for a minimum). It can be selected, and the source element is
    then lost. For Booleans the sum is a logical or. This operation is the gradient of max and min
    pooling.
    """
    add = lax.bitwise_or if operand.dtype == bool else lax.add
    neutral_number = lowest if select_prim is lax.ge_p else highest
    filler, zero = (jnp.asarray(v, operand.dtype) for v in (neutral_number(operand.dtype), 0))
    padded = lax.pad(operand, filler, to_pad_config(padding))
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
    """Combine an array that is ``start`` everywhere with source elements, at positions that windows
    select.

    Padding is never selected.

    Arguments:
        operand: the array whose elements the windows select. The result has its shape.
        source: an element for each window.
        start: the initial value of all elements of the result.
        select_jaxpr: compares the selected element of a window with the next one, and returns True
            to keep it.
        scatter_jaxpr: combines an element of the result with a source element.
    """
    padded = lax.pad(operand, jnp.zeros((), operand.dtype), to_pad_config(padding))
    inside = lax.pad(jnp.ones(operand.shape, bool), False, to_pad_config(padding))
    select = _as_array_function(vectorized_combination(select_jaxpr, select_consts))
    scatter = _as_array_function(vectorized_combination(scatter_jaxpr, scatter_consts))
    window = (window_dimensions, window_strides, padding)
    return _scatter_selected(padded, inside, source, start, select, scatter, *window)


def _as_array_function(combine: Combine) -> Callable[..., jax.Array]:
    """Return a function of two arrays that applies ``combine``.

    ``combine`` is a function of two tuples of one array.
    """
    return lambda x, y: combine([x], [y])[0]


def _scatter_selected(
    x: jax.Array,
    is_selectable: jax.Array,
    source: jax.Array,
    start: jax.Array,
    select: Callable[..., jax.Array],
    scatter: Callable[..., jax.Array],
    size: Sequence[int],
    strides: Sequence[int],
    padding: Pads,
) -> jax.Array:
    """Combine an array that is ``start`` everywhere with source elements, at positions that windows
    select.

    Arguments:
        x: the padded array.
        is_selectable: False where ``x`` is padding that must not be selected.
        source: an element for each window.
        start: the initial value of all elements of the result.
        select: compares the selected element of a window with the next one, and returns True to
            keep it.
        scatter: combines the result with the source.
        size: the size of a window along each axis.
        strides: the distance between windows.
        padding: the padding of ``x``, which is cut off from the result.
    """
    positions = list(itertools.product(*map(range, size)))
    extent = [n - k + 1 for n, k in zip(x.shape, size, strict=True)]
    best, best_is_selectable = (
        window_elements(y, positions[0], extent, strides) for y in (x, is_selectable)
    )
    selected = jnp.zeros(source.shape, jnp.int32)
    for number, position in enumerate(positions[1:], 1):
        other, is_there = (
            window_elements(y, position, extent, strides) for y in (x, is_selectable)
        )
        moves = is_there & ~(best_is_selectable & select(best, other))
        best, best_is_selectable = jnp.where(moves, other, best), best_is_selectable | is_there
        selected = jnp.where(moves, number, selected)
    total = jnp.broadcast_to(start, x.shape)
    for number, position in enumerate(positions):
        is_target = (selected == number) & best_is_selectable
        edges = _window_padding(position, source.shape, strides, x.shape)
        updates, is_hit = (
            lax.pad(source, start, edges),
            lax.pad(is_target, False, edges),
        )
        total = jnp.where(is_hit, scatter(total, updates), total)
    return lax.pad(total, start, [(-low, -high, 0) for low, high in padding])


def _window_padding(
    position: Sequence[int],
    shape: Sequence[int],
    strides: Sequence[int],
    operand_shape: Sequence[int],
) -> list[tuple[int, int, int]]:
    """Return the configuration of ``lax.pad`` that places the element of each window at one
    position in its window.

    The padded array has the shape ``operand_shape``.

    Arguments:
        position: the position in a window, along each axis.
        shape: the number of windows along each axis.
        strides: the distance between windows.
        operand_shape: the shape of the padded operand of the windows.
    """
    parts = zip(position, shape, strides, operand_shape, strict=True)
    return [(p, size - p - (n - 1) * step - 1, step - 1) for p, n, step, size in parts]
