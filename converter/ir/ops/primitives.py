"""JAX's primitives for data movement, selection, reductions and control flow.

The elementwise primitives are in ``pointwise``.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter import jax_versions
from converter.ir.op import Linear, Rounding
from converter.ir.ops.catalogue import define_op

_NONE, _SUMS, _TOGETHER = Rounding.NONE, Rounding.SUMS, Linear.TOGETHER
_moving = partial(define_op, moves=True, rounding=_NONE, linear=_TOGETHER)
_forwarding = partial(define_op, forwards=True)
_selecting_part = partial(define_op, rounding=_NONE, linear=_TOGETHER)
_selecting = partial(define_op, rounding=_NONE)
_extreme = partial(define_op, rounding=_NONE, zero_sign_is_open=True)
_adding = partial(define_op, rounding=_SUMS, linear=_TOGETHER)


def _reshape(
    x: jax.Array, *, shape: Any = (), new_sizes: Any = (), dimensions: Any = None
) -> jax.Array:
    """Reshape to ``shape`` if it is not empty, else to ``new_sizes``.

    Nodes of the converter have the parameter ``shape``, and JAX's primitive has ``new_sizes``.
    ``dimensions`` is a permutation of the axes that is applied first.
    """
    return lax.reshape(x, shape or new_sizes, dimensions)


def _reshape_in_numpy(
    x: Any, *, shape: Any = (), new_sizes: Any = (), dimensions: Any = None
) -> Any:
    """Compute the same as `_reshape` in numpy."""
    return (x if dimensions is None else x.transpose(dimensions)).reshape(shape or new_sizes)


def _broadcast_in_dim(x: Any, *, shape: Any, broadcast_dimensions: Any) -> Any:
    """Broadcast in numpy: axis i of ``x`` becomes axis ``broadcast_dimensions[i]`` of the
    result."""
    ones = [1] * len(shape)
    for axis, size in zip(broadcast_dimensions, x.shape, strict=True):
        ones[axis] = size
    return np.broadcast_to(x.reshape(ones), shape)


def _slice_in_jax(x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> jax.Array:
    """Slice a JAX array along every axis. Starts and limits beyond the end of the array mean its
    end.

    Such a slice may be empty. This happens if windows are larger than the array.
    """
    starts, limits = (
        [min(index, size) for index, size in zip(indices, x.shape, strict=True)]
        for indices in (start_indices, limit_indices)
    )
    return lax.slice(x, starts, limits, strides)


def _slice(x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    """Slice in numpy along every axis. ``strides`` None means 1."""
    steps = strides or [1] * x.ndim
    return x[tuple(map(_range, start_indices, limit_indices, steps))]


def _iota(*, dtype: Any, shape: Any, dimension: int) -> Any:
    """Return an array of this shape with the positions along axis ``dimension``."""
    sequence = np.arange(shape[dimension]).astype(dtype)
    ones = [-1 if axis == dimension else 1 for axis in range(len(shape))]
    return np.broadcast_to(sequence.reshape(ones), shape)


# ------------------------------------------------------------------------------------ moving data

# An alias of Python's slice, because an operation below has the same name.
_range = slice

reshape = _moving("reshape", _reshape, _reshape_in_numpy)
transpose = _moving("transpose", lax.transpose, lambda x, *, permutation: x.transpose(permutation))
broadcast_in_dim = _moving("broadcast_in_dim", lax.broadcast_in_dim, _broadcast_in_dim)
slice = _moving("slice", _slice_in_jax, _slice)
rev = _moving("rev", lax.rev)
squeeze = _moving("squeeze")
tile = _moving("tile")
concatenate = _selecting_part(
    "concatenate",
    lambda *xs, dimension: lax.concatenate(xs, dimension),
    lambda *xs, dimension: np.concatenate(xs, dimension),
)
stack = _selecting_part("stack")
unstack = _selecting_part("unstack")
pad = _selecting_part("pad", lax.pad)
split = _selecting_part(
    "split", lambda x, *, axis, sizes: tuple(jnp.split(x, np.cumsum(sizes)[:-1].tolist(), axis))
)
iota = _selecting("iota", lax.broadcasted_iota, _iota)
bitcast_convert_type = _selecting("bitcast_convert_type")
dim_as_value = define_op("dim_as_value")

# These operations return their operands unchanged.
copy = _forwarding("copy", elementwise=True, moves=True, rounding=_NONE, linear=_TOGETHER)
stop_gradient = _forwarding("stop_gradient", rounding=_NONE, linear=_TOGETHER)
for _name in ("name", "device_put", "pvary"):
    _forwarding(_name, linear=_TOGETHER)
for _name in ("optimization_barrier", "sharding_constraint"):
    _forwarding(_name)

# --------------------------------------------------------------------------- by indices, by order

gather = _extreme("gather")
dynamic_slice = _selecting_part("dynamic_slice")
dynamic_update_slice = _selecting_part("dynamic_update_slice")
scatter = _selecting_part("scatter", lax.scatter)
scatter_add = _adding("scatter-add", lax.scatter_add)
scatter_sub = _adding("scatter-sub", lax.scatter_sub)
scatter_mul = define_op("scatter-mul", lax.scatter_mul)
scatter_min = _selecting("scatter-min", lax.scatter_min)
scatter_max = _selecting("scatter-max", lax.scatter_max)
SCATTERS = (scatter, scatter_add, scatter_mul, scatter_min, scatter_max)

sort = _selecting("sort")
top_k = _selecting("top_k", lambda x, *, k, axis, total=False: jax_versions.top_k(x, k, axis))
approx_top_k = define_op("approx_top_k")
argmax = _selecting("argmax", lambda x, *, axes, index_dtype: lax.argmax(x, axes[0], index_dtype))
argmin = _selecting("argmin")

# ------------------------------------------------------------------ reductions, windows, products

# These operations apply a function of the caller.
reduce = define_op("reduce", rounding=Rounding.CALLER)
reduce_window = define_op("reduce_window", rounding=Rounding.CALLER)

reduce_sum = _adding("reduce_sum", lax.reduce_sum, reduces=True)
reduce_prod = define_op("reduce_prod", reduces=True)
reduce_max = _extreme("reduce_max", lax.reduce_max, reduces=True)
reduce_min = _extreme("reduce_min", lax.reduce_min, reduces=True)
reduce_and = define_op("reduce_and", lax.reduce_and, reduces=True)
reduce_or = define_op("reduce_or", lax.reduce_or, reduces=True)
reduce_xor = define_op("reduce_xor", reduces=True)
reduce_window_sum = define_op("reduce_window_sum", rounding=_SUMS, linear=_TOGETHER)
reduce_window_max = _selecting("reduce_window_max")
reduce_window_min = _selecting("reduce_window_min")
select_and_gather_add = _selecting("select_and_gather_add")
select_and_scatter_add = define_op("select_and_scatter_add")
cumsum = define_op("cumsum", rounding=_SUMS, linear=_TOGETHER)
cumprod = define_op("cumprod", zero_sign_is_open=True)
cummax = _extreme("cummax")
cummin = _extreme("cummin")
cumlogsumexp = define_op("cumlogsumexp")
dot_general = define_op("dot_general", rounding=_SUMS, linear=Linear.SEPARATELY)
conv_general_dilated = define_op("conv_general_dilated", rounding=_SUMS, linear=Linear.SEPARATELY)

# ---------------------------------------------------------------------------------------- control

cond = define_op("cond")
scan = define_op("scan")
while_ = define_op("while")
named_call = define_op("named_call", domain="ours")

# ------------------------------------------------------------------------------------- user code

for _name in ("call_exported", "ffi_call", "io_callback", "pure_callback"):
    define_op(_name, calls=True)

# -------------------------------------------------------------------------------------- matrices


def _independent_vectors(is_right: bool, left: bool) -> Any:
    """Return which vectors of the matrix B of a linear system are independent.

    They are the columns if ``left`` is true (A X = B), else the rows (X A = B). ``is_right`` is
    true if the operand is B; otherwise return "".
    """
    return ("columns" if left else "rows") if is_right else ""


_normwise = partial(define_op, rounding=Rounding.NORMWISE)
_by_columns = partial(_normwise, vectors=lambda operand, _: "" if operand else "columns")
_reflecting = partial(_normwise, triangle=lambda _: (True, True))

for _name in ("eigh", "svd"):
    _normwise(_name)
for _name in ("geqp3", "geqrf", "lu", "qr", "cholesky_update"):
    _by_columns(_name)
_normwise("cholesky", vectors=lambda *_: "both")
_reflecting("householder_product")
_reflecting("ormqr", vectors=lambda operand, p: _independent_vectors(operand == 2, p["left"]))
_normwise("tridiagonal_solve", vectors=lambda operand, _: _independent_vectors(operand == 3, True))
_normwise(
    "triangular_solve",
    triangle=lambda p: (p["lower"], p["unit_diagonal"]),
    vectors=lambda operand, p: _independent_vectors(operand == 1, p["left_side"]),
)
