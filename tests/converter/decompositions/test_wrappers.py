"""What only wraps something is inlined, goes with a warning, or is refused with a reason."""

import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from jax import lax
from jax.experimental import checkify, io_callback
from jax.experimental.custom_partitioning import custom_partitioning
from jax.experimental.layout import Layout, with_layout_constraint
from jax.experimental.xla_metadata import set_xla_metadata
from jax.sharding import NamedSharding, PartitionSpec

import converter
from tests.conformance import Case, assert_exports

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
MESH = jax.make_mesh((1,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
SPEC = PartitionSpec("d")

doubled = jax.custom_batching.custom_vmap(lambda x: 2 * x)
doubled.def_vmap(lambda size, batched, x: (2 * x, True))
partitioned = custom_partitioning(lambda x: jnp.sin(x))
partitioned.def_partition(lambda *_: None, sharding_rule="i j -> i j")


def _sharded(fn, vma=True, mesh=MESH):
    return jax.shard_map(fn, mesh=mesh, in_specs=SPEC, out_specs=SPEC, check_vma=vma)


def filled(x, kind):
    """Equinox's loop that writes each row of a buffer once."""

    def body(carry):
        i, rows = carry
        return i + 1, rows.at[i].set(rows[i] * jnp.sin(rows[i]))

    how = {"kind": kind, "max_steps": 4, "buffers": lambda carry: carry[1]}
    return eqxi.while_loop(lambda carry: carry[0] < 2, body, (jnp.int32(0), x), **how)[1]


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
    "psum": _sharded(lambda x: lax.psum(2 * x, "d") + lax.pmax(x, "d") * lax.axis_index("d")),
    "psum without types": _sharded(lambda x: lax.psum(x, "d") + lax.pmin(x, "d"), False),
    "ppermute": _sharded(lambda x: lax.ppermute(x, "d", [(0, 0)]) + lax.ppermute(x, "d", [])),
    "all_gather": _sharded(lambda x: lax.all_gather(x, "d", axis=1)),
    "all_to_all": _sharded(lambda x: lax.all_to_all(x[:1], "d", 0, 1)),
    "psum_scatter": _sharded(lambda x: lax.psum_scatter(x[:, :1], "d", scatter_dimension=1)),
    "linear_call": lambda x: jax.custom_derivatives.linear_call(
        lambda r, x: x * r, lambda r, t: t * r, 3.0, x
    ),
    "custom_partitioning": partitioned,
    "buffers, bounded": lambda x: filled(x, "bounded"),
    "buffers, checkpointed": lambda x: filled(x, "checkpointed"),
    "buffers, gradient": jax.grad(lambda x: filled(x, "bounded").sum()),
    "xla_metadata": lambda x: set_xla_metadata(a="b")(lambda y: y * 2)(set_xla_metadata(x, a="b")),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", INLINED)
def test_inlined(name):
    fn = INLINED[name]
    export = assert_exports(Case(name, fn, [X]))
    assert "If" not in export.report.histogram or name.startswith("buffers")


DROPPED = {
    "debug.print": lambda x: (jax.debug.print("{}", x), x + 1)[1],
    "debug.callback": lambda x: (jax.debug.callback(print, x), x + 1)[1],
    "optimization_barrier": lambda x: lax.optimization_barrier(lax.optimization_barrier(x) + 1),
    "checkify.check": lambda x: (checkify.check(x[0, 0] > 0, "small"), x + 1)[1],
    "inspect_array_sharding": lambda x: (
        jax.debug.inspect_array_sharding(x, callback=print),
        x + 1,
    )[1],
    "with_layout_constraint": lambda x: with_layout_constraint(x + 1, Layout((1, 0))),
    "reshard": lambda x: jax.sharding.reshard(
        x + 1, NamedSharding(jax.make_mesh((1,), ("d",)), SPEC)
    ),
    "with_sharding_constraint": lambda x: lax.with_sharding_constraint(
        x + 1, NamedSharding(MESH, SPEC)
    ),
}


@pytest.mark.parametrize("name", DROPPED)
def test_dropped(name):
    """One warning, however many there are."""
    with pytest.warns(UserWarning, match=rf"left out: jax\..*{name}: ") as caught:
        export = converter.to_onnx(DROPPED[name], [X])
    assert len(caught) == 1
    assert set(export.report.histogram) <= {"Add"}


REFUSED = {
    "eig": (jnp.linalg.eig, "use jnp.linalg.eigh"),
    "schur": (jsl.schur, "use jnp.linalg.eigh"),
    "hessenberg": (jsl.hessenberg, "compute it before the export"),
    "tridiagonal": (lax.linalg.tridiagonal, "use jnp.linalg.eigh"),
    "new_ref": (lambda x: jax.new_ref(x)[...], "return the new array instead"),
    "rng_uniform": (lambda x: x + lax.rng_uniform(0.0, 1.0, (4, 4)), "use jax.random"),
    "io_callback": (lambda x: (io_callback(print, None, x), x)[1], "a file cannot call Python"),
    "pure_callback": (lambda x: jax.pure_callback(np.sin, x, x), "a file cannot call Python"),
    "scatter-max of complex numbers": (lambda x: (x + 1j).at[0].max(x[0] + 1j), ""),
    "shard_map": (
        _sharded(lambda x: 2 * x, mesh=jax.sharding.AbstractMesh((2,), ("d",))),
        "a file is for one device",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    fn, reason = REFUSED[name]
    with pytest.raises(converter.Unsupported, match=f"primitive '{name}'.*{reason}.*test_wrappers"):
        converter.to_onnx(lambda x: fn(x), [(4, 4)])
