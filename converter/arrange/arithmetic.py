"""Arithmetic where ONNX leaves the result open and JAX does not.

Integers divided by zero, the smallest integer divided by -1, and floats beyond the range of the
integers that they become: ONNX Runtime refuses the first, is killed by the second and wraps the
third. What is known to be in range is left as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from converter.graph import Node, Value, const, ops
from converter.graph.dtypes import highest, is_float, is_integer, lowest
from converter.graph.op import Op
from converter.graph.ranges import known_range
from converter.graph.rewrite import Editor, Rule


def _convert(node: Node, editor: Editor) -> Value | None:
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
    """``x / 0`` is -1 (all bits set) and the smallest integer over -1 is itself."""
    x, y = node.inputs
    if not is_integer(x.dtype):
        return None
    risks = _risks(x, y)
    if not risks:
        return None
    result = editor.binary(ops.div, x, _without(editor, y, risks))
    results = {-1: lambda: editor.add(ops.neg, [x], x.shape, x.dtype), 0: lambda: _ones(x.dtype)}
    for number in risks:
        result = editor.where(
            editor.compare(ops.eq, y, const(number, y.dtype)), results[number](), result
        )
    return result


def _remainder(node: Node, editor: Editor) -> Value | None:
    """``x % 0`` is ``x``; that of a division by -1 is 0, as that by 1 is."""
    x, y = node.inputs
    if not is_integer(x.dtype):
        return None
    risks = _risks(x, y)
    if not risks:
        return None
    result = editor.binary(ops.rem, x, _without(editor, y, risks))
    return (
        editor.where(editor.compare(ops.eq, y, const(0, y.dtype)), x, result)
        if 0 in risks
        else result
    )


def _risks(x: Value, y: Value) -> list[int]:
    """The divisors among 0 and -1 that there may be and that ONNX Runtime does not take.

    Integers of 8 and 16 bits are divided in 32, where nothing overflows.
    """
    known = known_range(y)
    wide = x.dtype.kind == "i" and x.dtype.itemsize >= 4
    overflows = wide and not known_range(x).misses(int(lowest(x.dtype)))
    return [n for n, there in ((-1, overflows), (0, True)) if there and not known.misses(n)]


def _without(editor: Editor, y: Value, numbers: list[int]) -> Value:
    """``y`` with ones in the place of some numbers."""
    for number in numbers:
        y = editor.where(editor.compare(ops.eq, y, const(number, y.dtype)), const(1, y.dtype), y)
    return y


def _ones(dtype: np.dtype) -> Value:
    return const(-1 if dtype.kind == "i" else int(highest(dtype)), dtype)


RULES: dict[Op, Rule] = {ops.convert_element_type: _convert, ops.div: _divide, ops.rem: _remainder}
