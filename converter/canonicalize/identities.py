"""Remove arithmetic without an effect, and use the shorter form of equivalent operations."""

import math
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from converter.canonicalize.emptiness import (
    fold_empty_reduction,
    fold_empty_scatter,
    skip_empty_update,
)
from converter.canonicalize.slicing import match_interleaving
from converter.canonicalize.updates import join_updates
from converter.ir import Node, Value, const, dims, ops
from converter.ir.dtypes import is_float
from converter.ir.op import Op
from converter.ir.origins import source_behind
from converter.ir.ranges import known_range
from converter.ir.rewrite import Editor, Rule
from converter.ir.scalars import BROADCAST_OPS, scalar

NEUTRAL_NUMBERS: dict[Op, float] = {
    ops.max: -math.inf,
    ops.min: math.inf,
    ops.add: 0,
    ops.sub: 0,
    ops.mul: 1,
    ops.div: 1,
}


def _drop_neutral(node: Node, _: Editor) -> Value | None:
    """Return x for ``x op number`` if the number is neutral, such as ``x + 0`` or ``x / 1``.

    Return None for other numbers, or if x does not have the shape of the result.
    """
    return _drop_number(node, NEUTRAL_NUMBERS[node.op])


def _drop_number(node: Node, number: float) -> Value | None:
    """Return x for ``x op number``, and also for ``number op x`` if the operation commutes.

    Return None for another number, or if x does not have the shape of the result.
    """
    for side in (0, 1) if node.op.commutes else (1,):
        other = node.inputs[1 - side]
        if scalar(node.inputs[side]) == number and dims.is_same_shape(other.shape, node.out.shape):
            return other
    return None


def _mul(node: Node, editor: Editor) -> Value | None:
    """Return ``square(x)`` for ``x * x``, and x for ``x * 1``. Otherwise return None."""
    if node.inputs[0] is node.inputs[1]:
        return editor.add(ops.square, node.inputs[:1], node.out.shape, node.out.dtype)
    return _drop_neutral(node, editor)


def _logical(node: Node, editor: Editor) -> Value | None:
    """Fold ``and`` or ``or`` of Booleans with a constant operand.

    Return a constant for ``x & False`` and ``x | True``, and x for ``x & True`` and ``x | False``.
    Return None for other operands and for integers.
    """
    if node.out.dtype != np.bool_:
        return None
    absorbs = node.op is ops.or_
    if any(scalar(v) == absorbs for v in node.inputs):
        return editor.broadcast(const(absorbs, np.bool_), node.out.shape, ())
    return _drop_number(node, not absorbs)


def _integer_pow(node: Node, editor: Editor) -> Value | None:
    """Return x for ``x ** 1`` and ``square(x)`` for ``x ** 2``. Otherwise return None."""
    if node.params["y"] == 1:
        return node.inputs[0]
    if node.params["y"] == 2:
        return editor.add(ops.square, node.inputs, node.out.shape, node.out.dtype)
    return None


def _pow(node: Node, editor: Editor) -> Value | None:
    """Return ``x * sqrt(x)`` for ``x ** 1.5``, otherwise None.

    x must be known not to be negative and have the shape of the result. The operator ``Pow`` of
    ONNX takes as long as twenty products.
    """
    x, exponent = node.inputs
    if not dims.is_same_shape(x.shape, node.out.shape):
        return None
    if scalar(exponent) != 1.5 or known_range(x, MAX_RANGE_DEPTH).low < 0:
        return None
    return editor.binary(ops.mul, x, editor.add(ops.sqrt, [x], x.shape, x.dtype))


MAX_RANGE_DEPTH = 5
"""Number of operations through which ranges are computed for a comparison. A graph may have
thousands of comparisons."""

_MIRRORED = {ops.gt: ops.lt, ops.ge: ops.le}


def _fold_order_comparison(node: Node, editor: Editor) -> Value | None:
    """Replace a comparison with a number (``<``, ``<=``, ``>`` or ``>=``) by its result if it is
    known.

    It is known if the ranges of both operands decide it. For example, named dimensions are known to
    be positive. Some programs compare a mean with zero before a division. A comparison that is true
    is not replaced if an operand may be NaN. Return None if the comparison is not replaced.
    """
    if not any(scalar(v) is not None for v in node.inputs):
        return None
    op = _MIRRORED.get(node.op, node.op)
    operands = node.inputs if op is node.op else node.inputs[::-1]
    low, high = (known_range(v, MAX_RANGE_DEPTH) for v in operands)
    strict = op is ops.lt
    holds = high.low > low.high or (not strict and high.low == low.high)
    fails = high.high < low.low or (strict and high.high == low.low)
    if fails or (holds and not (low.nan or high.nan)):
        return editor.broadcast(const(not fails, np.bool_), node.out.shape, ())
    return None


