"""Define guards, markers, and collectives as on one device, the only one that a file runs on.

``vmap`` replaces its axis names by numbers. The remaining names are those of a ``shard_map`` on one
device; a ``shard_map`` on several devices is refused. The definitions are the same as in
``jax.lax``.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from converter.decompositions.registered import decomposition

guard = partial(decomposition, is_traced_early=True)

PLATFORM = "cpu"
"""The platform that ``lax.platform_dependent`` uses for a file. Other platforms may need their
kernels."""


@guard("platform_index")
def platform_index(*, platforms: tuple[tuple[str, ...] | None, ...]) -> jax.Array:
    """Return the index of the first branch of ``lax.platform_dependent`` for CPUs or any platform,
    as int32.

    ``platforms`` contains the names of the platforms of each branch; None means any.
    """
    fitting = (i for i, names in enumerate(platforms) if names is None or PLATFORM in names)
    return jnp.int32(next(fitting))


@guard("empty")
def empty(*, shape: Sequence[int], dtype: Any) -> jax.Array:
    """Return zeros for ``jnp.empty``, whose numbers are not specified."""
    return jnp.zeros(shape, dtype)


@guard("empty2", ignores=("memory_space",))
def empty_number(*, dtype: Any) -> jax.Array:
    """Return a zero scalar for an uninitialized one, whose number is not specified."""
    return jnp.zeros((), dtype)


# For a predicate without a batch axis, Equinox guarantees that it is true.
guard("select_if_vmap")(lambda _, x, __: x)
guard("tie")(lambda _, x: x)
guard("zeros_like")(lambda x: jnp.zeros_like(x))
guard("unvmap_any")(lambda x: jnp.any(x))
guard("unvmap_all")(lambda x: jnp.all(x))
guard("unvmap_max")(lambda x: jnp.max(x))


# ------------------------------------------------------------------------------------- collectives

DEVICES = ("axis_name", "axis_index_groups", "axis_size")


def _collective(reduce: Any, *xs: jax.Array, axes: Sequence[int | str]) -> list[Any]:
    """Return the list of arrays, each reduced over the axes that are given as numbers.

    Axes that are given as names are axes of devices. They have size one, so that nothing is
    reduced. Before jax 0.9 one equation reduces all arrays of a tree.

    Arguments:
        reduce: reduces an array over a list of axes, such as ``lax.reduce_sum``.
        axes: the axes of the collective. ``vmap`` has replaced its names by numbers.
    """
    numbers = [axis for axis in axes if isinstance(axis, int)]
    return [reduce(x, numbers) if numbers else x for x in xs]


guard("psum", "psum_invariant", ignores=DEVICES)(partial(_collective, lax.reduce_sum))
guard("pmax", ignores=DEVICES)(partial(_collective, lax.reduce_max))
guard("pmin", ignores=DEVICES)(partial(_collective, lax.reduce_min))


@guard("pvary", ignores=("axes", "axis_index_groups"))
@guard("preduced", "reduced_vary_cast", "vary_unreduced_cast", ignores=("axes",))
@guard("reduced_vary_cast_p", "vary_unreduced_cast_p", ignores=("axes",))
@guard("unreduced_pmax", "unreduced_pmin", "unreduced_psum", ignores=("axes",))
@guard("pbroadcast", ignores=("axis_name", "source"))
@guard("nonbatchable", ignores=("allow_constant_across_batch", "msg"))
@guard("nontraceable", ignores=("name",))
@guard("nondifferentiable_backward", ignores=("msg", "symbolic"))
@guard("xla_metadata_value", ignores=("xla_metadata_kvs",))
@guard("stage")
def unchanged(*xs: jax.Array) -> tuple[jax.Array, ...]:
    """Return the operands unchanged.

    This replaces primitives that only describe device layouts, prevent transformations, or mark
    values for a compiler.
    """
    return xs


@guard("axis_index", ignores=("axis_name",))
def axis_index() -> jax.Array:
    """Return 0, the index of the only device."""
    return jnp.int32(0)


@guard("ppermute", ignores=("axis_name",))
def ppermute(*xs: jax.Array, perm: Sequence[tuple[int, int]]) -> tuple[jax.Array, ...]:
    """Return the operands, or zeros if ``perm``, a list of pairs (source, destination), is empty.

    The only device can send its operands only to itself.
    """
    return xs if perm else tuple(jnp.zeros_like(x) for x in xs)


@guard("all_gather", "all_gather_invariant", "all_gather_reduced", ignores=DEVICES)
def all_gather(*xs: jax.Array, all_gather_dimension: int, tiled: bool) -> tuple[jax.Array, ...]:
    """Return the operands, with a new axis of size one unless ``tiled`` is true.

    There is only one device to gather from.
    """
    return xs if tiled else tuple(jnp.expand_dims(x, all_gather_dimension) for x in xs)


@guard("all_to_all", ignores=DEVICES)
def all_to_all(x: jax.Array, *, split_axis: int, concat_axis: int, tiled: bool) -> jax.Array:
    """Return the operand of an exchange with one device.

    Unless ``tiled``, the split axis moves to the position ``concat_axis``. Its size is one.
    """
    return x if tiled else jnp.moveaxis(x, split_axis, concat_axis)


@guard("reduce_scatter", "unreduced_reduce_scatter", ignores=DEVICES)
def reduce_scatter(x: jax.Array, *, scatter_dimension: int, tiled: bool) -> jax.Array:
    """Return the operand, without its axis of size one unless ``tiled`` is true.

    There is only one device to sum over.
    """
    return x if tiled else jnp.squeeze(x, scatter_dimension)
