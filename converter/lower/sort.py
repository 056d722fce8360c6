"""Sorting, all of it by ``TopK``, which puts the first of equals first: it is stable."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from converter.graph import Value
from converter.lower.build import Builder
from converter.lower.registry import rule, unsupported


@rule("sort")
def _(b: Builder, *xs: ir.Value, dimension: int, num_keys: int, is_stable: bool) -> list[ir.Value]:
    """Stable passes from the last key to the first; then every operand is gathered once."""
    size = b.dim(b.out.shape[dimension])
    order: ir.Value | None = None
    for i in reversed(range(num_keys)):
        key = _key(b, xs[i], b.operand(i))
        key = key if order is None else b.op("GatherElements", key, order, axis=dimension)
        values, step = b.ops("TopK", [key, size], 2, axis=dimension, largest=0)
        if len(xs) == 1 and key is xs[0]:
            return [values]
        order = step if order is None else b.op("GatherElements", order, step, axis=dimension)
    return [b.op("GatherElements", x, order, axis=dimension) for x in xs]


def _key(b: Builder, x: ir.Value, value: Value) -> ir.Value:
    """What sorts as JAX sorts, in a dtype that ``TopK`` has.

    JAX puts NaN last. In float64 there is room above the infinity of narrower floats.
    """
    match value.dtype.kind, value.dtype.itemsize:
        case "f", 8:
            return b.op("Where", b.op("IsNaN", x), b.const(math.inf, np.float64), x)
        case (("f" | "V"), _):
            wide = b.cast(x, np.float64)
            inner = b.op("Clip", wide, *(b.const(v, np.float64) for v in (-1e300, 1e300)))
            return b.op("Where", b.op("IsNaN", x), b.const(math.inf, np.float64), inner)
        case "u", 8:
            raise unsupported(b.node, b.opset, "uint64 keys cannot be sorted")
        case "i", (4 | 8):
            return x
        case _:
            return b.cast(x, np.int64)


@rule("top_k")
def _(b: Builder, x: ir.Value, *, k: int, axis: int = -1, **_: Any) -> list[ir.Value]:
    axis = axis if axis >= 0 else axis + b.operand().rank
    return _top(b, x, k, axis)


@rule("approx_top_k")
def _(
    b: Builder, x: ir.Value, *, k: int, reduction_dimension: int, is_max_k: bool, **_: Any
) -> list[ir.Value]:
    return _top(b, x, k, reduction_dimension, is_max_k)


def _top(b: Builder, x: ir.Value, k: Any, axis: int, largest: bool = True) -> list[ir.Value]:
    values, places = b.ops("TopK", [x, b.dim(k)], 2, axis=axis, largest=None if largest else 0)
    return [values, b.cast(places, b.node.outputs[1].dtype)]