def _fold_equality(node: Node, editor: Editor) -> Value | None:
    """Fold a comparison (``==`` or ``!=``) whose result is known.

    One of the operands must be a single number. Return a constant if the ranges of the operands are
    disjoint, or if both are the same number and cannot be NaN. For Booleans, return x for ``x ==
    True`` and ``x != False``. Otherwise return None.
    """
    if node.inputs[0].dtype == np.bool_:
        return _drop_number(node, node.op is ops.eq)
    if not any(scalar(v) is not None for v in node.inputs):
        return None
    x, y = (known_range(v, MAX_RANGE_DEPTH) for v in node.inputs)
    are_disjoint, are_same = x.high < y.low or y.high < x.low, x.low == x.high == y.low == y.high
    if are_disjoint or (are_same and not (x.nan or y.nan)):
        holds = node.op is ops.ne if are_disjoint else node.op is ops.eq
        return editor.broadcast(const(holds, np.bool_), node.out.shape, ())
    return None


def _drop_clamp(node: Node, _: Editor) -> Value | None:
    """Return the operand of a clamp if its known range is within the bounds, otherwise None."""
    x = node.inputs[1]
    if not dims.is_same_shape(x.shape, node.out.shape):
        return None
    low, interval, high = (known_range(v, MAX_RANGE_DEPTH) for v in node.inputs)
    is_inside = low.high <= interval.low and interval.high <= high.low
    return x if is_inside and not (low.nan or high.nan) else None


def _drop_abs(node: Node, _: Editor) -> Value | None:
    """Return x for ``abs(x)`` if x is known not to be negative, otherwise None.

    x must be a float sum, exponential or square. Results of these operations are never a negative
    zero, which ``abs`` would change.
    """
    x = node.inputs[0]
    is_nonnegative_op = x.producer_if(ops.reduce_sum, ops.exp, ops.square) is not None and is_float(
        x.dtype
    )
    return x if is_nonnegative_op and known_range(x, MAX_RANGE_DEPTH).low >= 0 else None


_PARTIAL_ORDERS = {ops.eq_to: ops.eq, ops.le_to: ops.le, ops.lt_to: ops.lt}


def _drop_total_order(node: Node, editor: Editor) -> Value | None:
    """Replace a comparison in the total order of floats, such as ``lt_to``, by the ordinary one for
    other dtypes. Return None for floats."""
    if is_float(node.inputs[0].dtype):
        return None
    return editor.add(_PARTIAL_ORDERS[node.op], node.inputs, node.out.shape, node.out.dtype)


def _fold_select(node: Node, _: Editor) -> Value | None:
    """Return the selected case of a selection whose result is known, otherwise None.

    It is known if the selector is a constant of equal numbers, or if all cases are the same value.
    The case must have the shape of the result.
    """
    selector, cases = source_behind(node.inputs[0], BROADCAST_OPS), node.inputs[1:]
    numbers = known_range(selector) if selector.kind == "const" else None
    if numbers is not None and numbers.low == numbers.high:
        case_value = cases[min(max(int(numbers.low), 0), len(cases) - 1)]
    elif all(case is cases[0] for case in cases):
        case_value = cases[0]
    else:
        return None
    return case_value if dims.is_same_shape(case_value.shape, node.out.shape) else None


def _reduce(node: Node, editor: Editor) -> Value | None:
    """Return the operand, reshaped, if all reduced axes have size one. Return a constant for a
    reduction over no elements, otherwise None."""
    source = node.inputs[0]
    if all(dims.is_same_dim(source.shape[a], 1) for a in node.params["axes"]):
        return editor.reshape(source, node.out.shape)
    return fold_empty_reduction(node, editor)


def _scatter_sub(node: Node, editor: Editor) -> Value:
    """Return a ``scatter_add`` of the negated updates for a ``scatter_sub``."""
    x, indices, updates = node.inputs
    negated = editor.add(ops.neg, [updates], updates.shape, updates.dtype)
    return editor.add(ops.scatter_add, [x, indices, negated], x.shape, x.dtype, node.params)


def _dim_as_value(node: Node, _: Editor) -> Value | None:
    """Return a constant for a dimension whose size is a number, or None for a named dimension."""
    dim = node.params["dim"]
    return const(dim, node.out.dtype) if dims.is_static(dim) else None


