"""Arithmetic that does nothing, or that has a shorter name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from converter.canonicalize.float_bits import fraction
from converter.canonicalize.zero_size import over_nothing
from converter.ir import Node, Value, const, dims, ops
from converter.ir.dtypes import is_float
from converter.ir.op import Op
from converter.ir.ranges import known_range
from converter.ir.rewrite import Editor, Rule
from converter.ir.scalars import named_size, scalar


def _neutral(node: Node, number: float, sides: Sequence[int]) -> Value | None:
    """``x op number`` is x, where x already has the result's type."""
    for side in sides:
        other = node.inputs[1 - side]
        if scalar(node.inputs[side]) == number and dims.same_shape(other.shape, node.out.shape):
            return other
    return None


def _max(node: Node, _: Editor) -> Value | None:
    return _neutral(node, float("-inf"), (0, 1))


def _min(node: Node, _: Editor) -> Value | None:
    return _neutral(node, float("inf"), (0, 1))


def _add(node: Node, _: Editor) -> Value | None:
    return _neutral(node, 0, (0, 1))


def _sub(node: Node, editor: Editor) -> Value | None:
    unchanged = _neutral(node, 0, (1,))
    return fraction(node, editor) if unchanged is None else unchanged


def _mul(node: Node, editor: Editor) -> Value | None:
    if node.inputs[0] is node.inputs[1]:
        return editor.add(ops.square, node.inputs[:1], node.out.shape, node.out.dtype)
    return _neutral(node, 1, (0, 1))


def _div(node: Node, _: Editor) -> Value | None:
    return _neutral(node, 1, (1,))


def _and(node: Node, _: Editor) -> Value | None:
    return _neutral(node, True, (0, 1)) if node.out.dtype == np.bool_ else None


def _or(node: Node, _: Editor) -> Value | None:
    return _neutral(node, False, (0, 1)) if node.out.dtype == np.bool_ else None


def _integer_pow(node: Node, editor: Editor) -> Value | None:
    if node.params["y"] == 1:
        return node.inputs[0]
    if node.params["y"] == 2:
        return editor.add(ops.square, node.inputs, node.out.shape, node.out.dtype)
    return None


def _greater(node: Node, _: Editor) -> Value | None:
    """Named dimensions are more than nothing, which means ask before they divide by them."""
    one, other = node.inputs
    if node.out.rank or named_size(one) is None or scalar(other) is None:
        return None
    above = known_range(one).low > known_range(other).high
    return const(True, np.bool_) if above else None


_TOTAL = {ops.eq_to: ops.eq, ops.le_to: ops.le, ops.lt_to: ops.lt}


def _total(node: Node, editor: Editor) -> Value | None:
    """The total order of what has no NaN is its order."""
    if is_float(node.inputs[0].dtype):
        return None
    return editor.add(_TOTAL[node.op], node.inputs, node.out.shape, node.out.dtype)


def _identities_select(node: Node, _: Editor) -> Value | None:
    which = scalar(node.inputs[0])
    chosen = None if which is None else node.inputs[1 + int(which)]
    return chosen


def _reduce(node: Node, editor: Editor) -> Value | None:
    source = node.inputs[0]
    if all(dims.same(source.shape[a], 1) for a in node.params["axes"]):
        return editor.reshape(source, node.out.shape)
    return over_nothing(node, editor)


def _scatter_sub(node: Node, editor: Editor) -> Value:
    """A sum with what is negated."""
    x, indices, updates = node.inputs
    less = editor.add(ops.neg, [updates], updates.shape, updates.dtype)
    return editor.add(ops.scatter_add, [x, indices, less], x.shape, x.dtype, node.params)


def _dim_as_value(node: Node, _: Editor) -> Value | None:
    dim = node.params["dim"]
    return const(dim, node.out.dtype) if dims.is_static(dim) else None


REDUCTIONS = (
    ops.reduce_sum,
    ops.reduce_max,
    ops.reduce_min,
    ops.reduce_prod,
    ops.reduce_and,
    ops.reduce_or,
)
WINDOWS = (
    ops.conv_general_dilated,
    ops.reduce_window_sum,
    ops.reduce_window_max,
    ops.reduce_window_min,
)
RULES: dict[Op, Rule] = {
    ops.max: _max,
    ops.min: _min,
    ops.add: _add,
    ops.sub: _sub,
    ops.mul: _mul,
    ops.div: _div,
    ops.and_: _and,
    ops.or_: _or,
    ops.integer_pow: _integer_pow,
    ops.gt: _greater,
    **dict.fromkeys(_TOTAL, _total),
    ops.select_n: _identities_select,
    ops.scatter_sub: _scatter_sub,
    ops.dim_as_value: _dim_as_value,
    **dict.fromkeys(REDUCTIONS, _reduce),
    **dict.fromkeys(WINDOWS, over_nothing),
}
