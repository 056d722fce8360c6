"""Convolutions in a named number of groups, as ``vmap`` makes them where each sample has its own
kernel: ONNX's number of groups is an attribute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def grouped_convolution(
    x: jax.Array,
    kernel: jax.Array,
    *,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: Any,
    feature_group_count: Any,
) -> jax.Array:
    """The sum over the elements of a window of what each is multiplied with."""
    numbers, groups = dimension_numbers, feature_group_count
    x, kernel = jnp.transpose(x, numbers.lhs_spec), jnp.transpose(kernel, numbers.rhs_spec)
    edges = zip(padding, lhs_dilation, strict=True)
    x = lax.pad(
        x, jnp.zeros((), x.dtype), [(0, 0, 0)] * 2 + [(*ends, each - 1) for ends, each in edges]
    )
    outputs, inputs, *window = kernel.shape
    space = [
        (size - (length - 1) * apart - 1) // stride + 1
        for size, length, apart, stride in zip(
            x.shape[2:], window, rhs_dilation, window_strides, strict=True
        )
    ]
    x = x.reshape(x.shape[0], groups, inputs, *x.shape[2:])
    kernel = kernel.reshape(groups, outputs // groups, inputs, *window)
    total: Any = 0
    for place in np.ndindex(*window):
        first = [int(i) * apart for i, apart in zip(place, rhs_dilation, strict=True)]
        last = [
            start + (size - 1) * stride + 1
            for start, size, stride in zip(first, space, window_strides, strict=True)
        ]
        part = lax.slice(x, (0, 0, 0, *first), (*x.shape[:3], *last), (1, 1, 1, *window_strides))
        total = total + _grouped_convolutions_product(part, kernel[(..., *place)])
    made = total.reshape(x.shape[0], outputs, *space)
    return jnp.transpose(made, [numbers.out_spec.index(axis) for axis in range(made.ndim)])


def _grouped_convolutions_product(part: jax.Array, weight: jax.Array) -> jax.Array:
    """[batch, groups, inputs, space…] with [groups, outputs, inputs]."""
    if part.shape[2] == 1:
        return part * weight[..., 0].reshape(1, *weight.shape[:2], *(1,) * (part.ndim - 3))
    return jnp.einsum("ngi...,goi->ngo...", part, weight)
