"""Halving a table whose columns come in pairs of equals.

Rotary tables are usually tiled to the full width. The fused operator wants half of one, so the
equality of the two halves has to be proved: from how the table is made, or from its numbers, where
parameters have any. What is proved is returned as what writes the half.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from converter.fuse.dependence import bound, rely
from converter.ir import Value, dims, ops
from converter.ir.axes import View, along
from converter.ir.dims import Shape
from converter.ir.moves import descended, write
from converter.ir.origins import ancestors
from converter.ir.rewrite import Editor

Write: TypeAlias = Callable[[Editor], Value]
"""A value that is still to be written."""


def half(value: Value, axis: int, interleaved: bool, memo: dict[Any, Any]) -> Write | str:
    """The distinct half of ``value`` along ``axis``, or why there is none.

    Halves are ``[:n]`` and ``[n:]``, or the even and the odd elements where ``interleaved``. All
    layers of a network read the same tables, which are proved once.
    """
    key = (id(value), axis, interleaved)
    if key not in memo:
        memo[key] = _proved_half(value, axis, interleaved, memo)
    return memo[key]


def _proved_half(value: Value, axis: int, interleaved: bool, memo: dict[Any, Any]) -> Write | str:
    width = value.shape[axis] // 2
    stride, second = (2, 1) if interleaved else (1, width)
    one, other = (along(value).cut(axis, start, width, stride) for start in (0, second))
    shape = tuple(width if i == axis else d for i, d in enumerate(value.shape))
    found = _tables_either(one, other, shape)
    if found or one is None or other is None:
        return found or "a table has no halves"
    numbers = bound(value, memo)
    columns = "neighbours in" if interleaved else "two halves of"
    if numbers is None:
        empty = any(v.kind == "param" and v.bound is None for v in ancestors(value))
        why = ": it is made from a parameter that has no value yet" if empty else ""
        return f"the {columns} a table cannot be shown to be equal{why}"
    return _by_numbers(one, other, numbers, shape) or (
        f"the {columns} a table differ, which is no rotation"
    )


def _tables_either(one: View | None, other: View | None, shape: Shape) -> Write | None:
    """One of two, if they are equal."""
    if one is None or other is None:
        return None
    one, other = descended(one), descended(other)
    if one == other:
        return lambda editor: write(editor, one, shape)
    if one.base is not other.base or one.groups != other.groups:
        return None
    if one.base.node is None:
        return _by_numbers(one, other, bound(one.base, {}), shape)
    if one.node().op is ops.concatenate:
        return _of_joined(one, other, shape)
    return _of_elements(one, other, shape) if one.node().op.elementwise else None


def _by_numbers(one: View, other: View, numbers: np.ndarray | None, shape: Shape) -> Write | None:
    """One of two parts of what has these numbers, if they are equal."""

    def holds(numbers: np.ndarray) -> bool:
        return np.array_equal(_part(numbers, one), _part(numbers, other))

    if numbers is None or not holds(numbers):
        return None
    steps = [b - a for a, b in zip(one.starts, other.starts, strict=True)]
    axis = next(i for i, step in enumerate(steps) if step)
    what = f"{'neighbours' if steps[axis] == 1 else 'both halves'} along axis {axis} are equal"

    def written(editor: Editor) -> Value:
        rely(editor, what, one.base, holds)
        return write(editor, one, shape)

    return written


def _part(numbers: np.ndarray, seen: View) -> np.ndarray:
    """What is seen of an array, with an axis for each factor."""
    array = numbers[tuple(slice(start, None) for start in seen.starts)]
    factors = [factor for group in seen.groups for factor in group]
    steps = [0 if f.axis is None else f.stride * array.strides[f.axis] for f in factors]
    return np.lib.stride_tricks.as_strided(array, [f.size for f in factors], steps)


def _of_elements(one: View, other: View, shape: Shape) -> Write | None:
    node, parts = one.node(), list[Write]()
    for i, value in enumerate(node.inputs):
        first, second = one.operand(i), other.operand(i)
        part = _tables_either(first, second, first.bare(shape) if value.rank else ())
        if part is None:
            return None
        parts.append(part)
    return lambda editor: editor.like(node, [part(editor) for part in parts], shape)


def _of_joined(one: View, other: View, shape: Shape) -> Write | None:
    """Rows, or pairs that lie within their parts."""
    axis, offset, parts = one.node().params["dimension"], 0, list[Write]()
    if axis not in one.axes or not dims.same(shape[one.axes.index(axis)], one.base.shape[axis]):
        return None
    place = one.axes.index(axis)
    for value in one.node().inputs:
        size = value.shape[axis]
        own = (*shape[:place], size, *shape[place + 1 :])
        part = _tables_either(one.cut(place, offset, size), other.cut(place, offset, size), own)
        if part is None:
            return None
        parts.append(part)
        offset += size
    return lambda editor: editor.concatenate([part(editor) for part in parts], place)
