"""Reductions by any function, of whole axes and in windows."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.expand.registry import expansion

Arrays = Sequence[jax.Array]
Combine = Callable[..., Sequence[jax.Array]]
"""Takes as many values twice: what there is, and what comes in."""


def _elementwise(fn: Combine, rank: int) -> Combine:
    for _ in range(rank):
        fn = jax.vmap(fn)
    return fn


def reduce(fn: Combine, xs: Arrays, starts: Arrays, axes: Sequence[int]) -> Arrays:
    """Halves are combined with halves, so that the graph grows with the logarithm of the size.

    The start, which JAX expects to be neutral, comes in once.
    """
    kept = [i for i in range(xs[0].ndim) if i not in axes]
    count, rest = math.prod(xs[0].shape[i] for i in axes), [xs[0].shape[i] for i in kept]
    xs = [jnp.transpose(x, (*axes, *kept)).reshape(count, *rest) for x in xs]
    many = _elementwise(fn, len(rest) + 1)
    while count > 1:
        half = count // 2
        combined = many(*(x[:half] for x in xs), *(x[half : 2 * half] for x in xs))
        xs = [jnp.concatenate([y, x[2 * half :]]) for x, y in zip(xs, combined, strict=True)]
        count -= half
    starts = [jnp.broadcast_to(start, rest) for start in starts]
    return _elementwise(fn, len(rest))(*starts, *(x[0] for x in xs)) if count else starts


def reduce_window(
    fn: Combine,
    xs: Arrays,
    starts: Arrays,
    *,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> Arrays:
    """Every place of the window is a slice of the padded array; one comes in after the other.

    As in XLA on a CPU, what was padded does not come in, so that the start does once.
    """
    config = [(*edges, inner - 1) for edges, inner in zip(padding, base_dilation, strict=True)]
    inside = _inside(xs[0].shape, config)
    xs = [lax.pad(x, start, config) for x, start in zip(xs, starts, strict=True)]
    reach = [(w - 1) * d + 1 for w, d in zip(window_dimensions, window_dilation, strict=True)]
    sizes = [
        max((n - r) // s + 1, 0) for n, r, s in zip(xs[0].shape, reach, window_strides, strict=True)
    ]
    found: Arrays = [jnp.broadcast_to(start, sizes) for start in starts]
    if 0 in sizes:
        return found
    many = _elementwise(fn, len(sizes))
    for place in itertools.product(*map(range, window_dimensions)):
        first = [i * d for i, d in zip(place, window_dilation, strict=True)]
        steps = zip(first, sizes, window_strides, strict=True)
        last = [f + (n - 1) * s + 1 for f, n, s in steps]
        after = many(*found, *(lax.slice(x, first, last, window_strides) for x in xs))
        parts = zip(inside, first, last, window_strides, strict=True)
        there = functools.reduce(np.multiply.outer, [p[f:e:s] for p, f, e, s in parts])
        found = (
            after
            if there.all()
            else [jnp.where(there, y, x) for x, y in zip(found, after, strict=True)]
        )
    return found


def _inside(shape: Sequence[int], config: Sequence[tuple[int, int, int]]) -> list[np.ndarray]:
    """Along each axis, which indices of the padded array are not padding."""
    lines = [np.ones(n, bool) for n in shape]
    with jax.ensure_compile_time_eval():
        return [np.asarray(lax.pad(x, False, [c])) for x, c in zip(lines, config, strict=True)]


@expansion("select_and_gather_add")
def select_and_gather_add(
    tangents: jax.Array,
    x: jax.Array,
    *,
    select_prim: Any,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> jax.Array:
    """In each window the tangent of the element that is chosen: a pooling's derivative."""

    def choose(x: jax.Array, t: jax.Array, y: jax.Array, u: jax.Array) -> Arrays:
        first = select_prim.bind(x, y)
        return jnp.where(first, x, y), jnp.where(first, t, u)

    least = jnp.asarray(-jnp.inf if select_prim is lax.ge_p else jnp.inf, x.dtype)
    return reduce_window(
        choose,
        (x, tangents),
        (least, jnp.zeros((), tangents.dtype)),
        window_dimensions=window_dimensions,
        window_strides=window_strides,
        padding=padding,
        base_dilation=base_dilation,
        window_dilation=window_dilation,
    )[1]
