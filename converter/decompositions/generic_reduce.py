"""``lax.reduce`` with a computation of the caller's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from converter.decompositions.computation import Arrays, Combine, combination
from converter.decompositions.registered import decomposition


@decomposition("reduce", ignores=("computation",))
def reduce(*operands: jax.Array, jaxpr: Any, dimensions: tuple[int, ...]) -> Arrays:
    """Neighbours are combined until one is left; then it is with the initial value.

    Of a named length one is combined after the other. XLA takes the initial value for neutral, and
    leaves it out where there is nothing to combine.

    **Arguments:** as many arrays as initial values, in this order; the computation is associative.
    """
    count = len(operands) // 2
    combine = combination(jaxpr.jaxpr, jaxpr.consts)
    xs = tuple(lines(x, dimensions) for x in operands[:count])
    first = tuple(jnp.broadcast_to(v, xs[0].shape[:-1]) for v in operands[count:])
    size = xs[0].shape[-1]
    if not isinstance(size, int):
        in_a_row = tuple(jnp.moveaxis(x, -1, 0) for x in xs)
        return lax.scan(lambda found, one: (combine(found, one), None), first, in_a_row)[0]
    if size == 1:
        return tuple(x[..., 0] for x in xs)
    if not size:
        return first
    return combine(first, [x[..., 0] for x in combined(combine, xs)])


def combined(combine: Combine, xs: Sequence[jax.Array]) -> Sequence[jax.Array]:
    """Neighbours on the last axis combined until one is left, which has an axis of one."""
    while (size := xs[0].shape[-1]) > 1:
        even, odd = (
            tuple(lax.slice_in_dim(x, i, size // 2 * 2, 2, -1) for x in xs) for i in (0, 1)
        )
        rest = [x[..., size // 2 * 2 :] for x in xs]
        joined = zip(combine(even, odd), rest, strict=True)
        xs = tuple(jnp.concatenate(pair, -1) for pair in joined)
    return xs


def lines(x: jax.Array, dimensions: tuple[int, ...]) -> jax.Array:
    """``x`` as [axes that stay…, all that is reduced]."""
    kept = [i for i in range(x.ndim) if i not in dimensions]
    sizes = [x.shape[i] for i in dimensions]
    turned = jnp.transpose(x, (*kept, *dimensions))
    return turned.reshape(*(x.shape[i] for i in kept), math.prod(sizes))
