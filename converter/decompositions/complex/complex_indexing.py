"""Gathers and scatters that are not the same for both parts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from converter.decompositions.complex.algebra import size
from converter.decompositions.complex.complex_rules import meaning
from converter.decompositions.complex.elementary import quarter_turned
from converter.ir.complex_pairs import Pair


@meaning("gather", ignores=("indices_are_sorted", "unique_indices"))
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


@meaning(
    "scatter-mul",
    ignores=("indices_are_sorted", "unique_indices", "update_jaxpr", "update_consts"),
)
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
