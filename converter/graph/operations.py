"""The operations that the converter itself writes into graphs, as formulas in JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from converter.graph import norms, recurrent
from converter.graph.windows import avg_pool, conv, conv_transpose, max_pool_scatter, pool

# A method of ``jax.image.resize``, and whether it antialiases.
ResizeKind: TypeAlias = tuple[str, bool]

# Elementwise nodes broadcast as numpy does; JAX's primitives want equal shapes.
ELEMENTWISE: dict[str, Callable[..., jax.Array]] = {
    "add": lax.add,
    "sub": lax.sub,
    "mul": lax.mul,
    "div": lax.div,
    "max": lax.max,
    "min": lax.min,
    "pow": lax.pow,
    "rem": lax.rem,
    "atan2": lax.atan2,
    "nextafter": lax.nextafter,
    "and": lax.bitwise_and,
    "or": lax.bitwise_or,
    "xor": lax.bitwise_xor,
    "eq": lax.eq,
    "ne": lax.ne,
    "lt": lax.lt,
    "le": lax.le,
    "gt": lax.gt,
    "ge": lax.ge,
    "shift_left": lax.shift_left,
    "shift_right_logical": lax.shift_right_logical,
    "shift_right_arithmetic": lax.shift_right_arithmetic,
    "select_n": lax.select_n,
    "clamp": lax.clamp,
}


UNARY = frozenset(
    {
        *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh"),
        *("convert_element_type", "copy", "digamma", "erf", "erf_inv", "erfc", "exp"),
        *("exp2", "expm1", "floor", "gelu", "integer_pow", "is_finite", "lgamma", "log", "log1p"),
        *("logistic", "neg", "not", "one_minus_square", "population_count", "reduce_precision"),
        *("clip", "hard_sigmoid", "hard_swish", "softplus", "mish", "swish", "soft_sign"),
        *("leaky_relu", "elu", "selu", "celu"),
        *("relu", "round", "rsqrt", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh"),
    }
)
"""One operand, applied to each element alone; ``leaky_relu`` may have slopes that fit it."""


def einsum(
    x: jax.Array, y: jax.Array, *, lhs: Any, rhs: Any, out: Any, dtype: Any, precision: Any = None
) -> jax.Array:
    """A contraction by axis labels; ``dtype`` is the accumulator's and the result's."""
    return jnp.einsum(x, lhs, y, rhs, out, preferred_element_type=dtype, precision=precision)


def matmul(x: jax.Array, y: jax.Array) -> jax.Array:
    """Numpy's matrix product."""
    return jnp.matmul(x, y, preferred_element_type=x.dtype)


def softmax(x: jax.Array, *, axis: int) -> jax.Array:
    """exp(x - max) / sum(exp(x - max)) along one axis."""
    return jax.nn.softmax(x, axis=axis)


def log_softmax(x: jax.Array, *, axis: int) -> jax.Array:
    """x - max - log(sum(exp(x - max))) along one axis."""
    return jax.nn.log_softmax(x, axis=axis)


def gelu(x: jax.Array, *, approximate: bool) -> jax.Array:
    """x * Phi(x), with erf or with the tanh approximation."""
    return jax.nn.gelu(x, approximate=approximate)


def elu(x: jax.Array, *, alpha: float = 1.0) -> jax.Array:
    """As ONNX computes it: near 0 digits are lost that ``expm1`` keeps."""
    return jnp.where(x > 0, x, alpha * (jnp.exp(jnp.minimum(x, 0)) - 1))


