"""Lower reductions, cumulative operations, sorting and top-k.

``axes`` became an input of most reductions in opset 18. ONNX does not define the result of
``ReduceMax``, ``ReduceMin``, ``ArgMax`` and ``ArgMin`` for NaN. ONNX Runtime ignores NaN, whereas
JAX returns NaN. The ONNX operators are used nevertheless. ``TopK`` is stable: if elements are
equal, the one with the lower index comes first.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx_ir as ir

from converter.ir import Graph, Value, dims, ops
from converter.ir.dtypes import highest, is_float, lowest
from converter.ir.op import Op
from converter.lower.builder import Builder
from converter.lower.elementwise import Term
from converter.lower.lowerings import lowers, unsupported
from converter.lower.special import log1p_formula
from converter.targets.schemas import SINCE, operator_name

Axes = tuple[int, ...]


@lowers(ops.reduce_max, ops.reduce_min, ops.reduce_prod)
def _(b: Builder, x: ir.Value, *, axes: Axes) -> ir.Value:
    """Lower a reduction along ``axes``. If there are no axes, nothing is reduced, whereas the ONNX
    operator would reduce all axes."""
    if not axes:
        return x
    return b.op(operator_name(b.node.op), x, axes=list(axes), keepdims=0)


@lowers(ops.reduce_max, ops.reduce_min, ops.reduce_prod, since=18)
@lowers(ops.reduce_sum)
def _(b: Builder, x: ir.Value, *, axes: Axes) -> ir.Value:
    """Lower a reduction whose axes are an operand of the ONNX operator."""
    if not axes:
        return x
    return b.op(operator_name(b.node.op), x, b.ints(axes), keepdims=0)


@lowers(ops.reduce_or, ops.reduce_and, ops.reduce_xor)
def _(b: Builder, x: ir.Value, *, axes: Axes) -> ir.Value:
    """Lower a Boolean reduction to the minimum (and) or maximum (or) of numbers, or to the parity
    of their sum (xor).

    **Raises** `UnsupportedError` for integers.
    """
    if b.out.dtype != np.bool_:
        raise unsupported(b.node, b.opset, "ONNX reduces bits of booleans only")
    if not axes:
        return x
    if b.node.op is ops.reduce_xor:
        count = b.op("ReduceSum", b.cast(x, np.int32), b.ints(axes), keepdims=0)
        return b.cast(b.op("Mod", count, b.const(2, np.int32)), np.bool_)
    name = "ReduceMin" if b.node.op is ops.reduce_and else "ReduceMax"
    numbers = b.cast(x, np.uint8 if b.has_operator(name, np.uint8) else np.int32)
    if b.opset < 18:
        return b.cast(b.op(name, numbers, axes=list(axes), keepdims=0), np.bool_)
    return b.cast(b.op(name, numbers, b.ints(axes), keepdims=0), np.bool_)


def _extreme_position(
    b: Builder, x: ir.Value, *, axes: Axes, index_dtype: Any, name: str
) -> ir.Value:
    """Return the position of the first maximum or minimum along the only axis in ``axes``.

    ``name`` is ``ArgMax`` or ``ArgMin``.
    """
    return b.cast(b.op(name, x, axis=axes[0], keepdims=0), index_dtype)


def uncast_position(indices: ir.Value) -> ir.Value:
    """Return the result of ``ArgMax`` or ``ArgMin`` before its cast to JAX's dtype.

    Any other value is returned unchanged.
    """
    cast = indices.producer()
    position = cast.inputs[0] if cast is not None and cast.op_type == "Cast" else None
    producer = None if position is None else position.producer()
    if position is None or producer is None or producer.op_type not in ("ArgMax", "ArgMin"):
        return indices
    return position


lowers(ops.argmax)(partial(_extreme_position, name="ArgMax"))
lowers(ops.argmin)(partial(_extreme_position, name="ArgMin"))

Combine = Callable[[Term, Term], Term]


def _cumulative_operator(
    b: Builder, x: ir.Value, *, axis: int, reverse: bool, name: str
) -> ir.Value:
    """Lower a cumulative operation to the ONNX operator ``name``."""
    return b.op(name, x, b.const(axis, np.int64), reverse=1 if reverse else None)


def _scan_by_doubling(b: Builder, x: ir.Value, *, axis: int, reverse: bool) -> ir.Value:
    """Lower a cumulative operation by doubling (Hillis and Steele).

    Element i is combined with element i-1, then with i-2, i-4 and so on, or with i+1, i+2, i+4 and
    so on with ``reverse``. A loop does this if the size of the axis is symbolic.

    **Raises** `UnsupportedError` for a cumulative log-sum-exp of integers.
    """
    if b.node.op is ops.cumlogsumexp and not is_float(b.out.dtype):
        raise unsupported(b.node, b.opset, "logarithms of sums are floats; convert the operand")
    get_neutral, combine = COMBINATIONS[b.node.op]
    neutral, size = get_neutral(b.out.dtype), b.out.shape[axis]
    # The elements are shifted along the axis. A negative pad removes the elements at the other end.
    pads = np.zeros((2, b.out.rank), np.int64)
    pads[:, axis] = (-1, 1) if reverse else (1, -1)
    if not dims.is_static(size):
        return _loop_by_doubling(b, x, size, pads.ravel(), neutral, combine)
    step = 1
    while step < size:
        shifted = b.op("Pad", x, b.ints(step * pads.ravel()), b.like(neutral))
        x = combine(Term(b, x), Term(b, shifted)).value
        step *= 2
    return x


def _loop_by_doubling(
    b: Builder, x: ir.Value, size: dims.Dim, pads: np.ndarray, neutral: float, combine: Combine
) -> ir.Value:
    """Emit the loop of `_scan_by_doubling`: combine elements at distances 1, 2, 4 … below ``size``.

    ``size`` is the size of the axis. ``pads`` is the operand of ``Pad`` that shifts the elements by
    one; it is multiplied by the distance. ``neutral`` fills the gap.
    """
    types = (("round", (), np.int64), ("go", (), np.bool_), ("step", (1,), np.int64))
    inner, inputs = b.subgraph("loop", Graph([], [], []), (*types, ("x", b.out.shape, b.out.dtype)))
    inner.node = b.node
    step, before = inputs[2:]
    shifted = inner.op("Pad", before, inner.op("Mul", step, b.ints(pads)), b.like(neutral))
    after = combine(Term(inner, before), Term(inner, shifted)).value
    next_step = inner.op("Add", step, step)
    next_condition = inner.squeeze(inner.op("Less", next_step, b.ints([size])), [0])
    body = inner.to_graph("loop", inputs, [next_condition, next_step, after])
    first = b.ints([1])
    condition = b.squeeze(b.op("Less", first, b.ints([size])), [0])
    return b.ops("Loop", [None, condition, first, x], 2, body=body)[1]


def _logaddexp(x: Term, y: Term) -> Term:
    """Return log(exp(x) + exp(y)) without overflow."""
    top = x.apply("Max", y)
    gap = abs(top).equals(math.inf).where(-math.inf, x.apply("Min", y) - top)
    return top + log1p_formula(gap.apply("Exp"))


COMBINATIONS: dict[Op, tuple[Callable[[np.dtype], float], Combine]] = {
    ops.cumlogsumexp: (lambda _: -math.inf, _logaddexp),
    ops.cummax: (lowest, lambda p, q: p.apply("Max", q)),
    ops.cummin: (highest, lambda p, q: p.apply("Min", q)),
    ops.cumprod: (lambda _: 1, lambda p, q: p * q),
}
"""The neutral element of each operation by dtype, and the function that combines two elements."""

lowers(ops.cumsum)(partial(_cumulative_operator, name="CumSum"))
lowers(*COMBINATIONS)(_scan_by_doubling)
lowers(ops.cumprod, since=SINCE["CumProd"])(partial(_cumulative_operator, name="CumProd"))


@lowers(ops.sort)
def _(b: Builder, *xs: ir.Value, dimension: int, num_keys: int) -> list[ir.Value]:
    """Lower a sort: stable passes from the last key to the first, then one gather of every operand.

    The first ``num_keys`` operands are the keys.
    """
    size = b.ints([b.out.shape[dimension]])
    keys = [k for i in range(num_keys) for k in _sort_keys(b, xs[i], b.operand(i))]
    if len(xs) == 1 and keys == [xs[0]]:
        return [_emit_top_k(b, xs[0], size, dimension, largest=False)[0]]
    order = _sort_order(b, keys, size, size, dimension, largest=False)
    return [b.op("GatherElements", x, order, axis=dimension) for x in xs]


def _sort_order(
    b: Builder, keys: Sequence[ir.Value], size: ir.Value, k: ir.Value, axis: int, largest: bool
) -> ir.Value:
    """Return the positions of the first ``k`` elements along an axis, sorted by several keys.

    The first key is the most important one. The order is ascending, or descending with ``largest``.
    Elements with equal keys keep their order. They are sorted in stable passes from the last key to
    the first.

    **Arguments**

    - `size`: the length of the axis, int64 [1].
    - `k`: the number of positions, int64 [1].
    """
    first, *other_keys = keys
    order: ir.Value | None = None
    for key, count in (*((o, size) for o in reversed(other_keys)), (first, k)):
        key = key if order is None else b.op("GatherElements", key, order, axis=axis)
        step = _emit_top_k(b, key, count, axis, largest)[1]
        order = step if order is None else b.op("GatherElements", order, step, axis=axis)
    assert order is not None
    return order


def _sort_keys(b: Builder, x: ir.Value, value: Value) -> list[ir.Value]:
    """Return keys that sort an operand like JAX, the most important first, in dtypes that ``TopK``
    supports.

    ``x`` is the operand, and ``value`` has its dtype. In JAX's order NaN is the last number. A
    float64 operand gets two keys: itself with infinity in place of NaN, and whether it is NaN.
    Other operands get one key. Narrower floats are sorted in float64, where infinities are replaced
    by finite numbers and NaN by infinity. Integers are sorted in int32 or int64; uint64 is shifted
    into the range of int64.
    """
    if value.dtype == np.float64:
        nan = b.op("IsNaN", x)
        return [b.op("Where", nan, b.const(math.inf, np.float64), x), b.cast(nan, np.int64)]
    if is_float(value.dtype):
        numbers = b.cast(x, np.float64)
        inner = b.op("Clip", numbers, *(b.const(v, np.float64) for v in (-1e300, 1e300)))
        return [b.op("Where", b.op("IsNaN", x), b.const(math.inf, np.float64), inner)]
    if value.dtype == np.uint64:
        # The order stays the same: 0 becomes the lowest int64, and 2**63 becomes 0.
        return [b.op("Add", b.cast(x, np.int64), b.const(np.iinfo(np.int64).min, np.int64))]
    return [x if value.dtype in (np.int32, np.int64) else b.cast(x, np.int64)]


@lowers(ops.top_k)
def _(b: Builder, x: ir.Value, *, k: int, axis: int = -1, total: bool = False) -> list[ir.Value]:
    """Lower top-k. With ``total``, elements are in JAX's total order: NaN above all others, -0.0
    below 0.0."""
    axis = axis % b.operand().rank
    if not total:
        return _to_outputs(b, *_emit_top_k(b, x, b.ints([k]), axis))
    zero, size = b.op("Equal", x, b.like(0)), b.ints([b.operand().shape[axis]])
    sign = b.op("Where", zero, b.op("Sign", b.op("Reciprocal", x)), b.like(0))
    keys = [*_sort_keys(b, x, b.operand()), sign]
    positions = _sort_order(b, keys, size, b.ints([k]), axis, largest=True)
    return _to_outputs(b, b.op("GatherElements", x, positions, axis=axis), positions)


@lowers(ops.top_k, since=26)
def _(b: Builder, x: ir.Value, *, k: int, axis: int = -1, total: bool = False) -> list[ir.Value]:
    """Lower top-k. With ``total``, elements are sorted by their bits, as signed integers.

    These have the order of the floats once the bits of negative numbers are inverted.
    """
    axis = axis % b.operand().rank
    if not total:
        return _to_outputs(b, *_emit_top_k(b, x, b.ints([k]), axis))
    kind = np.dtype(f"int{jnp.finfo(b.operand().dtype).bits}")
    # ONNX Runtime has no kernel of Where for int16.
    key_dtype = max(kind, np.dtype(np.int32))
    bits = b.op("BitCast", x, to=ir.DataType.from_numpy(kind))
    bits = bits if kind == key_dtype else b.cast(bits, key_dtype)
    reversed_bits = b.op("BitwiseXor", bits, b.const(np.iinfo(kind).max, key_dtype))
    key = b.op("Where", b.op("Less", bits, b.const(0, key_dtype)), reversed_bits, bits)
    positions = _emit_top_k(b, key, b.ints([k]), axis)[1]
    return _to_outputs(b, b.op("GatherElements", x, positions, axis=axis), positions)


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
    """Lower an approximate top-k to an exact one.

    **Raises** `UnsupportedError` unless ``aggregate_to_topk`` is set.
    """
    if not aggregate_to_topk:
        raise unsupported(b.node, b.opset, "only the aggregated top k are defined by their values")
    return _to_outputs(b, *_emit_top_k(b, x, b.ints([k]), reduction_dimension, is_max_k))


def _emit_top_k(
    b: Builder, x: ir.Value, k: ir.Value, axis: int, largest: bool = True
) -> Sequence[ir.Value]:
    """Emit ``TopK`` and return the ``k`` largest or smallest values and their positions."""
    return b.ops("TopK", [x, k], 2, axis=axis, largest=None if largest else 0)


def _to_outputs(b: Builder, values: ir.Value, positions: ir.Value) -> list[ir.Value]:
    """Return the values, and the positions cast to the dtype of the second output."""
    return [values, b.cast(positions, b.node.outputs[1].dtype)]
