"""What the norms mean, as formulas in JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax


def layer_norm(
    x: jax.Array, scale: jax.Array, bias: jax.Array | None = None, *, axis: int, epsilon: float
) -> jax.Array:
    """(x - mean) / sqrt(var + epsilon) * scale + bias over the axes from ``axis`` on."""
    axes, wide = tuple(range(axis, x.ndim)), _wide(x)
    centred = wide - jnp.mean(wide, axes, keepdims=True)
    variance = jnp.mean(jnp.square(centred), axes, keepdims=True)
    y = (centred * lax.rsqrt(variance + epsilon)).astype(x.dtype) * scale
    return y if bias is None else y + bias


def rms_norm(x: jax.Array, scale: jax.Array, *, axis: int, epsilon: float) -> jax.Array:
    """x / sqrt(mean(x^2) + epsilon) * scale over the axes from ``axis`` on."""
    wide = _wide(x)
    square = jnp.mean(jnp.square(wide), tuple(range(axis, x.ndim)), keepdims=True)
    return (wide * lax.rsqrt(square + epsilon)).astype(x.dtype) * scale


def _wide(x: jax.Array) -> jax.Array:
    """ONNX's norms compute their statistics in float32 at least."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def group_norm(
    x: jax.Array, scale: jax.Array, bias: jax.Array | None = None, *, groups: int, epsilon: float
) -> jax.Array:
    """(x - mean) / sqrt(var + epsilon) over each of the groups of the channels of [N, C, ...].

    ``scale`` and ``bias`` are [C].
    """
    split = x.reshape(x.shape[0], groups, -1)
    ones = jnp.ones(split.shape[2], x.dtype)
    y = layer_norm(split, ones, axis=2, epsilon=epsilon).reshape(x.shape)
    return _by_channel(y, scale, bias)


def batch_norm(
    x: jax.Array,
    scale: jax.Array,
    mean: jax.Array,
    variance: jax.Array,
    bias: jax.Array | None = None,
    *,
    epsilon: float,
) -> jax.Array:
    """x * s + (bias - mean * s) where s = scale / sqrt(variance + epsilon), of [N, C, ...] with all
    others [C]; runtimes compute it in this order."""
    shape = (-1, *(1,) * (x.ndim - 2))
    s = scale * lax.rsqrt(_wide(variance) + epsilon)
    shift = -mean * s if bias is None else bias - mean * s
    return (_wide(x) * s.reshape(shape) + shift.reshape(shape)).astype(x.dtype)


def _by_channel(x: jax.Array, scale: jax.Array, bias: jax.Array | None) -> jax.Array:
    shape = (-1, *(1,) * (x.ndim - 2))
    y = x * scale.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)
