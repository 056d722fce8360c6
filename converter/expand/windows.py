"""Windows that are reduced by a computation of the caller's, and where their maxima are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.expand.computation import Arrays, Combine, combination
from converter.expand.registry import expansion

Pads = Sequence[tuple[int, int]]


@expansion("reduce_window")
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
    count = len(operands) // 2
    combine, first = combination(jaxpr, consts), operands[count:]

    def combine_inside(xs: Sequence[jax.Array], ys: Sequence[jax.Array]) -> Arrays:
        (*xs, x_inside), (*ys, y_inside) = xs, ys
        both = zip(combine(xs, ys), xs, ys, strict=True)
        found = [jnp.where(x_inside & y_inside, z, jnp.where(x_inside, x, y)) for z, x, y in both]
        return *found, x_inside | y_inside

    pads = _pads(padding, base_dilation)
    padded = [lax.pad(x, v, pads) for x, v in zip(operands[:count], first, strict=True)]
    how = (window_dimensions, window_strides, window_dilation)
    if not any(any(pad) for pad in pads):
        found = _combined(padded, combine, *how)
        return combine([jnp.broadcast_to(v, found[0].shape) for v in first], found)
    inside = lax.pad(jnp.ones(operands[0].shape, bool), False, pads)
    found = _combined([*padded, inside], combine_inside, *how)
    start = [jnp.broadcast_to(v, found[0].shape) for v in (*first, jnp.asarray(True))]
    return combine_inside(start, found)[:count]


@expansion("select_and_gather_add")
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

    pads = _pads(padding, base_dilation)
    fillers = [jnp.asarray(v, operand.dtype) for v in (-np.inf if above else np.inf, 0)]
    padded = [lax.pad(x, v, pads) for x, v in zip((operand, tangents), fillers, strict=True)]
    found = _combined(padded, combine, window_dimensions, window_strides, window_dilation)
    return combine([jnp.broadcast_to(v, found[0].shape) for v in fillers], found)[1]


def _pads(padding: Pads, base_dilation: Sequence[int]) -> list[tuple[int, int, int]]:
    return [(low, high, d - 1) for (low, high), d in zip(padding, base_dilation, strict=True)]


def _combined(
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
        starts = range(0, last + 1, dilation[axis])
        parts = [
            [lax.slice_in_dim(x, i, i + reach, strides[axis], axis) for x in xs] for i in starts
        ]
        xs = parts[0]
        for part in parts[1:]:
            xs = combine(xs, part)
    return xs
