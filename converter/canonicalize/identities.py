"""Arithmetic that does nothing, or that has a shorter name."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from converter.canonicalize.zero_size import over_nothing
from converter.ir import Node, Value, const, dims, ops
from converter.ir.dtypes import is_float
from converter.ir.op import Op
from converter.ir.ranges import known_range
from converter.ir.rewrite import Editor, Rule
from converter.ir.scalars import named_size, scalar

NEUTRAL: dict[Op, float] = {
    ops.max: -math.inf,
    ops.min: math.inf,
    ops.add: 0,
    ops.sub: 0,
    ops.mul: 1,
    ops.div: 1,
}


def _neutral(node: Node, _: Editor) -> Value | None:
    return _without(node, NEUTRAL[node.op])


def _without(node: Node, number: float) -> Value | None:
    """``x op number`` is x, where x already has the result's type."""
    for side in (0, 1) if node.op.commutes else (1,):
        other = node.inputs[1 - side]
        if scalar(node.inputs[side]) == number and dims.same_shape(other.shape, node.out.shape):
            return other
    return None


def _mul(node: Node, editor: Editor) -> Value | None:
    if node.inputs[0] is node.inputs[1]:
        return editor.add(ops.square, node.inputs[:1], node.out.shape, node.out.dtype)
    return _neutral(node, editor)


def _logical(node: Node, _: Editor) -> Value | None:
    return _without(node, node.op is ops.and_) if node.out.dtype == np.bool_ else None


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
    return None if which is None else node.inputs[1 + int(which)]


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


WINDOWS = (
    *(ops.conv_general_dilated, ops.reduce_window_sum),
    *(ops.reduce_window_max, ops.reduce_window_min),
)


def _fraction_of_bits(node: Node, editor: Editor) -> Value | None:
    """A float from 1 to 2, less 1, whose digits are an integer: that integer, scaled.

    So numbers between 0 and 1 are drawn. Before opset 26 ONNX has no operator that would take bits
    for a float.
    """
    made, dtype = node.inputs[0].made_by(ops.bitcast_convert_type), node.out.dtype
    if made is None or scalar(node.inputs[1]) != 1 or not is_float(dtype):
        return None
    bits = made.inputs[0].made_by(ops.or_)
    digits = None if bits is None else _fraction_digits(bits, dtype)
    if digits is None:
        return None
    step = editor.broadcast(const(jnp.finfo(dtype).eps, dtype), node.out.shape, ())
    return editor.binary(ops.mul, editor.convert(digits, dtype), step)


def _fraction_digits(node: Node, dtype: np.dtype) -> Value | None:
    """What is below the bits of 1, where that is all there is besides."""
    one = int(np.ones((), dtype).view(node.out.dtype))
    for side, other in ((0, 1), (1, 0)):
        digits = node.inputs[other]
        most = (1 << jnp.finfo(dtype).nmant) - 1
        if scalar(node.inputs[side]) == one and known_range(digits).within(0, most):
            return digits
    return None


RULES: dict[Op, Rule] = {
    **dict.fromkeys(NEUTRAL, _neutral),
    ops.sub: lambda node, editor: _neutral(node, editor) or _fraction_of_bits(node, editor),
    ops.mul: _mul,
    ops.and_: _logical,
    ops.or_: _logical,
    ops.integer_pow: _integer_pow,
    ops.gt: _greater,
    **dict.fromkeys(_TOTAL, _total),
    ops.select_n: _identities_select,
    ops.scatter_sub: _scatter_sub,
    ops.dim_as_value: _dim_as_value,
    **dict.fromkeys((op for op in ops.stated() if op.reduces), _reduce),
    **dict.fromkeys(WINDOWS, over_nothing),
}
