"""Collectives under every transformation that gives their axes a meaning.

Under ``vmap`` a named axis becomes an axis of the array. Under ``shard_map`` over one device it
stays a name, for an axis of size one. One equation may have names of both kinds.
"""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from tests.conformance import DEFAULT, Case
from tests.programs.ways import total

Function = Callable[..., Any]
Row = Callable[[Any, Any, int], Any]  # of a lane (4, 2), the names of axes, the number of lanes

MESH = jax.make_mesh((1,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))


def _parts(x: Any, n: int) -> list[Any]:
    return [(k + 1) * x for k in range(n)]


REDUCTIONS: dict[str, Row] = {
    "psum": lambda x, axis, n: lax.psum(x * x, axis) + x,
    "psum of booleans": lambda x, axis, n: lax.psum(x > 0, axis),
    "psum of complex numbers": lambda x, axis, n: jnp.abs(lax.psum(lax.complex(x, 1 - x), axis)),
    "pmean": lambda x, axis, n: x - lax.pmean(x, axis),
    "pmax": lambda x, axis, n: lax.pmax(x, axis),
    "pmax of booleans": lambda x, axis, n: lax.pmax(x > 1, axis) & (x > 0),
    "pmin": lambda x, axis, n: lax.pmin(x, axis) * x,
    "of a constant": lambda x, axis, n: x * lax.psum(1, axis),
    "of several": lambda x, axis, n: lax.psum((x, {"b": x.sum()}), axis)[1]["b"] + x,
    "axis_index": lambda x, axis, n: x * lax.axis_index(axis),
}
COLLECTIVES: dict[str, Row] = {
    **REDUCTIONS,
    "all_gather": lambda x, axis, n: lax.all_gather(x, axis),
    "all_gather, another axis": lambda x, axis, n: lax.all_gather(x, axis, axis=1).sum(1),
    "all_gather, tiled": lambda x, axis, n: lax.all_gather(x, axis, tiled=True),
    "all_to_all": lambda x, axis, n: lax.all_to_all(jnp.stack(_parts(x, n)), axis, 0, 2),
    "all_to_all, tiled": lambda x, axis, n: lax.all_to_all(
        jnp.concatenate(_parts(x, n)), axis, 0, 1, tiled=True
    ),
    "ppermute": lambda x, axis, n: lax.ppermute(x, axis, [(i, (i + 1) % n) for i in range(n)]),
    "psum_scatter": lambda x, axis, n: lax.psum_scatter(jnp.stack(_parts(x, n)), axis),
    "psum_scatter, tiled": lambda x, axis, n: lax.psum_scatter(
        jnp.concatenate(_parts(x, n)), axis, tiled=True
    ),
}


def _without(*names: str) -> dict[str, Row]:
    """Return the collectives without those that JAX cannot transform in this way."""
    return {name: row for name, row in COLLECTIVES.items() if not name.startswith(names)}


def _lane(axis: Any, n: int, rows: Mapping[str, Row] = COLLECTIVES) -> Function:
    return lambda x: {name: row(x, axis, n) for name, row in rows.items()}


def _mapped(fn: Function, name: str = "i", axis: int = 0) -> Function:
    return jax.vmap(fn, in_axes=axis, axis_name=name)


def _sharded(fn: Function, vma: bool = True) -> Function:
    spec = PartitionSpec("d")
    return jax.shard_map(fn, mesh=MESH, in_specs=spec, out_specs=spec, check_vma=vma)


def _batch_norm(mode: str) -> Function:
    norm, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(4, axis_name="i", mode=mode)
    mapped = jax.vmap(norm, in_axes=(0, None), out_axes=(0, None), axis_name="i")
    return lambda x: mapped(x, state)


SUMS = _lane("i", 3, _without("pmax", "pmin"))
SUMS_OF_LANES = _lane("i", 3, _without("pmax", "pmin", "all_to_all"))
BOTH = _lane(("i", "j"), 15, REDUCTIONS)
IN_SHARDS, IN_LANES = (_lane(names, 3, REDUCTIONS) for names in (("i", "d"), ("d", "i")))
SLOPES = jax.grad(lambda x: total(SUMS_OF_LANES(x)))
PROGRAMS = [
    Case("vmap, -1", _mapped(_lane("i", 3), axis=-1), [(4, 2, 3)], tolerance=4, tags=DEFAULT),
    Case("nested, both names", _mapped(_mapped(BOTH, "j", -1)), [(3, 4, 2, 5)], tolerance=4),
    Case("shard_map", _sharded(_lane("d", 1)), [(4, 2)], tolerance=4, tags=DEFAULT),
    Case("vmap in shard_map", _sharded(_mapped(IN_SHARDS), vma=False), [(3, 4, 2)], tolerance=4),
    Case("shard_map in vmap", _mapped(_sharded(IN_LANES, vma=False), axis=1), [(4, 3, 2)],
         tolerance=4),
    Case("grad of lanes", _mapped(SLOPES, axis=-1), [(4, 2, 3)], tolerance=4),
    Case("jvp", lambda x: jax.jvp(
        lambda y: total(_mapped(SUMS)(y)), (x,), (jnp.sin(x),)), [(3, 4, 2)],
         tolerance=4),
    Case("batch norm, ema", _batch_norm("ema"), [(3, 4)]),
    Case("batch norm, batch", _batch_norm("batch"), [(3, 4)]),
]  # fmt: skip
