"""Halving a table whose columns come in pairs of equals.

Rotary tables are usually tiled to the full width. The fused operator wants half of one, so the
equality of the two halves has to be proved: from the numbers where they are known, else from how
the table is made. What is proved is returned as what writes the half.
"""

from __future__ import annotations

import numpy as np

from converter.fuse.rotary.build import Write, as_it_is
from converter.graph import Value, dims, ops
from converter.graph.axes import View, along
from converter.graph.dims import Shape
from converter.graph.moves import descended, write


def half(value: Value, axis: int, interleaved: bool) -> Write | None:
    """The distinct half of ``value`` along ``axis``, or ``None`` where it cannot be proved.

    Halves are ``[:n]`` and ``[n:]``, or the even and the odd elements where ``interleaved``.
    """
    width = value.shape[axis] // 2
    stride, second = (2, 1) if interleaved else (1, width)
    parts = [along(value).cut(axis, start, width, stride) for start in (0, second)]
    shape = tuple(width if i == axis else d for i, d in enumerate(value.shape))
    return _either(parts[0], parts[1], shape)


def _either(one: View | None, other: View | None, shape: Shape) -> Write | None:
    """One of two, if they are equal."""
    if one is None or other is None:
        return None
    one, other = descended(one), descended(other)
    if one == other or _equal_numbers(one, other):
        return lambda editor: write(editor, one, shape)
    if one.base is not other.base or one.base.node is None:
        return None
    if one.node().op is ops.concatenate:
        return _of_joined(one, other, shape)
    return _of_elements(one, other, shape) if one.node().op.elementwise else None


def _equal_numbers(one: View, other: View) -> bool:
    known = all(view.base.const is not None for view in (one, other))
    return known and np.array_equal(_numbers(one), _numbers(other))


def _numbers(seen: View) -> np.ndarray:
    """What a constant holds there, with an axis for each factor."""
    array = np.asarray(seen.base.const)
    array = array[tuple(slice(start, None) for start in seen.starts)]
    factors = [factor for group in seen.groups for factor in group]
    steps = [0 if f.axis is None else f.stride * array.strides[f.axis] for f in factors]
    return np.lib.stride_tricks.as_strided(array, [f.size for f in factors], steps)


def _of_elements(one: View, other: View, shape: Shape) -> Write | None:
    node, parts = one.node(), list[Write]()
    for i, value in enumerate(node.inputs):
        first, second = one.operand(i), other.operand(i)
        own = tuple(d if group else 1 for group, d in zip(first.groups, shape, strict=True))
        part = _either(first, second, own) if value.rank else as_it_is(value)
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
        part = _either(one.cut(place, offset, size), other.cut(place, offset, size), own)
        if part is None:
            return None
        parts.append(part)
        offset += size
    return lambda editor: editor.concatenate([part(editor) for part in parts], place)
