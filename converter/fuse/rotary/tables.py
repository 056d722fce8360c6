"""Halving a table whose columns come in pairs of equals.

Rotary tables are usually tiled to the full width. The fused operator wants half of one, so the
equality of the two halves has to be proved: from how the table is made, or from its numbers, where
parameters have any. What is proved is returned as what writes the half.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from converter.fuse.known import bound, rely
from converter.fuse.rotary.build import Write, as_it_is
from converter.graph import Node, Value, dims, ops
from converter.graph.op import Op
from converter.graph.origins import ancestors
from converter.graph.rewrite import Editor


def proved_half(value: Value, axis: int, interleaved: bool, memo: dict[int, Any]) -> Write | str:
    """The distinct half of ``value`` along ``axis``, or why there is none."""
    if found := half(value, axis, interleaved):
        return found
    numbers = bound(value, memo)
    columns = "neighbours in" if interleaved else "two halves of"
    if numbers is None:
        empty = any(v.kind == "param" and v.bound is None for v in ancestors(value))
        why = ": it is made from a parameter that has no value yet" if empty else ""
        return f"the {columns} a table cannot be shown to be equal{why}"
    written = half_of_known(value, numbers, axis, interleaved)
    return written or f"the {columns} a table differ, which is no rotation"


def half(value: Value, axis: int, interleaved: bool) -> Write | None:
    """The distinct half of ``value`` along ``axis``, or ``None`` where it cannot be proved.

    Halves are ``[:n]`` and ``[n:]``, or the even and the odd elements where ``interleaved``.
    """
    node = value.node
    if node is None:
        return half_of_known(value, bound(value, {}), axis, interleaved)
    if node.op.broadcasts:
        return _half_of_elementwise(node, axis, interleaved)
    if node.op.elementwise:
        inner = half(node.inputs[0], axis, interleaved)
        shape = _halved(value, axis)
        return inner and (lambda editor: editor.like(node, [inner(editor)], shape))
    rule = _RULES.get(node.op)
    return rule(node, axis, interleaved) if rule else None


def half_of_known(
    value: Value, numbers: np.ndarray | None, axis: int, interleaved: bool
) -> Write | None:
    """The distinct half of a value that has these numbers."""
    holds = partial(_is_twice, axis=axis, interleaved=interleaved)
    if numbers is None or not holds(numbers):
        return None
    step, width = (2, value.shape[axis]) if interleaved else (1, value.shape[axis] // 2)
    what = f"{'neighbours' if interleaved else 'both halves'} along axis {axis} are equal"

    def write(editor: Editor) -> Value:
        rely(editor, what, value, holds)
        return editor.slice(value, axis, 0, width, step)

    return write


def _is_twice(numbers: np.ndarray, axis: int, interleaved: bool) -> bool:
    line = np.moveaxis(numbers, axis, -1)
    width = line.shape[-1] // 2
    one, other = (
        (line[..., ::2], line[..., 1::2]) if interleaved else (line[..., :width], line[..., width:])
    )
    return np.array_equal(one, other)


def _half_of_elementwise(node: Node, axis: int, interleaved: bool) -> Write | None:
    parts: list[Write] = []
    for value in node.inputs:
        own = axis - (node.out.rank - value.rank)
        narrow = own < 0 or dims.same(value.shape[own], 1)
        part = as_it_is(value) if narrow else half(value, own, interleaved)
        if part is None:
            return None
        parts.append(part)
    shape = _halved(node.out, axis)
    return lambda editor: editor.like(node, [part(editor) for part in parts], shape)


def _halved(value: Value, axis: int) -> dims.Shape:
    return tuple(d // 2 if i == axis else d for i, d in enumerate(value.shape))


def _concatenate(node: Node, axis: int, interleaved: bool) -> Write | None:
    along = node.params["dimension"]
    if along == axis and not interleaved:
        first, *others = node.inputs
        return as_it_is(first) if len(others) == 1 and others[0] is first else None
    # rows, or pairs that lie within their parts
    parts = [half(v, axis, interleaved) for v in node.inputs]
    found = [p for p in parts if p is not None]
    if len(found) < len(parts):
        return None
    return lambda editor: editor.concatenate([part(editor) for part in found], along)


def _tile(node: Node, axis: int, interleaved: bool) -> Write | None:
    reps = node.params["reps"]
    source = node.inputs[0]
    once = all(r == 1 for i, r in enumerate(reps) if i != axis)
    if interleaved or len(reps) != source.rank or reps[axis] != 2 or not once:
        return None
    return as_it_is(source)


def _broadcast(node: Node, axis: int, interleaved: bool) -> Write | None:
    source, axes = node.inputs[0], list(node.params["broadcast_dimensions"])
    inner: Write | None = as_it_is(source)
    if axis in axes and not dims.same(source.shape[axes.index(axis)], 1):
        inner = half(source, axes.index(axis), interleaved)
    shape = _halved(node.out, axis)
    return inner and (lambda editor: editor.broadcast(inner(editor), shape, axes))


def _reshape(node: Node, axis: int, interleaved: bool) -> Write | None:
    """Ones come or go, rows are merged, or ``[..., 2, n] -> [..., 2n]`` of something repeated."""
    source, target = node.inputs[0], node.out.shape
    real = [i for i, d in enumerate(source.shape) if not dims.same(d, 1)]
    kept = [i for i, d in enumerate(target) if not dims.same(d, 1)]
    if axis in kept and dims.same_shape([source.shape[i] for i in real], [target[i] for i in kept]):
        inner = half(source, real[kept.index(axis)], interleaved)
    elif axis == node.out.rank - 1 and dims.same(source.shape[-1], target[-1]):
        inner = half(source, source.rank - 1, interleaved)
    else:
        return _repeated(node, axis, interleaved)
    shape = _halved(node.out, axis)
    return inner and (lambda editor: editor.reshape(inner(editor), shape))


def _repeated(node: Node, axis: int, interleaved: bool) -> Write | None:
    source = node.inputs[0]
    inner = source.node
    if inner is None or inner.op is not ops.broadcast_in_dim or axis != node.out.rank - 1:
        return None
    pair = source.rank - (1 if interleaved else 2)  # where the axis of size two must be
    split = (*node.out.shape[:-1], *((-1, 2) if interleaved else (2, -1)))
    width = node.out.shape[-1] // 2
    shape = tuple(width if d == -1 else d for d in split)
    real, wanted = ([d for d in s if not dims.same(d, 1)] for s in (source.shape, shape))
    if not dims.same(source.shape[pair], 2) or not dims.same_shape(real, wanted):
        return None
    axes = inner.params["broadcast_dimensions"]
    varies = pair in axes and not dims.same(inner.inputs[0].shape[axes.index(pair)], 1)
    if varies:
        return None
    narrow = _halved(node.out, axis)
    return lambda editor: editor.reshape(editor.slice_away(source, pair), narrow)


def _slice(node: Node, axis: int, interleaved: bool) -> Write | None:
    source = node.inputs[0]
    if not dims.same(source.shape[axis], node.out.shape[axis]):
        return None
    inner = half(source, axis, interleaved)
    shape = _halved(node.out, axis)
    limits = node.params["limit_indices"]
    limits = tuple(shape[axis] if i == axis else d for i, d in enumerate(limits))
    return inner and (
        lambda editor: editor.like(node, [inner(editor)], shape, limit_indices=limits)
    )


def _transpose(node: Node, axis: int, interleaved: bool) -> Write | None:
    order = node.params["permutation"]
    inner = half(node.inputs[0], order[axis], interleaved)
    return inner and (lambda editor: editor.transpose(inner(editor), order))


_RULES: dict[Op, Callable[[Node, int, bool], Write | None]] = {
    ops.concatenate: _concatenate,
    ops.tile: _tile,
    ops.broadcast_in_dim: _broadcast,
    ops.reshape: _reshape,
    ops.slice: _slice,
    ops.transpose: _transpose,
}
