"""Steps that only move data: which of them take axes to other places, and what they write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from converter.graph import dims, ops
from converter.graph.dims import Dim, Shape
from converter.graph.nodes import Value
from converter.graph.op import Op
from converter.graph.rewrite import Editor

Step: TypeAlias = tuple[Op, Any]
"""An operation, and what it takes besides the value."""

_STEPS: dict[Op, Callable[[Editor, Value, Any], Value]] = {
    ops.slice: lambda editor, x, cut: editor.slice(x, *cut),
    ops.rev: lambda editor, x, axes: editor.add(
        ops.rev, [x], x.shape, x.dtype, {"dimensions": axes}
    ),
    ops.reshape: lambda editor, x, shape: editor.reshape(x, shape),
    ops.transpose: lambda editor, x, order: editor.transpose(x, order),
    ops.broadcast_in_dim: lambda editor, x, spread: editor.broadcast(x, *spread),
    ops.convert_element_type: lambda editor, x, dtype: editor.convert(x, dtype),
}


def apply(editor: Editor, x: Value, steps: Sequence[Step]) -> Value:
    """All steps in a row."""
    for op, argument in steps:
        x = _STEPS[op](editor, x, argument)
    return x


def rearranging(shape: Shape, split: Shape, order: Sequence[int], target: Shape) -> list[Step]:
    """A reshape to ``split``, its transposition and a reshape to ``target``, in as few steps.

    Which axes of one lie between them is free: they stay where that saves a reshape.
    """
    order = [i for i in order if not dims.same(split[i], 1)]
    if order == sorted(order):
        return reshaping(shape, target)
    sizes = [split[i] for i in sorted(order)]
    is_split = dims.same_shape(_long(shape), sizes)
    is_merged = dims.same_shape(_long(target), [split[i] for i in order])
    ones = (1,) * (len(target) - len(sizes) if is_merged else 0)
    source = shape if is_split else (*ones, *sizes)
    short = [i for i, d in enumerate(source) if dims.same(d, 1)]
    long = [i for i in range(len(source)) if i not in short]
    moved = [long[sorted(order).index(i)] for i in order]
    if is_merged and len(source) == len(target):
        permutation = [(short if dims.same(d, 1) else moved).pop(0) for d in target]
    else:
        permutation = [*short, *moved]
    after = tuple(source[i] for i in permutation)
    return [*reshaping(shape, source), (ops.transpose, permutation), *reshaping(after, target)]


def _long(shape: Shape) -> list[Dim]:
    return [d for d in shape if not dims.same(d, 1)]


def reshaping(shape: Shape, target: Shape) -> list[Step]:
    """A reshape, where it does anything."""
    return [] if dims.same_shape(shape, target) else [(ops.reshape, target)]
