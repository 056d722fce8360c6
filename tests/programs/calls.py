"""Operations that are inlined or left out: calls, checks, and shards of one device."""

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import checkify
from jax.experimental.custom_partitioning import custom_partitioning
from jax.experimental.layout import Layout, with_layout_constraint
from jax.experimental.xla_metadata import set_xla_metadata
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from tests.conformance import Case

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
MESH = jax.make_mesh((1,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
SPEC = PartitionSpec("d")

doubled = jax.custom_batching.custom_vmap(lambda x: 2 * x)
doubled.def_vmap(lambda size, batched, x: (2 * x, True))
partitioned = custom_partitioning(lambda x: jnp.sin(x))
partitioned.def_partition(lambda *_: None, sharding_rule="i j -> i j")


def sharded(fn, vma=True, mesh=MESH):
    return jax.shard_map(fn, mesh=mesh, in_specs=SPEC, out_specs=SPEC, check_vma=vma)


def filled(x, kind):
    """Run Equinox's loop that writes each row of a buffer once."""

    def body(carry):
        i, rows = carry
        return i + 1, rows.at[i].set(rows[i] * jnp.sin(rows[i]))

    options = {"kind": kind, "max_steps": 4, "buffers": lambda carry: carry[1]}
    return eqxi.while_loop(lambda carry: carry[0] < 2, body, (jnp.int32(0), x), **options)[1]


INLINED = {
    "composite": lambda x: lax.composite(lambda x, *, k: k * x, "my.op")(x, k=2.0),
    "custom_vmap": doubled,
    "platform": lambda x: lax.platform_dependent(x, cpu=jnp.sin, tpu=jnp.cos),
    "another platform": lambda x: lax.platform_dependent(x, tpu=jnp.cos, default=jnp.sin),
    "unvmap": lambda x: (eqxi.unvmap_any(x > 5), eqxi.unvmap_all(x > 5), eqxi.unvmap_max(x)),
    "nonbatchable": eqxi.nonbatchable,
    "while": lambda x: eqxi.while_loop(lambda x: x[0, 0] < 3, lambda x: x + 1, x, kind="lax"),
    "pmap": lambda x: jax.pmap(lambda x: x - lax.psum(x, "i"), "i", devices=jax.devices()[:1])(
        x[None]
    ),
    "ppermute": sharded(lambda x: lax.ppermute(x, "d", [(0, 0)]) + lax.ppermute(x, "d", [])),
    "linear_call": lambda x: jax.custom_derivatives.linear_call(
        lambda r, x: x * r, lambda r, t: t * r, 3.0, x
    ),
    "custom_partitioning": partitioned,
    "xla_metadata": lambda x: set_xla_metadata(a="b")(lambda y: y * 2)(set_xla_metadata(x, a="b")),
}


DROPPED = {
    "debug.print": lambda x: (jax.debug.print("{}", x), x + 1)[1],
    "debug.callback": lambda x: (jax.debug.callback(print, x), x + 1)[1],
    "optimization_barrier": lambda x: lax.optimization_barrier(lax.optimization_barrier(x) + 1),
    "inspect_array_sharding": lambda x: (
        jax.debug.inspect_array_sharding(x, callback=print),
        x + 1,
    )[1],
    "with_layout_constraint": lambda x: with_layout_constraint(x + 1, Layout((1, 0))),
    "reshard": lambda x: jax.sharding.reshard(
        x + 1, NamedSharding(jax.make_mesh((1,), ("d",), axis_types=(AxisType.Explicit,)), SPEC)
    ),
    "with_sharding_constraint": lambda x: lax.with_sharding_constraint(
        x + 1, NamedSharding(MESH, SPEC)
    ),
}

UNCOMPILED = {
    "checkify.check": lambda x: (checkify.check(x[0, 0] < 0, "large"), x + 1)[1],
}
"""Operations that are left out and that JAX does not compile, so that `PROGRAMS` lacks them."""

BUFFERS = {
    "bounded": lambda x: filled(x, "bounded"),
    "checkpointed": lambda x: filled(x, "checkpointed"),
    "gradient": jax.grad(lambda x: filled(x, "bounded").sum()),
}


def checked(x, index=0):
    """Return twice ``x`` after a check that ``X`` passes."""
    return eqxi.branched_error_if({"x": x, "n": 3}, jnp.any(x > 99), index, ["one", "two"])["x"] * 2


CHECKS = {
    "in a branch": lambda x: lax.cond(x[0, 0] > 99, lambda y: checked(y + 99), jnp.sin, x),
    "of what is known": lambda x: lax.cond(
        x[0, 0] > 99, lambda y: eqx.error_if(y, jnp.arange(3) > 1, "known"), jnp.sin, x
    ),
    "nan": lambda x: eqx.error_if(x, x[0, 0] > -99, "yes", on_error="nan") + 1,
    "while": lambda x: lax.while_loop(lambda c: c.sum() < 50, lambda c: checked(c) + 9, x),
    "grad": jax.grad(lambda x: (checked(x) ** 2).sum()),
    "backward_nan": jax.grad(lambda x: jnp.sin(eqx.debug.backward_nan(x)).sum()),
    "checkify": lambda x: checkify.checkify(
        lambda y: (checkify.check(y[0, 0] < 99, "no"), y * 2)[1]
    )(x)[1],
}
PROGRAMS = [
    *(Case(name, fn, [X], ops={"If": 0}) for name, fn in INLINED.items()),
    *(Case(f"buffers, {name}", fn, [X]) for name, fn in BUFFERS.items()),
    *(Case(name, fn, [X], ops={"If": 0}) for name, fn in DROPPED.items()),
    *(Case(f"check: {name}", fn, [X]) for name, fn in CHECKS.items()),
]
