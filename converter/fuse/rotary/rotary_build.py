"""Writing a rotary embedding: the value as it is, the tables as [positions, half the width]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from converter.ir import Node, Value, ops
from converter.ir.axes import View, along
from converter.ir.dims import Shape
from converter.ir.moves import write
from converter.ir.rewrite import Editor

Write: TypeAlias = Callable[[Editor], Value]


def as_it_is(value: Value) -> Write:
    return lambda editor: value


@dataclass(frozen=True)
class Table:
    """A value that is still to be written, half as wide as what it turns, along logical axes."""

    write: Write
    axes: tuple[int | None, ...]


@dataclass(frozen=True)
class Rotation:
    """All that the node takes; ``seq`` is the axis of positions, ``width`` that of elements.

    Of that ``shape``, which may count pairs along one axis where the root has two.
    """

    shape: Shape
    x: View
    cos: Table
    sin: Table
    seq: int
    width: int
    interleaved: bool


def positions(x: View, cos: View, sin: View, width: int, shape: Shape) -> int | str:
    """The one axis besides ``width`` that the tables depend on, or why there is none."""
    if any(t.axes[width] is None for t in (cos, sin)) or not (cos.complete() and sin.complete()):
        return "a table does not vary along the rotated axis"
    seq = {i for t in (cos, sin) for i, a in enumerate(t.axes) if a is not None and i != width}
    if len(seq) != 1:
        return f"the tables depend on {len(seq)} axes besides the rotated one, not on one"
    if not x.fills(shape):
        return "the rotated value is broadcast"
    return seq.pop()


def build_rotary(node: Node, found: Rotation, editor: Editor) -> Value:
    tables = [_table(editor, t, found, node.out.dtype) for t in (found.cos, found.sin)]
    value = write(editor, found.x, found.shape, node.out.dtype)
    params = {"seq": found.seq, "width": found.width, "interleaved": found.interleaved}
    turned = editor.add(ops.rotary, [value, *tables], value.shape, value.dtype, params)
    return editor.reshape(turned, node.out.shape)


def _table(editor: Editor, table: Table, found: Rotation, dtype: np.dtype) -> Value:
    shape = (found.shape[found.seq], found.shape[found.width] // 2)
    view = along(table.write(editor), (table.axes[found.seq], table.axes[found.width]))
    return write(editor, view, shape, dtype)
