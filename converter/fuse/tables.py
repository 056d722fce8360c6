"""Halving a table whose columns come in pairs of equals.

Rotary tables are usually tiled to the full width. The fused operator wants half of one, so the
equality of the two halves has to be proved: from the numbers where they are known, else from how
the table is made.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from converter.graph import Node, Value, dims
from converter.graph.operations import ELEMENTWISE, UNARY
from converter.graph.rewrite import Editor


def half(editor: Editor, value: Value, axis: int, interleaved: bool) -> Value | None:
    """The distinct half of ``value`` along ``axis``, or ``None`` where it cannot be proved.

    Halves are ``[:n]`` and ``[n:]``, or the even and the odd elements where ``interleaved``.
    """
    if value.const is not None:
        return _half_of_known(editor, value, axis, interleaved)
    node = value.node
    if node is None:
        return None
    if node.op in UNARY:
        inner = half(editor, node.inputs[0], axis, interleaved)
        return None if inner is None else editor.like(node, [inner], inner.shape)
    if node.op in ELEMENTWISE:
        return _half_of_elementwise(editor, node, axis, interleaved)
    rule = _RULES.get(node.op)
    return rule(editor, node, axis, interleaved) if rule else None


def _half_of_known(editor: Editor, value: Value, axis: int, interleaved: bool) -> Value | None:
    array = np.asarray(value.const)
    width = array.shape[axis] // 2
    line = np.moveaxis(array, axis, -1)
    if interleaved:
        equal = np.array_equal(line[..., ::2], line[..., 1::2])
    else:
        equal = np.array_equal(line[..., :width], line[..., width:])
    if not equal:
        return None
    if interleaved:
        return editor.slice(value, axis, 0, 2 * width, 2)
    return editor.slice(value, axis, 0, width)


def _half_of_elementwise(editor: Editor, node: Node, axis: int, interleaved: bool) -> Value | None:
    parts: list[Value] = []
    for value in node.inputs:
        own = axis - (node.out.rank - value.rank)
        if own < 0 or dims.same(value.shape[own], 1):
            parts.append(value)
            continue
        part = half(editor, value, own, interleaved)
        if part is None:
            return None
        parts.append(part)
    return editor.like(node, parts, _halved(node.out, axis))


def _halved(value: Value, axis: int) -> dims.Shape:
    return tuple(d // 2 if i == axis else d for i, d in enumerate(value.shape))


def _concatenate(editor: Editor, node: Node, axis: int, interleaved: bool) -> Value | None:
    along = node.params["dimension"]
    if along == axis and not interleaved:
        first, *others = node.inputs
        return first if len(others) == 1 and others[0] is first else None
    # rows, or pairs that lie within their parts
    parts = [half(editor, v, axis, interleaved) for v in node.inputs]
    found = [p for p in parts if p is not None]
    return editor.concatenate(found, along) if len(found) == len(parts) else None


def _tile(editor: Editor, node: Node, axis: int, interleaved: bool) -> Value | None:
    reps = node.params["reps"]
    source = node.inputs[0]
    once = all(r == 1 for i, r in enumerate(reps) if i != axis)
    if interleaved or len(reps) != source.rank or reps[axis] != 2 or not once:
        return None
    return source


def _broadcast(editor: Editor, node: Node, axis: int, interleaved: bool) -> Value | None:
    source, axes = node.inputs[0], list(node.params["broadcast_dimensions"])
    if axis in axes and not dims.same(source.shape[axes.index(axis)], 1):
        inner = half(editor, source, axes.index(axis), interleaved)
    else:
        inner = source
    return None if inner is None else editor.broadcast(inner, _halved(node.out, axis), axes)


def _reshape(editor: Editor, node: Node, axis: int, interleaved: bool) -> Value | None:
    """Ones come or go, rows are merged, or ``[..., 2, n] -> [..., 2n]`` of something repeated."""
    source, target = node.inputs[0], node.out.shape
    real = [i for i, d in enumerate(source.shape) if not dims.same(d, 1)]
    kept = [i for i, d in enumerate(target) if not dims.same(d, 1)]
    if axis in kept and dims.same_shape([source.shape[i] for i in real], [target[i] for i in kept]):
        inner = half(editor, source, real[kept.index(axis)], interleaved)
        return None if inner is None else editor.reshape(inner, _halved(node.out, axis))
    if axis == node.out.rank - 1 and dims.same(source.shape[-1], target[-1]):
        inner = half(editor, source, source.rank - 1, interleaved)
        return None if inner is None else editor.reshape(inner, _halved(node.out, axis))
    return _repeated(editor, node, axis, interleaved)


def _repeated(editor: Editor, node: Node, axis: int, interleaved: bool) -> Value | None:
    source = node.inputs[0]
    inner = source.node
    if inner is None or inner.op != "broadcast_in_dim" or axis != node.out.rank - 1:
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
    return editor.reshape(editor.slice_away(source, pair), _halved(node.out, axis))


def _slice(editor: Editor, node: Node, axis: int, interleaved: bool) -> Value | None:
    source = node.inputs[0]
    if not dims.same(source.shape[axis], node.out.shape[axis]):
        return None
    inner = half(editor, source, axis, interleaved)
    if inner is None:
        return None
    limits = node.params["limit_indices"]
    width = inner.shape[axis]
    params = {
        **node.params,
        "limit_indices": tuple(width if i == axis else d for i, d in enumerate(limits)),
    }
    return editor.add("slice", [inner], _halved(node.out, axis), inner.dtype, params)


def _transpose(editor: Editor, node: Node, axis: int, interleaved: bool) -> Value | None:
    order = node.params["permutation"]
    inner = half(editor, node.inputs[0], order[axis], interleaved)
    return None if inner is None else editor.transpose(inner, order)


_RULES: dict[str, Callable[[Editor, Node, int, bool], Value | None]] = {
    "concatenate": _concatenate,
    "tile": _tile,
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "slice": _slice,
    "transpose": _transpose,
}
