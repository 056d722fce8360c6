"""Sum the terms of a node one after the other, as ONNX Runtime sums along any axis but the last.

The functions take ``xp``, the module that computes: ``numpy`` or ``jax.numpy``.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.ir import Node, ops

MIN_DOT_TERMS, MAX_DOT_TERMS = 1024, 1 << 22
"""A matrix product with at least ``MIN_DOT_TERMS`` terms in each sum and at most ``MAX_DOT_TERMS``
terms in total is also summed sequentially. Shorter sums lose less than their perturbations."""


def sum_terms(xp: Any, node: Node, args: Sequence[Any], total: Any) -> Any | None:
    """Return the terms that a sum, cumulative sum or matrix product adds, as an array [terms,
    *others].

    None for other nodes, and for products that ``_product_terms`` excludes. ``args`` are the
    operands, ``total`` is the result.
    """
    x, params = args[0], node.params
    if node.op is ops.cumsum:
        return _reverse_if_needed(node, xp.moveaxis(x, params["axis"], 0))
    if node.op is ops.reduce_sum:
        return _move_contracted_axes_first(xp, x, params["axes"], ())
    return _product_terms(xp, node, args, total) if node.op is ops.dot_general else None


def sum_sequentially(xp: Any, node: Node, terms: Any) -> Any:
    """Return the sum of the terms, added one after the other along the first axis.

    For a ``cumsum`` node, return all partial sums on the axes of its result.
    """
    if node.op is ops.cumsum:
        sums = _reverse_if_needed(node, _cumulative_sums(xp, terms))
        return xp.moveaxis(sums, 0, node.params["axis"])
    zeros = xp.zeros((1, *terms.shape[1:]), terms.dtype)
    return _cumulative_sums(xp, xp.concatenate([zeros, terms]))[-1]


def _reverse_if_needed(node: Node, terms: Any) -> Any:
    """Return the terms in the order in which a ``cumsum`` node adds them."""
    return terms[::-1] if node.params["reverse"] else terms


def _product_terms(xp: Any, node: Node, args: Sequence[Any], total: Any) -> Any | None:
    """Return the terms of a matrix product as an array [terms, *result axes].

    None for half precision, which is accumulated in float32. None also for sums of fewer than
    ``MIN_DOT_TERMS`` terms, and for more than ``MAX_DOT_TERMS`` terms in total.
    """
    operands, (contracted, batch) = args, node.params["dimension_numbers"]
    count = math.prod(args[0].shape[axis] for axis in contracted[0])
    # Sums in half precision are accumulated in float32.
    is_half_precision = total.dtype.itemsize < 4
    if is_half_precision or count < MIN_DOT_TERMS or count * total.size > MAX_DOT_TERMS:
        return None
    x, y = (
        _move_contracted_axes_first(xp, *operand)
        for operand in zip(operands, contracted, batch, strict=True)
    )
    shared_axes = len(batch[0]) + 1
    x = x.reshape(*x.shape, *(1,) * (y.ndim - shared_axes))
    y = y.reshape(*y.shape[:shared_axes], *(1,) * (total.ndim + 1 - y.ndim), *y.shape[shared_axes:])
    return x.astype(total.dtype) * y.astype(total.dtype)


def _move_contracted_axes_first(
    xp: Any, x: Any, contracted_axes: Sequence[int], batch_axes: Sequence[int]
) -> Any:
    """Return the operand of a contraction as an array [terms, *batch, *others].

    The axes ``contracted_axes`` are merged into the first one, and the axes ``batch_axes``
    follow.
    """
    other_axes = [i for i in range(x.ndim) if i not in (*contracted_axes, *batch_axes)]
    shape = [
        math.prod(x.shape[i] for i in contracted_axes),
        *(x.shape[i] for i in (*batch_axes, *other_axes)),
    ]
    return xp.transpose(x, [*contracted_axes, *batch_axes, *other_axes]).reshape(shape)


def _cumulative_sums(xp: Any, terms: Any) -> Any:
    """Return the partial sums along the first axis, added one after the other."""
    if xp is np:
        return np.add.accumulate(terms, 0)
    zeros = jnp.zeros(terms.shape[1:], terms.dtype)
    _, sums = lax.scan(lambda total, row: (total + row,) * 2, zeros, terms)
    return sums
