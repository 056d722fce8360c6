"""Collectives over axes of arrays, and over one device, which is all that a file is for.

An axis that ``vmap`` names has a number once it is mapped. Names that are left are those of a
``shard_map``, over one device: over more of them it is refused as a whole. By their definitions in
``jax.lax``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import lax

from converter.decompositions.registered import guard


def _collective(primitive: str, reduce: Callable[[jax.Array, Sequence[int]], jax.Array]) -> None:
    @guard(primitive, ignores=("axis_index_groups",))
    def reduced(x: jax.Array, *, axes: Sequence[int | str]) -> jax.Array:
        numbers = [axis for axis in axes if isinstance(axis, int)]
        return reduce(x, numbers) if numbers else x


_collective("psum", lax.reduce_sum)
_collective("psum_invariant", lax.reduce_sum)
_collective("pmax", lax.reduce_max)
_collective("pmin", lax.reduce_min)


@guard("preduced", "pvary", "reduced_vary_cast", "vary_unreduced_cast", ignores=("axes",))
@guard("reduced_vary_cast_p", "vary_unreduced_cast_p", ignores=("axes",))
@guard("unreduced_pmax", "unreduced_pmin", "unreduced_psum", ignores=("axes",))
@guard("pbroadcast", ignores=("axis_name", "source"))
def the_same(x: jax.Array) -> jax.Array:
    """What says how a value is spread over devices, or is to be."""
    return x


@guard("axis_index", ignores=("axis_name",))
def axis_index() -> jax.Array:
    return jnp.int32(0)


@guard("ppermute", ignores=("axis_name",))
def ppermute(*xs: jax.Array, perm: Sequence[tuple[int, int]]) -> tuple[jax.Array, ...]:
    """A device that nothing is sent to has zeros."""
    return xs if perm else tuple(jnp.zeros_like(x) for x in xs)


@guard("all_gather_invariant", ignores=("axis_name", "axis_size"))
@guard("all_gather", "all_gather_reduced", ignores=("axis_name", "axis_index_groups", "axis_size"))
def all_gather(*xs: jax.Array, all_gather_dimension: int, tiled: bool) -> tuple[jax.Array, ...]:
    return xs if tiled else tuple(jnp.expand_dims(x, all_gather_dimension) for x in xs)


@guard("all_to_all", ignores=("axis_name", "axis_index_groups"))
def all_to_all(x: jax.Array, *, split_axis: int, concat_axis: int, tiled: bool) -> jax.Array:
    """The axis that is split has one element, unless it is tiled."""
    return x if tiled else jnp.moveaxis(x, split_axis, concat_axis)


@guard("unreduced_reduce_scatter", ignores=("axis_name", "axis_index_groups", "axis_size"))
@guard("reduce_scatter", ignores=("axis_name", "axis_index_groups", "axis_size"))
def reduce_scatter(x: jax.Array, *, scatter_dimension: int, tiled: bool) -> jax.Array:
    return x if tiled else jnp.squeeze(x, scatter_dimension)
