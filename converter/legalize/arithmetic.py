"""Arithmetic where ONNX leaves the result open and JAX does not.

Integers divided by zero, and floats beyond the range of the integers that they become. What is
known to be in range is left as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from converter.ir import Node, Value, const, ops
from converter.ir.dtypes import highest, is_float, is_integer, lowest
from converter.ir.op import Op
from converter.ir.ranges import known_range
from converter.ir.rewrite import Editor, Rule


def _arithmetic_convert(node: Node, editor: Editor) -> Value | None:
    """A float is cut off at the ends of the integers' range, and NaN becomes 0."""
    x, dtype = node.inputs[0], node.out.dtype
    if not (is_float(x.dtype) and is_integer(dtype)):
        return None
    known, low, high = known_range(x), int(lowest(dtype)), int(highest(dtype))
    if known.within(low, high):
        return None
    bottom, top = (_nearest(number, x.dtype) for number in (low, high))
    whole = editor.add(ops.clamp, [bottom, x, top], x.shape, x.dtype)
    if known.nan:
        nan = editor.compare(ops.ne, x, x)
        whole = editor.where(nan, const(0, x.dtype), whole)
    result = editor.convert(whole, dtype)
    # The ends themselves may be no floats.
    for op, end, number in ((ops.gt, top, high), (ops.lt, bottom, low)):
        if int(end.const) != number:
            beyond = editor.compare(op, x, end)
            result = editor.where(beyond, const(number, dtype), result)
    return result


def _nearest(number: int, dtype: Any) -> Value:
    """The float nearest to an integer, towards zero, as a constant."""
    with np.errstate(over="ignore"):
        near = np.asarray(number).astype(np.float64).astype(dtype)
    if not np.isfinite(near) or abs(int(near)) > abs(number):
        near = np.nextafter(near, np.zeros((), dtype))
    return const(near, dtype)


def _divide(node: Node, editor: Editor) -> Value | None:
    """``x / 0`` is -1: all bits set."""
    ones = -1 if node.out.dtype.kind == "i" else highest(node.out.dtype)
    return _by_zero(node, editor, const(ones, node.out.dtype))


def _remainder(node: Node, editor: Editor) -> Value | None:
    """``x % 0`` is ``x``."""
    return _by_zero(node, editor, node.inputs[0])


def _by_zero(node: Node, editor: Editor, result: Value) -> Value | None:
    """What integers are where they are divided by zero, and by one there in the operator."""
    x, y = node.inputs
    if not is_integer(x.dtype) or known_range(y).misses(0):
        return None
    zero = editor.compare(ops.eq, y, const(0, y.dtype))
    whole = editor.binary(node.op, x, editor.where(zero, const(1, y.dtype), y))
    return editor.where(zero, result, whole)


RULES: dict[Op, Rule] = {
    ops.convert_element_type: _arithmetic_convert,
    ops.div: _divide,
    ops.rem: _remainder,
}
