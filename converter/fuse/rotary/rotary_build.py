"""Writing a rotary embedding: the value as it is, the tables as [positions, half the width]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from converter.fuse.rotary.halves import Joined
from converter.ir import Node, Value, ops
from converter.ir.axes import View, along
from converter.ir.dims import Shape
from converter.ir.moves import write
from converter.ir.rewrite import Editor

Write: TypeAlias = Callable[[Editor], Value]
"""A value that is still to be written."""


@dataclass(frozen=True)
class Rotation:
    """All that the node takes; ``seq`` is the axis of positions, ``width`` that of elements.

    Of that ``shape``, which may count pairs along one axis where the root has two. Of each table
    what writes the half of it, and its own axes of positions and of elements.
    """

    shape: Shape
    x: View
    tables: tuple[tuple[Write, tuple[int | None, ...]], ...]
    seq: int
    width: int
    interleaved: bool


def rotation(
    shape: Shape, x: View, tables: Sequence[View], join: Joined, half: Callable[[View], Write | str]
) -> Rotation | str:
    """``x`` turned by tables, cosines first, of which ``half`` gives what is needed; or why not."""
    seq = _positions(x, tables, join.axis, shape)
    if isinstance(seq, str):
        return seq
    halves: list[tuple[Write, tuple[int | None, ...]]] = []
    for table in tables:
        found = half(table)
        if isinstance(found, str):
            return found
        halves.append((found, (table.axes[seq], table.axes[join.axis])))
    return Rotation(shape, x, tuple(halves), seq, join.axis, join.interleaved)


def _positions(x: View, tables: Sequence[View], width: int, shape: Shape) -> int | str:
    """The one axis besides ``width`` that the tables depend on, or why there is none."""
    if any(t.axes[width] is None or not t.complete() for t in tables):
        return "a table does not vary along the rotated axis"
    seq = {i for t in tables for i, a in enumerate(t.axes) if a is not None and i != width}
    if len(seq) != 1:
        return f"the tables depend on {len(seq)} axes besides the rotated one, not on one"
    return seq.pop() if x.fills(shape) else "the rotated value is broadcast"


def build_rotary(node: Node, found: Rotation, editor: Editor) -> Value:
    shape, dtype = (found.shape[found.seq], found.shape[found.width] // 2), node.out.dtype
    tables = [write(editor, along(half(editor), axes), shape, dtype) for half, axes in found.tables]
    value = write(editor, found.x, found.shape, dtype)
    params = {"seq": found.seq, "width": found.width, "interleaved": found.interleaved}
    turned = editor.add(ops.rotary, [value, *tables], value.shape, value.dtype, params)
    return editor.reshape(turned, node.out.shape)
