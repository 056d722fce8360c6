"""What only wraps something is inlined, goes with a warning, or is refused with a reason."""

from __future__ import annotations

import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

import converter
from tests.conformance import Case, assert_exports

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
MESH = jax.make_mesh((1,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))


@jax.custom_batching.custom_vmap
def doubled(x):
    return 2 * x


@doubled.def_vmap
def _(size, batched, x):
    return 2 * x, True


def _sharded(fn, vma=True):
    spec = PartitionSpec("d")
    return jax.shard_map(fn, mesh=MESH, in_specs=spec, out_specs=spec, check_vma=vma)


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
    "pmean": _sharded(lambda x: lax.pmean(x, "d")),
    "ppermute": _sharded(lambda x: lax.ppermute(x, "d", [(0, 0)]) + lax.ppermute(x, "d", [])),
    "all_gather": _sharded(lambda x: lax.all_gather(x, "d", axis=1)),
    "all_gather, tiled": _sharded(lambda x: lax.all_gather(x, "d", tiled=True)),
    "all_to_all": _sharded(lambda x: lax.all_to_all(x[:1], "d", 0, 1)),
    "all_to_all, tiled": _sharded(lambda x: lax.all_to_all(x, "d", 0, 1, tiled=True)),
    "psum_scatter": _sharded(lambda x: lax.psum_scatter(x[:, :1], "d", scatter_dimension=1)),
    "psum_scatter, tiled": _sharded(lambda x: lax.psum_scatter(x, "d", tiled=True)),
}


@pytest.mark.parametrize("name", INLINED)
def test_inlined(name):
    fn = INLINED[name]
    export = assert_exports(Case(name, fn, [X]))
    assert "If" not in export.report.histogram


DROPPED = {
    "debug.print": lambda x: (jax.debug.print("{}", x), x + 1)[1],
    "debug.callback": lambda x: (jax.debug.callback(lambda y: None, x), x + 1)[1],
    "optimization_barrier": lambda x: sum(
        lax.optimization_barrier((x, lax.optimization_barrier(x)))
    ),
    "with_sharding_constraint": lambda x: lax.with_sharding_constraint(
        x + 1, NamedSharding(MESH, PartitionSpec("d"))
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
    "pure_callback": (lambda x: jax.pure_callback(np.sin, x, x), "a file cannot call Python"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    fn, reason = REFUSED[name]
    with pytest.raises(converter.Unsupported, match=f"primitive '{name}'.*{reason}.*test_wrappers"):
        converter.to_onnx(lambda x: fn(x), [(4, 4)])


def test_many_devices_are_refused():
    mesh, spec = jax.sharding.AbstractMesh((2,), ("d",)), PartitionSpec("d")
    fn = jax.shard_map(lambda x: 2 * x, mesh=mesh, in_specs=spec, out_specs=spec)
    with pytest.raises(converter.Unsupported, match=r"'shard_map'.*a file is for one device"):
        converter.to_onnx(fn, [(4, 4)])
