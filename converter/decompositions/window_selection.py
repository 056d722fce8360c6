"""Windows that choose one of their elements and add to it, as the gradient of a pool does."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from converter.decompositions.computation import combination
from converter.decompositions.registered import decomposition
from converter.ir.dtypes import highest, is_float, lowest

Pads = Sequence[tuple[int, int]]
POOLED_AXES = 3
"""The gradient of a pool of floats over so many axes has an operation of its own."""


def is_no_pool(avals: Sequence[Any], params: dict[str, Any]) -> bool:
    window = zip(
        params["window_dimensions"], params["window_strides"], params["padding"], strict=True
    )
    axes = sum(size != 1 or stride != 1 or tuple(pads) != (0, 0) for size, stride, pads in window)
    return not is_float(avals[0].dtype) or not 0 < axes <= POOLED_AXES


@decomposition("select_and_scatter_add", only=is_no_pool)
def select_and_scatter_add(
    source: jax.Array,
    operand: jax.Array,
    *,
    select_prim: Any,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Pads,
) -> jax.Array:
    """What pads is the least number, or the greatest, which is selected if it comes first.

    Of booleans, the sum is whether any was added.
    """
    add = lax.bitwise_or if operand.dtype == bool else lax.add
    extreme = lowest if select_prim is lax.ge_p else highest
    filler, zero = (jnp.asarray(v, operand.dtype) for v in (extreme(operand.dtype), 0))
    padded = lax.pad(operand, filler, _pads(padding))
    everywhere = jnp.ones(padded.shape, bool)
    how = (window_dimensions, window_strides)
    total = _scattered(padded, everywhere, source, zero, select_prim.bind, add, *how)
    return _cropped(total, zero, padding)


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
    select, scatter = (
        combination(jaxpr, consts)
        for jaxpr, consts in ((select_jaxpr, select_consts), (scatter_jaxpr, scatter_consts))
    )
    padded = lax.pad(operand, jnp.zeros((), operand.dtype), _pads(padding))
    inside = lax.pad(jnp.ones(operand.shape, bool), False, _pads(padding))
    total = _scattered(
        padded,
        inside,
        source,
        start,
        lambda x, y: select([x], [y])[0],
        lambda x, y: scatter([x], [y])[0],
        window_dimensions,
        window_strides,
    )
    return _cropped(total, start, padding)


def _pads(padding: Pads) -> list[tuple[int, int, int]]:
    return [(low, high, 0) for low, high in padding]


def _cropped(x: jax.Array, filler: jax.Array, padding: Pads) -> jax.Array:
    return lax.pad(x, filler, [(-low, -high, 0) for low, high in padding])


def _scattered(
    x: jax.Array,
    inside: jax.Array,
    source: jax.Array,
    start: jax.Array,
    select: Callable[..., jax.Array],
    scatter: Callable[..., jax.Array],
    size: Sequence[int],
    strides: Sequence[int],
) -> jax.Array:
    """``start`` everywhere, and each element of the source where its window has selected.

    An element stays selected while ``select`` of it and the next is true; what is not ``inside``
    takes no part.
    """
    places = list(itertools.product(*map(range, size)))
    reach = [n - k + 1 for n, k in zip(x.shape, size, strict=True)]

    def at(x: jax.Array, place: Sequence[int]) -> jax.Array:
        ends = [p + n for p, n in zip(place, reach, strict=True)]
        return lax.slice(x, place, ends, strides)

    best, found = at(x, places[0]), at(inside, places[0])
    chosen = jnp.zeros(source.shape, jnp.int32)
    for number, place in enumerate(places[1:], 1):
        other, is_there = at(x, place), at(inside, place)
        moves = is_there & ~(found & select(best, other))
        best, found = jnp.where(moves, other, best), found | is_there
        chosen = jnp.where(moves, number, chosen)
    total = jnp.broadcast_to(start, x.shape)
    for number, place in enumerate(places):
        hit = (chosen == number) & found
        around = _around(place, source.shape, strides, x.shape)
        spread, is_hit = lax.pad(source, start, around), lax.pad(hit, False, around)
        total = jnp.where(is_hit, scatter(total, spread), total)
    return total


def _around(
    place: Sequence[int], shape: Sequence[int], strides: Sequence[int], whole: Sequence[int]
) -> list[tuple[int, int, int]]:
    """How to pad what has an element for each window, so that it lies at the windows' place."""
    parts = zip(place, shape, strides, whole, strict=True)
    return [(p, size - p - (n - 1) * step - 1, step - 1) for p, n, step, size in parts]
