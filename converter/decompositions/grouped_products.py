"""Compute grouped convolutions, ragged and scaled products, and the high half of integer
products."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.decompositions.registered import decomposition
from converter.decompositions.window_reductions import to_pad_config, window_elements
from converter.errors import UnsupportedError


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
    """Return a convolution as a sum of products, one for each position in the window.

    It also holds for a symbolic number of groups. The arguments have the same meaning as in
    ``lax.conv_general_dilated``.
    """
    numbers, groups = dimension_numbers, feature_group_count
    x, kernel = jnp.transpose(x, numbers.lhs_spec), jnp.transpose(kernel, numbers.rhs_spec)
    x = lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0)] * 2 + to_pad_config(padding, lhs_dilation))
    outputs, inputs, *window = kernel.shape
    extent = [
        size - (length - 1) * dilation
        for size, length, dilation in zip(x.shape[2:], window, rhs_dilation, strict=True)
    ]
    x = x.reshape(x.shape[0], groups, inputs, *x.shape[2:])
    kernel = kernel.reshape(groups, outputs // groups, inputs, *window)
    total: Any = 0
    for position in np.ndindex(*window):
        start = [int(i) * dilation for i, dilation in zip(position, rhs_dilation, strict=True)]
        part = window_elements(
            x, (0, 0, 0, *start), (*x.shape[:3], *extent), (1, 1, 1, *window_strides)
        )
        total = total + _group_product(part, kernel[(..., *position)])
    result = total.reshape(x.shape[0], outputs, *total.shape[3:])
    return jnp.transpose(result, [numbers.out_spec.index(axis) for axis in range(result.ndim)])


def _group_product(part: jax.Array, weight: jax.Array) -> jax.Array:
    """Return the products [batch, groups, outputs, space…] of ``part`` [batch, groups, inputs,
    space…] with ``weight`` [groups, outputs, inputs], group by group."""
    if part.shape[2] == 1:
        return part * weight[..., 0].reshape(1, *weight.shape[:2], *(1,) * (part.ndim - 3))
    return jnp.einsum("ngi...,goi->ngo...", part, weight)


# ------------------------------------------------------------------------------------ ragged groups


@decomposition("ragged_dot_general")
def ragged_dot_general(
    lhs: jax.Array,
    rhs: jax.Array,
    group_sizes: jax.Array,
    *,
    ragged_dot_dimension_numbers: Any,
    precision: Any,
    preferred_element_type: Any,
    group_offset: Any,
) -> jax.Array:
    """Multiply groups of consecutive entries along one axis of ``lhs``, each with another matrix.

    This axis is the ragged axis. If it is not contracted, a group is multiplied by its own part of
    ``rhs``; the result is zero for entries after the last group. If it is contracted, the result
    has a new first axis with the sum of each group. If it is a batch axis, ``group_sizes`` is
    ignored.

    Arguments:
        group_sizes: the number of entries of each group.
        ragged_dot_dimension_numbers: which axes are contracted, batched, ragged and of groups, as
            in ``lax.ragged_dot_general``.

    Raises:
        UnsupportedError: there is a ``group_offset``.
    """
    if group_offset is not None:
        raise UnsupportedError(
            "primitive 'ragged_dot_general' cannot be written with a group_offset; leave out the "
            "groups before it"
        )
    numbers = ragged_dot_dimension_numbers
    (l_contract, r_contract), (l_batch, r_batch) = numbers.dot_dimension_numbers
    (ragged,) = numbers.lhs_ragged_dimensions
    options = {"precision": precision, "preferred_element_type": preferred_element_type}
    if ragged in l_batch:
        return lax.dot_general(lhs, rhs, numbers.dot_dimension_numbers, **options)
    free_axes = [i for i in range(lhs.ndim) if i not in (*l_contract, *l_batch)]
    of_groups = l_contract if ragged in l_contract else free_axes
    outer = (*l_batch, *of_groups[: of_groups.index(ragged)])
    left = _mask_groups(lhs, group_sizes, ragged, outer)
    if ragged not in l_contract:
        (groups,) = numbers.rhs_group_dimensions
        contract = ([0, *_shift_axes(l_contract)], [groups, *r_contract])
        return lax.dot_general(left, rhs, (contract, (_shift_axes(l_batch), r_batch)), **options)
    ragged_rhs = r_contract[l_contract.index(ragged)]
    before = r_contract[: r_contract.index(ragged_rhs)]
    right = _mask_groups(rhs, group_sizes, ragged_rhs, (*r_batch, *before))
    contract = (_shift_axes(l_contract), _shift_axes(r_contract))
    batch = ([0, *_shift_axes(l_batch)], [0, *_shift_axes(r_batch)])
    return lax.dot_general(left, right, (contract, batch), **options)


def _shift_axes(axes: Sequence[int]) -> list[int]:
    """Return the numbers of the axes after an axis is inserted before all of them."""
    return [axis + 1 for axis in axes]


def _mask_groups(x: jax.Array, sizes: jax.Array, axis: int, outer: Sequence[int]) -> jax.Array:
    """Return ``x`` once for each group, with zeros outside of the group: [groups, *x.shape].

    Arguments:
        sizes: the number of consecutive entries of each group along ``axis``, as [groups], or as
            [*outer, groups] if the numbers differ along other axes.
        axis: the axis that the groups divide.
        outer: the axes of ``x`` along which the numbers may differ.
    """
    ends = jnp.cumsum(sizes, -1)
    position = lax.broadcasted_iota(sizes.dtype, (*sizes.shape, x.shape[axis]), sizes.ndim)
    is_member = ((ends - sizes)[..., None] <= position) & (position < ends[..., None])
    is_member = jnp.moveaxis(is_member, -2, 0)
    axes = [*(outer if sizes.ndim > 1 else ()), axis]
    transposed = is_member.transpose(
        0, *(1 + i for i in sorted(range(len(axes)), key=axes.__getitem__))
    )
    shape = [x.shape[i] if i in axes else 1 for i in range(x.ndim)]
    return jnp.where(transposed.reshape(-1, *shape), x, jnp.zeros((), x.dtype))


# ----------------------------------------------------------------------------------- scaled blocks


@decomposition("scaled_dot")
def scaled_dot(
    lhs: jax.Array,
    rhs: jax.Array,
    lhs_scale: jax.Array,
    rhs_scale: jax.Array,
    *,
    dimension_numbers: Any,
    preferred_element_type: Any,
) -> jax.Array:
    """Multiply two arrays by ``lax.dot_general``, after each block of an array is multiplied by its
    scale.

    A scale array has the axes of its operand. Along each axis its size divides that of the operand.
    The products are computed in bfloat16, as in JAX.
    """
    x, y = _apply_scales(lhs, lhs_scale, jnp.bfloat16), _apply_scales(rhs, rhs_scale, jnp.bfloat16)
    return lax.dot_general(x, y, dimension_numbers, preferred_element_type=preferred_element_type)


@decomposition("scaled_matmul", "scaled_matmul_wrapper")
def scaled_matmul(
    a: jax.Array,
    b: jax.Array,
    a_scale: jax.Array,
    b_scale: jax.Array,
    *,
    preferred_element_type: Any,
) -> tuple[jax.Array]:
    """Multiply [batch, m, k] with [batch, n, k] to [batch, m, n], and return a tuple of this
    result.

    Each block along k is first multiplied by its scale (`_apply_scales`). The products are computed
    in float32, and converted to ``preferred_element_type``.
    """
    x, y = _apply_scales(a, a_scale, jnp.float32), _apply_scales(b, b_scale, jnp.float32)
    return (jnp.einsum("bmk,bnk->bmn", x, y).astype(preferred_element_type),)


def _apply_scales(x: jax.Array, scale: jax.Array, dtype: Any) -> jax.Array:
    """Return ``x`` in this dtype, with each element multiplied by the scale of its block.

    ``scale`` has the axes of ``x``. Along each axis a scale is repeated to the size of ``x``.
    """
    x, scale = x.astype(dtype), scale.astype(dtype)
    for axis, size in enumerate(x.shape):
        scale = jnp.repeat(scale, size // scale.shape[axis], axis)
    return x * scale


# ------------------------------------------------------------------------------------ the high half


@decomposition("mulhi")
def mulhi(x: jax.Array, y: jax.Array) -> jax.Array:
    """Return the upper half of the bits of the product of two integers of the same dtype.

    It is computed from products of the halves of both. For signed integers a correction is
    subtracted.
    """
    bits = 8 * x.dtype.itemsize
    unsigned = jnp.dtype(f"uint{bits}")
    a, b = x.astype(unsigned), y.astype(unsigned)
    half = jnp.asarray(bits // 2, unsigned)
    mask = jnp.asarray((1 << bits // 2) - 1, unsigned)
    (a_low, a_high), (b_low, b_high) = ((v & mask, v >> half) for v in (a, b))
    middle = a_high * b_low + (a_low * b_low >> half)
    carried = (middle & mask) + a_low * b_high
    high = (a_high * b_high + (middle >> half) + (carried >> half)).astype(x.dtype)
    if jnp.issubdtype(x.dtype, jnp.unsignedinteger):
        return high
    return high - jnp.where(x < 0, y, 0) - jnp.where(y < 0, x, 0)
