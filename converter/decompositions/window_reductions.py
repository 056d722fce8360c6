"""Windows that are reduced by a computation of the caller's, and where their maxima are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.decompositions.computation import Arrays, Combine, combination, only_operation
from converter.decompositions.registered import decomposition
from converter.errors import Unsupported
from converter.ir import dims
from converter.ir.dtypes import highest, lowest

Pads = Sequence[tuple[int, int]]


NEUTRAL: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "add": (lax.add, lambda dtype: 0),
    "max": (lax.max, lowest),
    "min": (lax.min, highest),
}
"""The operations for whose windows JAX has primitives, and what changes nothing in a dtype."""


@decomposition("reduce_window")
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
    """As many arrays as initial values, in this order.

    The computation is associative and commutative. What pads takes no part in it, as XLA's CPU has
    it: it is not combined with the initial value, which need not be neutral.
    """
    window = (window_dimensions, window_strides, padding, base_dilation, window_dilation)
    operation = only_operation(jaxpr)
    if operation in NEUTRAL and not jnp.iscomplexobj(operands[0]):
        return (_of_known_kind(operation, operands[0], operands[1], window),)
    count = len(operands) // 2
    combine, first = combination(jaxpr, consts), operands[count:]

    def combine_inside(xs: Sequence[jax.Array], ys: Sequence[jax.Array]) -> Arrays:
        (*xs, x_inside), (*ys, y_inside) = xs, ys
        both = zip(combine(xs, ys), xs, ys, strict=True)
        found = [jnp.where(x_inside & y_inside, z, jnp.where(x_inside, x, y)) for z, x, y in both]
        return *found, x_inside | y_inside

    room = pads(padding, base_dilation)
    padded = [lax.pad(x, v, room) for x, v in zip(operands[:count], first, strict=True)]
    how = (window_dimensions, window_strides, window_dilation)
    if not any(any(pad) for pad in room):
        found = in_windows(padded, combine, *how)
        return combine([jnp.broadcast_to(v, found[0].shape) for v in first], found)
    inside = lax.pad(jnp.ones(operands[0].shape, bool), False, room)
    found = in_windows([*padded, inside], combine_inside, *how)
    start = [jnp.broadcast_to(v, found[0].shape) for v in (*first, jnp.asarray(True))]
    return combine_inside(start, found)[:count]


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
    """The tangent where each window of the operand has its maximum (``ge``) or minimum (``le``).

    The first of equals counts, and 0 where there is nothing but what pads.
    """
    above = select_prim is lax.ge_p

    def combine(xs: Sequence[jax.Array], ys: Sequence[jax.Array]) -> Arrays:
        first = xs[0] >= ys[0] if above else xs[0] <= ys[0]
        return tuple(jnp.where(first, x, y) for x, y in zip(xs, ys, strict=True))

    room = pads(padding, base_dilation)
    fillers = [jnp.asarray(v, operand.dtype) for v in (-np.inf if above else np.inf, 0)]
    padded = [lax.pad(x, v, room) for x, v in zip((operand, tangents), fillers, strict=True)]
    found = in_windows(padded, combine, window_dimensions, window_strides, window_dilation)
    return combine([jnp.broadcast_to(v, found[0].shape) for v in fillers], found)[1]


def _of_known_kind(operation: str, x: jax.Array, first: jax.Array, window: Any) -> jax.Array:
    """The windows from a neutral value, each combined with the initial value that is given."""
    combine, neutral = NEUTRAL[operation]
    start = np.asarray(neutral(x.dtype), x.dtype)
    found: jax.Array = combine(first, lax.reduce_window(x, start, combine, *window))
    return found


def pads(padding: Pads, base_dilation: Sequence[int]) -> list[tuple[int, int, int]]:
    """What ``lax.pad`` takes, for windows over what is dilated and padded."""
    return [(low, high, d - 1) for (low, high), d in zip(padding, base_dilation, strict=True)]


def in_windows(
    xs: Sequence[jax.Array],
    combine: Combine,
    size: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
) -> Sequence[jax.Array]:
    """One axis after the other, from the last on: what starts at each place of the window."""
    for axis in reversed(range(xs[0].ndim)):
        last = (size[axis] - 1) * dilation[axis]
        reach = xs[0].shape[axis] - last
        if not dims.is_at_least(reach, 0):
            raise Unsupported(
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
