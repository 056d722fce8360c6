"""``x.at[i].apply(f)``: a scatter that applies a function instead of writing its updates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def scatter_apply(
    fn: Callable[[jax.Array], jax.Array],
    x: jax.Array,
    indices: jax.Array,
    shape: Sequence[int],
    *,
    dimension_numbers: lax.ScatterDimensionNumbers,
    mode: Any,
    unique: bool,
) -> jax.Array:
    """``x`` with the elements that windows of ``shape`` at ``indices`` cover put through ``fn``.

    **Arguments:** ``fn`` takes and gives a scalar; ``unique`` promises that no windows overlap. An
    element that several of them cover is put through ``fn`` as many times, as JAX does it.
    """
    for _ in range(x.ndim):
        fn = jax.vmap(fn)
    none, ones = jnp.zeros(x.shape, jnp.int32), jnp.ones(shape, jnp.int32)
    times = lax.scatter_add(none, indices, ones, dimension_numbers, mode=mode)
    if unique or math.prod(indices.shape[:-1]) == 1:
        return jnp.where(times > 0, fn(x), x)

    def again(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        left, y = state
        return left - 1, jnp.where(left > 0, fn(y), y)

    return lax.while_loop(lambda state: jnp.any(state[0] > 0), again, (times, x))[1]