def _fraction_of_bits(node: Node, editor: Editor) -> Value | None:
    """Rewrite ``bitcast(bits | bits of 1.0) - 1`` as ``float(bits) * eps``, otherwise return None.

    ``bits`` are an integer that fits the fraction of a float. JAX draws numbers between 0 and 1 in
    this way. Before opset 26, ONNX has no operator that reinterprets bits as a float.
    """
    bitcast, dtype = node.inputs[0].producer_if(ops.bitcast_convert_type), node.out.dtype
    if bitcast is None or scalar(node.inputs[1]) != 1 or not is_float(dtype):
        return None
    bits = bitcast.inputs[0].producer_if(ops.or_)
    digits = None if bits is None else _fraction_digits(bits, dtype)
    if digits is None:
        return None
    step = editor.broadcast(const(jnp.finfo(dtype).eps, dtype), node.out.shape, ())
    return editor.binary(ops.mul, editor.convert(digits, dtype), step)


def _fraction_digits(node: Node, dtype: np.dtype) -> Value | None:
    """Return the operand d of ``d | bits of 1.0``, otherwise None.

    d must be known to fit the fraction of a float of this dtype.
    """
    one = int(np.ones((), dtype).view(node.out.dtype))
    largest = (1 << jnp.finfo(dtype).nmant) - 1
    for number, digits in (node.inputs, node.inputs[::-1]):
        if scalar(number) == one and known_range(digits).within(0, largest):
            return digits
    return None


def _drop_empty_scan(node: Node, editor: Editor) -> Sequence[Value] | None:
    """Return the initial states and empty results of a scan of length zero. Otherwise return
    None."""
    if not dims.is_same_dim(node.params["length"], 0):
        return None
    count = node.params["num_carry"]
    empty = [editor.broadcast(const(0, v.dtype), v.shape, ()) for v in node.outputs[count:]]
    return [*node.inputs[:count], *empty]


def _take_only_branch(node: Node, editor: Editor) -> Sequence[Value] | None:
    """Return the results of the branch that a conditional runs for every input. Return None if its
    index can select several branches.

    An optimizer that replaces an ``If`` with a constant condition may crash on another ``If``
    inside of it: ONNX Runtime 1.31.1 does.
    """
    branches, bounds = list(node.bodies.values()), known_range(node.inputs[0])
    first, last = (min(max(end, 0), len(branches) - 1) for end in (bounds.low, bounds.high))
    if first != last:
        return None
    # A branch has no inputs: its nodes read the values around the conditional.
    editor.nodes.extend(branches[int(first)].nodes)
    return branches[int(first)].outputs


RULES: dict[Op, Rule] = {
    **dict.fromkeys(NEUTRAL_NUMBERS, _drop_neutral),
    ops.sub: lambda node, editor: _drop_neutral(node, editor) or _fraction_of_bits(node, editor),
    ops.mul: _mul,
    ops.add: lambda node, editor: _drop_neutral(node, editor) or match_interleaving(node, editor),
    ops.and_: _logical,
    ops.or_: lambda node, editor: _logical(node, editor) or match_interleaving(node, editor),
    ops.integer_pow: _integer_pow,
    ops.pow: _pow,
    **dict.fromkeys((ops.lt, ops.le, ops.gt, ops.ge), _fold_order_comparison),
    **dict.fromkeys((ops.eq, ops.ne), _fold_equality),
    ops.clamp: _drop_clamp,
    ops.abs: _drop_abs,
    **dict.fromkeys(_PARTIAL_ORDERS, _drop_total_order),
    ops.select_n: _fold_select,
    ops.scatter_sub: _scatter_sub,
    ops.dim_as_value: _dim_as_value,
    **dict.fromkeys((op for op in ops.defined_ops() if op.reduces), _reduce),
    **dict.fromkeys((ops.conv_general_dilated, ops.reduce_window_sum), fold_empty_reduction),
    **dict.fromkeys((ops.reduce_window_max, ops.reduce_window_min), fold_empty_reduction),
    ops.dynamic_update_slice: skip_empty_update(1),
    **dict.fromkeys(ops.SCATTERS, skip_empty_update(2)),
    ops.scatter: lambda node, editor: (
        skip_empty_update(2)(node, editor) or join_updates(node, editor)
    ),
    ops.select_and_scatter_add: fold_empty_scatter,
    ops.scan: _drop_empty_scan,
    ops.cond: _take_only_branch,
}
