"""Sorting, all of it by ``TopK``, which puts the first of equals first: it is stable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from converter.ir import Value, ops
from converter.ir.dtypes import is_float
from converter.lower.builder import Builder
from converter.lower.lowerings import lowers, unsupported


@lowers(ops.sort)
def _(b: Builder, *xs: ir.Value, dimension: int, num_keys: int) -> list[ir.Value]:
    """Stable passes from the last key to the first; then every operand is gathered once."""
    size = b.dim(b.out.shape[dimension])
    keys = [k for i in range(num_keys) for k in _keys(b, xs[i], b.operand(i))]
    if len(xs) == 1 and keys == [xs[0]]:
        return [b.ops("TopK", [xs[0], size], 2, axis=dimension, largest=0)[0]]
    order = _sort_order(b, keys, size, size, dimension, largest=False)
    return [b.op("GatherElements", x, order, axis=dimension) for x in xs]


def _sort_order(
    b: Builder, keys: Sequence[ir.Value], size: ir.Value, k: ir.Value, axis: int, largest: bool
) -> ir.Value:
    """Where the first ``k`` by all keys are: a pass for each, from the last to the first."""
    first, *others = keys
    order: ir.Value | None = None
    for key, count in (*((o, size) for o in reversed(others)), (first, k)):
        key = key if order is None else b.op("GatherElements", key, order, axis=axis)
        step = b.ops("TopK", [key, count], 2, axis=axis, largest=None if largest else 0)[1]
        order = step if order is None else b.op("GatherElements", order, step, axis=axis)
    assert order is not None
    return order


def _keys(b: Builder, x: ir.Value, value: Value) -> list[ir.Value]:
    """What sorts as JAX sorts, in dtypes that ``TopK`` has, the most important first.

    JAX puts NaN last. In float64 there is room above the infinity of narrower floats.
    """
    if value.dtype == np.float64:
        nan = b.op("IsNaN", x)
        return [b.op("Where", nan, b.const(math.inf, np.float64), x), b.cast(nan, np.int64)]
    if is_float(value.dtype):
        wide = b.cast(x, np.float64)
        inner = b.op("Clip", wide, *(b.const(v, np.float64) for v in (-1e300, 1e300)))
        return [b.op("Where", b.op("IsNaN", x), b.const(math.inf, np.float64), inner)]
    if value.dtype == np.uint64:  # 2**63 becomes 0, so that the order stays
        return [b.op("Add", b.cast(x, np.int64), b.const(np.iinfo(np.int64).min, np.int64))]
    return [x if value.dtype in (np.int32, np.int64) else b.cast(x, np.int64)]


@lowers(ops.top_k)
def _(b: Builder, x: ir.Value, *, k: int, axis: int = -1, total: bool = False) -> list[ir.Value]:
    """``total`` asks for JAX's order of all floats: NaN above the others, -0.0 below 0.0."""
    axis = axis % b.operand().rank
    if not total:
        return _top(b, x, k, axis)
    zero, size = b.op("Equal", x, b.like(0)), b.dim(b.operand().shape[axis])
    sign = b.op("Where", zero, b.op("Sign", b.op("Reciprocal", x)), b.like(0))
    keys = [*_keys(b, x, b.operand()), sign]
    places = _sort_order(b, keys, size, b.dim(k), axis, largest=True)
    values = b.op("GatherElements", x, places, axis=axis)
    return [values, b.cast(places, b.node.outputs[1].dtype)]


@lowers(ops.top_k, since=26)
def _(b: Builder, x: ir.Value, *, k: int, axis: int = -1, total: bool = False) -> list[ir.Value]:
    """With ``total``, by the bits, which order all floats once those below zero are turned."""
    axis = axis % b.operand().rank
    if not total:
        return _top(b, x, k, axis)
    kind = np.dtype(f"int{jnp.finfo(b.operand().dtype).bits}")
    wide = max(kind, np.dtype(np.int32))  # Where has no kernel for int16
    bits = b.op("BitCast", x, to=ir.DataType.from_numpy(kind))
    bits = bits if kind == wide else b.cast(bits, wide)
    turned = b.op("BitwiseXor", bits, b.const(np.iinfo(kind).max, wide))
    key = b.op("Where", b.op("Less", bits, b.const(0, wide)), turned, bits)
    places = b.ops("TopK", [key, b.dim(k)], 2, axis=axis)[1]
    values = b.op("GatherElements", x, places, axis=axis)
    return [values, b.cast(places, b.node.outputs[1].dtype)]


@lowers(ops.approx_top_k)
def _(
    b: Builder,
    x: ir.Value,
    *,
    k: int,
    reduction_dimension: int,
    is_max_k: bool,
    aggregate_to_topk: bool,
) -> list[ir.Value]:
    if not aggregate_to_topk:
        raise unsupported(b.node, b.opset, "only the aggregated top k are defined by their values")
    return _top(b, x, k, reduction_dimension, is_max_k)


def _top(b: Builder, x: ir.Value, k: Any, axis: int, largest: bool = True) -> list[ir.Value]:
    values, places = b.ops("TopK", [x, b.dim(k)], 2, axis=axis, largest=None if largest else 0)
    return [values, b.cast(places, b.node.outputs[1].dtype)]