def celu(x: jax.Array, *, alpha: float = 1.0) -> jax.Array:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)), as ONNX computes it."""
    return jnp.maximum(x, 0) + alpha * (jnp.exp(jnp.minimum(x, 0) / alpha) - 1)


def leaky_relu(x: jax.Array, slopes: jax.Array | None = None, *, slope: float = 1) -> jax.Array:
    """x, times the slope where it is negative."""
    return jnp.where(x >= 0, x, x * (slope if slopes is None else slopes))


def rotary(
    x: jax.Array, cos: jax.Array, sin: jax.Array, *, seq: int, width: int, interleaved: bool
) -> jax.Array:
    """Rotate pairs along axis ``width`` by the angles of position ``seq``; tables [S, width/2]."""
    y = jnp.moveaxis(x, (seq, width), (-2, -1))
    if interleaved:
        a, b = y[..., ::2], y[..., 1::2]
    else:
        a, b = jnp.split(y, 2, axis=-1)
    real, imag = a * cos - b * sin, a * sin + b * cos
    if interleaved:
        turned = jnp.stack([real, imag], axis=-1).reshape(y.shape)
    else:
        turned = jnp.concatenate([real, imag], axis=-1)
    return jnp.moveaxis(turned, (-2, -1), (seq, width))


def rotary_heads(
    x: jax.Array,
    cos: jax.Array,
    sin: jax.Array,
    positions: jax.Array,
    *,
    heads: int,
    interleaved: bool,
) -> jax.Array:
    """``rotary`` in ONNX's layouts: [B, heads, S, width], or [B, S, heads*width] if 3-D."""
    del positions  # row s of the tables belongs to position s
    if x.ndim == 4:
        return rotary(x, cos, sin, seq=2, width=3, interleaved=interleaved)
    split = x.reshape(*x.shape[:2], heads, -1)
    turned = rotary(jnp.moveaxis(split, 2, 1), cos, sin, seq=2, width=3, interleaved=interleaved)
    return jnp.moveaxis(turned, 1, 2).reshape(x.shape)


def attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    mask: jax.Array | None = None,
    *,
    scale: float,
    softcap: float,
    q_heads: int,
    kv_heads: int,
    precision: Any,
) -> jax.Array:
    """softmax(q k^T * scale + mask) v on [B, heads, S, width] or [B, S, heads*width] operands;
    with a ``softcap`` that is a bound of the scores before the mask."""
    flat = q.ndim == 3
    if flat:
        q, k, v = (_heads(x, n) for x, n in ((q, q_heads), (k, kv_heads), (v, kv_heads)))
    group = q_heads // kv_heads
    k, v = (jnp.repeat(x, group, axis=1) for x in (k, v))
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k, preferred_element_type=precision) * scale
    if softcap:
        scores = softcap * jnp.tanh(scores / softcap)
    if mask is not None:
        scores = scores + mask.astype(scores.dtype)
    weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    out = jnp.einsum("bhqk,bhkd->bhqd", weights, v)
    return jnp.moveaxis(out, 1, 2).reshape(*_flat_shape(out)) if flat else out


def _heads(x: jax.Array, n: int) -> jax.Array:
    return jnp.moveaxis(x.reshape(*x.shape[:2], n, -1), 2, 1)


def _flat_shape(x: jax.Array) -> tuple[int, int, int]:
    return x.shape[0], x.shape[2], x.shape[1] * x.shape[3]


SCATTERS: dict[str, Callable[..., jax.Array]] = {
    "scatter": lax.scatter,
    "scatter-add": lax.scatter_add,
    "scatter-sub": lax.scatter_sub,
    "scatter-mul": lax.scatter_mul,
    "scatter-min": lax.scatter_min,
    "scatter-max": lax.scatter_max,
}


def _scatter(
    x: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    rule: Callable[..., jax.Array],
    dimension_numbers: Any,
    mode: Any,
) -> jax.Array:
    return rule(x, indices, updates, dimension_numbers, mode=mode)


def _reshape(
    x: jax.Array, *, shape: Any = (), new_sizes: Any = (), dimensions: Any = None
) -> jax.Array:
    """Ours has ``shape``, JAX's own has ``new_sizes`` and may transpose first."""
    return lax.reshape(x, shape or new_sizes, dimensions)


