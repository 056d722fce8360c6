"""Primitives of JAX's that move, choose, add up or control; those of one element are elsewhere."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.graph.op import Linear, Rounding
from converter.graph.ops.table import known

_NONE, _SUMS, _TOGETHER = Rounding.NONE, Rounding.SUMS, Linear.TOGETHER
_moving = partial(known, moves=True, rounding=_NONE, linear=_TOGETHER)
_forwarding = partial(known, forwards=True)


def _reshape(
    x: jax.Array, *, shape: Any = (), new_sizes: Any = (), dimensions: Any = None
) -> jax.Array:
    """Ours has ``shape``, JAX's own has ``new_sizes`` and may transpose first."""
    return lax.reshape(x, shape or new_sizes, dimensions)


def _broadcast_in_dim(x: Any, *, shape: Any, broadcast_dimensions: Any) -> Any:
    ones = [1] * len(shape)
    for axis, size in zip(broadcast_dimensions, x.shape, strict=True):
        ones[axis] = size
    return np.broadcast_to(x.reshape(ones), shape)


def _slice(x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    steps = strides or [1] * x.ndim
    return x[tuple(map(_range, start_indices, limit_indices, steps))]


def _iota(*, dtype: Any, shape: Any, dimension: int) -> Any:
    line = np.arange(shape[dimension]).astype(dtype)
    ones = [-1 if axis == dimension else 1 for axis in range(len(shape))]
    return np.broadcast_to(line.reshape(ones), shape)


def _scatter(
    x: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    rule: Any,
    dimension_numbers: Any,
    mode: Any,
) -> jax.Array:
    return rule(x, indices, updates, dimension_numbers, mode=mode)


# ------------------------------------------------------------------------------------ moving data

_range = slice  # Python's own, whose name an operation has here

reshape = _moving("reshape", formula=_reshape, numpy=lambda x, *, shape: x.reshape(shape))
transpose = _moving(
    "transpose",
    formula=lambda x, *, permutation: lax.transpose(x, permutation),
    numpy=lambda x, *, permutation: x.transpose(permutation),
)
broadcast_in_dim = _moving(
    "broadcast_in_dim",
    formula=lambda x, *, shape, broadcast_dimensions: lax.broadcast_in_dim(
        x, shape, broadcast_dimensions
    ),
    numpy=_broadcast_in_dim,
)
slice = _moving(
    "slice",
    formula=lambda x, *, start_indices, limit_indices, strides: lax.slice(
        x, start_indices, limit_indices, strides
    ),
    numpy=_slice,
)
rev = _moving("rev", formula=lambda x, *, dimensions: lax.rev(x, dimensions))
squeeze = _moving("squeeze")
expand_dims = _moving("expand_dims")
tile = _moving("tile")
concatenate = known(
    "concatenate",
    formula=lambda *xs, dimension: lax.concatenate(xs, dimension),
    numpy=lambda *xs, dimension: np.concatenate(xs, dimension),
    rounding=_NONE,
    linear=_TOGETHER,
)
stack = known("stack", rounding=_NONE, linear=_TOGETHER)
unstack = known("unstack", rounding=_NONE, linear=_TOGETHER)
pad = known(
    "pad",
    formula=lambda x, filler, *, padding_config: lax.pad(x, filler, padding_config),
    rounding=_NONE,
    linear=_TOGETHER,
)
split = known(
    "split",
    formula=lambda x, *, axis, sizes: tuple(jnp.split(x, np.cumsum(sizes)[:-1].tolist(), axis)),
    rounding=_NONE,
    linear=_TOGETHER,
)
iota = known(
    "iota",
    formula=lambda *, dtype, shape, dimension: lax.broadcasted_iota(dtype, shape, dimension),
    numpy=_iota,
    rounding=_NONE,
)
bitcast_convert_type = known("bitcast_convert_type", rounding=_NONE)
dim_as_value = known("dim_as_value")

# The results are the operands.
copy = _forwarding("copy", elementwise=True, moves=True, rounding=_NONE, linear=_TOGETHER)
copy_p = _forwarding("copy_p", linear=_TOGETHER)
stop_gradient = _forwarding("stop_gradient", rounding=_NONE, linear=_TOGETHER)
name = _forwarding("name", linear=_TOGETHER)
device_put = _forwarding("device_put", linear=_TOGETHER)
pvary = _forwarding("pvary", linear=_TOGETHER)
optimization_barrier = _forwarding("optimization_barrier")
sharding_constraint = _forwarding("sharding_constraint")

# --------------------------------------------------------------------------- by indices, by order

gather = known("gather", rounding=_NONE, any_zero=True)
dynamic_slice = known("dynamic_slice", rounding=_NONE, linear=_TOGETHER)
dynamic_update_slice = known("dynamic_update_slice", rounding=_NONE, linear=_TOGETHER)
scatter = known(
    "scatter", formula=partial(_scatter, rule=lax.scatter), rounding=_NONE, linear=_TOGETHER
)
scatter_add = known(
    "scatter-add",
    formula=partial(_scatter, rule=lax.scatter_add),
    rounding=_SUMS,
    linear=_TOGETHER,
)
scatter_sub = known(
    "scatter-sub",
    formula=partial(_scatter, rule=lax.scatter_sub),
    rounding=_SUMS,
    linear=_TOGETHER,
)
scatter_mul = known("scatter-mul", formula=partial(_scatter, rule=lax.scatter_mul))
scatter_min = known("scatter-min", formula=partial(_scatter, rule=lax.scatter_min), rounding=_NONE)
scatter_max = known("scatter-max", formula=partial(_scatter, rule=lax.scatter_max), rounding=_NONE)
SCATTERS = (scatter, scatter_add, scatter_mul, scatter_min, scatter_max)

sort = known("sort", rounding=_NONE)
top_k = known(
    "top_k",
    formula=lambda x, *, k, axis, total=False: tuple(lax.top_k(x, k, axis=axis)),
    rounding=_NONE,
)
approx_top_k = known("approx_top_k")
argmax = known(
    "argmax",
    formula=lambda x, *, axes, index_dtype: lax.argmax(x, axes[0], index_dtype),
    rounding=_NONE,
)
argmin = known("argmin", rounding=_NONE)

# ------------------------------------------------------------------ reductions, windows, products

reduce_sum = known("reduce_sum", rounding=_SUMS, linear=_TOGETHER)
reduce_prod = known("reduce_prod")
reduce_max = known(
    "reduce_max",
    formula=lambda x, *, axes: lax.reduce_max(x, axes),
    rounding=_NONE,
    any_zero=True,
)
reduce_min = known("reduce_min", rounding=_NONE, any_zero=True)
reduce_and = known("reduce_and", formula=lambda x, *, axes: jnp.all(x, axes))
reduce_or = known("reduce_or", formula=lambda x, *, axes: jnp.any(x, axes))
reduce_xor = known("reduce_xor")
reduce_window_sum = known("reduce_window_sum", rounding=_SUMS, any_zero=True, linear=_TOGETHER)
reduce_window_max = known("reduce_window_max", rounding=_NONE)
reduce_window_min = known("reduce_window_min", rounding=_NONE)
select_and_gather_add = known("select_and_gather_add", rounding=_NONE)
select_and_scatter_add = known("select_and_scatter_add")
cumsum = known("cumsum", rounding=_SUMS, any_zero=True, linear=_TOGETHER)
cumprod = known("cumprod", any_zero=True)
cummax = known("cummax", rounding=_NONE, any_zero=True)
cummin = known("cummin", rounding=_NONE, any_zero=True)
cumlogsumexp = known("cumlogsumexp")
dot_general = known("dot_general", rounding=_SUMS, linear=Linear.EACH)
conv_general_dilated = known("conv_general_dilated", rounding=_SUMS, linear=Linear.EACH)

# ---------------------------------------------------------------------------------------- control

cond = known("cond")
scan = known("scan")
while_ = known("while")

# ------------------------------------------------------------------------------- somebody's code

_calling = partial(known, calls=True)

call_exported = _calling("call_exported")
ffi_call = _calling("ffi_call")
io_callback = _calling("io_callback")
outside_call = _calling("outside_call")
pure_callback = _calling("pure_callback")
