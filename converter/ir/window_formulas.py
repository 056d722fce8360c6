"""What moves a window over space, as formulas in JAX: convolutions and pooling in ONNX's layout."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def conv(
    x: jax.Array,
    w: jax.Array,
    bias: jax.Array | None = None,
    *,
    strides: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    spread: Any = None,
) -> jax.Array:
    """[batch, channels, space…] convolved with [out, in / groups, space…], plus a bias [out]."""
    y = lax.conv_general_dilated(
        x,
        w,
        strides,
        padding,
        lhs_dilation=spread,
        rhs_dilation=dilation,
        feature_group_count=groups,
    )
    return y if bias is None else y + bias.reshape(-1, *(1 for _ in strides))


def conv_transpose(
    x: jax.Array,
    w: jax.Array,
    bias: jax.Array | None = None,
    *,
    strides: Any,
    cuts: Any,
    dilation: Any,
    groups: int,
) -> jax.Array:
    """ONNX's ``ConvTranspose``: kernel [in, out / groups, space…], ``cuts`` off each end."""
    ins, outs, *space = w.shape
    kernel = jnp.swapaxes(w.reshape(groups, ins // groups, outs, *space), 1, 2)
    kernel = jnp.flip(kernel, range(3, kernel.ndim)).reshape(groups * outs, ins // groups, *space)
    whole = [(n - 1) * d for n, d in zip(space, dilation, strict=True)]
    padding = [(n - low, n - high) for n, (low, high) in zip(whole, cuts, strict=True)]
    return conv(
        x,
        kernel,
        bias,
        strides=[1] * len(space),
        padding=padding,
        dilation=dilation,
        groups=groups,
        spread=strides,
    )


def pool(
    x: jax.Array,
    *,
    size: Any,
    strides: Any,
    padding: Any,
    dilation: Any,
    start: float,
    combine: Any,
) -> jax.Array:
    """Windows over the spatial axes of [batch, channels, space…]."""
    none = ((0, 0), (0, 0))
    return lax.reduce_window(
        x,
        jnp.asarray(start, x.dtype),
        combine,
        (1, 1, *size),
        (1, 1, *strides),
        (*none, *padding),
        window_dilation=(1, 1, *dilation),
    )


def avg_pool(x: jax.Array, *, include_pad: bool, **window: Any) -> jax.Array:
    """Means of windows; without ``include_pad`` of those elements that are not padding."""
    total = pool(x, start=0.0, combine=lax.add, **window)
    if include_pad:
        return total / math.prod(window["size"])
    return total / pool(jnp.ones_like(x), start=0.0, combine=lax.add, **window)


def max_pool_scatter(x: jax.Array, source: jax.Array, **window: Any) -> jax.Array:
    """``source`` added where each window of ``x`` has its maximum: the gradient of max pooling."""
    _, pull = jax.vjp(partial(pool, start=-jnp.inf, combine=lax.max, **window), x)
    return pull(source)[0]
