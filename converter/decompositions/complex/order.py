"""Complex numbers in the order of their real parts, then of their imaginary ones; products; what
gathers and scatters them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from converter.decompositions.complex.algebra import chosen, size
from converter.decompositions.complex.complex_rules import meaning
from converter.decompositions.complex.elementary import quarter_turned
from converter.decompositions.computation import Combine, combined, lines
from converter.decompositions.window_reductions import Pads, in_windows, pads
from converter.ir.complex_pairs import Pair, parts, whole_number

Combined = Callable[[Any, Any], Any]


def _later(compare: Combined) -> Callable[[Pair, Pair], Pair]:
    def either(x: Pair, y: Pair) -> Pair:
        first = jnp.where(x.re == y.re, compare(x.im, y.im), compare(x.re, y.re))
        return chosen(first, x, y)

    return either


meaning("max")(_later(lax.gt))
meaning("min")(_later(lax.lt))


@meaning("sort")
def sort(*operands: Any, dimension: int, num_keys: int) -> tuple[Any, ...]:
    """A complex key is two real ones."""
    flat = [half for x in operands for half in (x if isinstance(x, Pair) else (x,))]
    keys = sum(2 if isinstance(x, Pair) else 1 for x in operands[:num_keys])
    found = iter(lax.sort(flat, dimension=dimension, num_keys=keys))
    return tuple(
        Pair(next(found), next(found)) if isinstance(x, Pair) else next(found) for x in operands
    )


def _alone(combine: Combined) -> Combine:
    """For tuples of one array."""
    return lambda xs, ys: (combine(*xs, *ys),)


def _order_reduced(combine: Combined) -> Callable[..., Pair]:
    """Neighbours are combined until one is left."""

    def reduced(x: Pair, *, axes: tuple[int, ...]) -> Pair:
        (found,) = combined(_alone(combine), [lines(whole_number(x), axes)])
        return parts(found[..., 0])

    return reduced


meaning("reduce_max")(_order_reduced(lax.max))
meaning("reduce_min")(_order_reduced(lax.min))


@meaning("reduce_prod")
def reduce_prod(x: Pair, *, axes: tuple[int, ...]) -> Pair:
    if 0 in x.re.shape:
        left = lax.reduce_prod(x.re, axes)
        return Pair(left, jnp.zeros_like(left))
    return _order_reduced(lax.mul)(x, axes=axes)


def _cumulative(combine: Combined) -> Callable[..., Pair]:
    def running(x: Pair, *, axis: int, reverse: bool) -> Pair:
        return parts(lax.associative_scan(combine, whole_number(x), axis=axis, reverse=reverse))

    return running


meaning("cumprod")(_cumulative(lax.mul))
meaning("cummax")(_cumulative(lax.max))
meaning("cummin")(_cumulative(lax.min))


def _extreme(combine: Combined, start: float) -> Callable[..., Pair]:
    def reduce_window(
        x: Pair,
        *,
        window_dimensions: Sequence[int],
        window_strides: Sequence[int],
        padding: Pads,
        base_dilation: Sequence[int],
        window_dilation: Sequence[int],
    ) -> Pair:
        whole = whole_number(x)
        padded = lax.pad(whole, jnp.asarray(start, whole.dtype), pads(padding, base_dilation))
        window = (window_dimensions, window_strides, window_dilation)
        return parts(*in_windows([padded], _alone(combine), *window))

    return reduce_window


meaning("reduce_window_max")(_extreme(lax.max, -jnp.inf))
meaning("reduce_window_min")(_extreme(lax.min, jnp.inf))


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
    """What is filled in is NaN unless it is given, and a real number if it is NaN."""
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
    none = jnp.zeros_like(x.re)
    angle = lax.scatter_add(none, indices, angles[1], dimension_numbers, mode=mode)
    touched = lax.scatter_add(
        none, indices, jnp.ones_like(updates.re), dimension_numbers, mode=mode
    )
    moved = quarter_turned(jnp.sqrt(length), angles[0] + angle)
    return Pair(*(jnp.where(touched > 0, m, old) for m, old in zip(moved, x, strict=True)))