def resize(
    x: jax.Array, *, axes: Sequence[int], sizes: Sequence[int], kinds: Sequence[ResizeKind]
) -> jax.Array:
    """``axes`` resampled to ``sizes``; all of the ``kinds`` say the same."""
    wanted = dict(zip(axes, sizes, strict=True))
    shape = [wanted.get(i, d) for i, d in enumerate(x.shape)]
    return jax.image.resize(x, shape, *kinds[0])


def _select(x: jax.Array, *, axis: int, index: int) -> jax.Array:
    return lax.index_in_dim(x, index, axis, keepdims=False)


def _split(x: jax.Array, *, axis: int, sizes: Sequence[int]) -> tuple[jax.Array, ...]:
    return tuple(jnp.split(x, [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)], axis))


# Operations that the converter itself writes into graphs.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "reshape": _reshape,
    "transpose": lambda x, *, permutation: lax.transpose(x, permutation),
    "broadcast_in_dim": lambda x, *, shape, broadcast_dimensions: lax.broadcast_in_dim(
        x, shape, broadcast_dimensions
    ),
    "slice": lambda x, *, start_indices, limit_indices, strides: lax.slice(
        x, start_indices, limit_indices, strides
    ),
    "concatenate": lambda *xs, dimension: lax.concatenate(xs, dimension),
    "convert_element_type": lambda x, *, new_dtype: lax.convert_element_type(x, new_dtype),
    "iota": lambda *, dtype, shape, dimension: lax.broadcasted_iota(dtype, shape, dimension),
    "neg": lambda x: lax.neg(x),
    "square": lambda x: lax.square(x),
    "exp": lambda x: lax.exp(x),
    "erfc": lambda x: lax.erfc(x),
    "factor": lambda x, *, divides: x,
    "einsum": einsum,
    "matmul": matmul,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "layer_norm": norms.layer_norm,
    "rms_norm": norms.rms_norm,
    "group_norm": norms.group_norm,
    "batch_norm": norms.batch_norm,
    "relu": lambda x: jnp.maximum(x, 0),
    "gelu": gelu,
    "clip": lambda x, *, low, high: jnp.minimum(jnp.maximum(x, low), high),
    "hard_sigmoid": lambda x, *, alpha=1 / 6, beta=0.5: jnp.clip(x * alpha + beta, 0, 1),
    "hard_swish": jax.nn.hard_swish,
    "softplus": jax.nn.softplus,
    "mish": jax.nn.mish,
    "swish": lambda x, *, alpha=1.0: x * lax.logistic(x * alpha),
    "soft_sign": jax.nn.soft_sign,
    "leaky_relu": leaky_relu,
    "elu": elu,
    "selu": lambda x: 1.0507009873554805 * elu(x, alpha=1.6732632423543772),
    "celu": celu,
    "rotary": rotary,
    "rotary_heads": rotary_heads,
    "attention": attention,
    "lstm": recurrent.lstm,
    "gru": recurrent.gru,
    "rnn": recurrent.rnn,
    "conv": conv,
    "conv_transpose": conv_transpose,
    "pad": lambda x, filler, *, padding_config: lax.pad(x, filler, padding_config),
    "rev": lambda x, *, dimensions: lax.rev(x, dimensions),
    "max_pool": partial(pool, start=-jnp.inf, combine=lax.max),
    "sum_pool": partial(pool, start=0.0, combine=lax.add),
    "avg_pool": avg_pool,
    "max_pool_scatter": max_pool_scatter,
    **{name: partial(_scatter, rule=rule) for name, rule in SCATTERS.items()},
    "argmax": lambda x, *, axes, index_dtype: lax.argmax(x, axes[0], index_dtype),
    "reduce_max": lambda x, *, axes: lax.reduce_max(x, axes),
    "reduce_and": lambda x, *, axes: jnp.all(x, axes),
    "reduce_or": lambda x, *, axes: jnp.any(x, axes),
    "top_k": lambda x, *, k, axis, total=False: tuple(lax.top_k(x, k, axis=axis)),
    "take": lambda x, i, *, axis: jnp.take(x, i, axis, mode="wrap"),
    "resize": resize,
    "select_index": _select,
    "split": _split,
}
