"""Primitives that guard or mark values and do nothing once a function is traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from converter.decompositions.registered import guard

PLATFORM = "cpu"
"""What ``lax.platform_dependent`` takes a file for: everything else may need its kernels."""


@guard("platform_index")
def platform_index(*, platforms: tuple[tuple[str, ...] | None, ...]) -> jax.Array:
    """The first branch that is for the platform, or for any."""
    fitting = (i for i, names in enumerate(platforms) if names is None or PLATFORM in names)
    return jnp.int32(next(fitting))


@guard("nonbatchable", ignores=("allow_constant_across_batch", "msg"))
@guard("nontraceable", ignores=("name",))
@guard("nondifferentiable_backward", ignores=("msg", "symbolic"))
@guard("xla_metadata_value", ignores=("xla_metadata_kvs",))
@guard("stage")
def unchanged(x: jax.Array) -> jax.Array:
    """Guards against transformations, which are over, and marks for a compiler."""
    return x


@guard("empty", ignores=("out_sharding",))
def empty(*, shape: Sequence[int], dtype: Any) -> jax.Array:
    """Nothing is promised of what is in it."""
    return jnp.zeros(shape, dtype)


@guard("empty2", ignores=("memory_space",))
def empty_number(*, dtype: Any) -> jax.Array:
    return jnp.zeros((), dtype)


# Of a predicate without a batch, Equinox knows that it is true.
guard("select_if_vmap")(lambda _, x, __: x)
guard("tie")(lambda _, x: x)
guard("zeros_like")(lambda x: jnp.zeros_like(x))
guard("unvmap_any")(lambda x: jnp.any(x))
guard("unvmap_all")(lambda x: jnp.all(x))
guard("unvmap_max")(lambda x: jnp.max(x))
