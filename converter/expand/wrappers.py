"""Primitives that guard or mark values and do nothing once a function is traced."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from converter.expand.registry import expansion

PLATFORM = "cpu"
"""What ``lax.platform_dependent`` takes a file for: everything else may need its kernels."""


@expansion("platform_index")
def platform_index(*, platforms: tuple[tuple[str, ...] | None, ...]) -> jax.Array:
    """The first branch that is for the platform, or for any."""
    fitting = (i for i, names in enumerate(platforms) if names is None or PLATFORM in names)
    return jnp.int32(next(fitting))


@expansion("nonbatchable", ignores=("allow_constant_across_batch", "msg"))
@expansion("nontraceable", ignores=("name",))
@expansion("nondifferentiable_backward", ignores=("msg", "symbolic"))
def unchanged(x: jax.Array) -> jax.Array:
    """Equinox's guards against transformations, which are over."""
    return x


@expansion("select_if_vmap")
def select_if_vmap(_: jax.Array, x: jax.Array, __: jax.Array) -> jax.Array:
    """Of a predicate without a batch, Equinox knows that it is true."""
    return x


@expansion("unvmap_any")
def unvmap_any(x: jax.Array) -> jax.Array:
    return jnp.any(x)


@expansion("unvmap_all")
def unvmap_all(x: jax.Array) -> jax.Array:
    return jnp.all(x)


@expansion("unvmap_max")
def unvmap_max(x: jax.Array) -> jax.Array:
    return jnp.max(x)
