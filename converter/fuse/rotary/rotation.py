"""The evidence of a rotation, and the node that is emitted for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from converter.fuse.factors import read_factors
from converter.fuse.match import MatchContext, operands
from converter.fuse.rotary.halves import EmitValue
from converter.ir import Value, ops
from converter.ir.axes import View, view_of
from converter.ir.dims import Shape
from converter.ir.moves import emit_view
from converter.ir.rewrite import Editor

Table: TypeAlias = tuple[EmitValue, tuple[int | None, ...]]
"""A function that emits half of a table, and its axes of positions and of elements."""


@dataclass(frozen=True)
class MatchedRotation:
    """The operands of a rotary embedding.

    - `shape`: the shape of the rotated value. Where the matched node has an axis of pairs, it is
      merged with the axis before it.
    - `x`: the value, along the axes of `shape`.
    - `tables`: the tables of cosines and of sines. Each is a function that emits a table of half
      the width, and the axes of that table that are `positions` and then `width`. None stands for
      an axis along which the table does not vary.
    - `positions`: the axes besides `width` along which the tables vary. The last one is the axis of
      positions; the others are batch axes.
    - `width`: the axis of the rotated elements.
    - `interleaved`: whether neighbours are rotated together, and not the halves of `width`.
    """

    shape: Shape
    x: View
    tables: tuple[Table, ...]
    positions: tuple[int, ...]
    width: int
    interleaved: bool


def match_rotation(
    shape: Shape,
    x: View,
    tables: Sequence[View],
    width: int,
    interleaved: bool,
    match_half: Callable[[View], EmitValue | str],
    backwards: bool = False,
) -> MatchedRotation | str:
    """Return the rotation of ``x`` by two tables, or the reason why it cannot be emitted.

    **Arguments**

    - `shape`: the shape of the rotated value.
    - `x`: the value before the rotation.
    - `tables`: the cosines and the sines, along the axes of `shape`.
    - `width`: the axis of the rotated elements.
    - `interleaved`: whether neighbours are rotated together, and not the halves of `width`.
    - `match_half`: returns a function that emits half of a table, or the reason why there is none.
    - `backwards`: whether the sines have the opposite sign.
    """
    positions = _positions(x, tables, width, shape)
    if isinstance(positions, str):
        return positions
    halves: list[Table] = []
    for table in tables:
        emit_half = match_half(table)
        if isinstance(emit_half, str):
            return emit_half
        if backwards and halves:
            emit_half = partial(_emit_negated, emit_half)
        halves.append((emit_half, tuple(table.axes[i] for i in (*positions, width))))
    return MatchedRotation(shape, x, tuple(halves), positions, width, interleaved)


def _emit_negated(emit_table: EmitValue, editor: Editor) -> Value:
    """Emit a table with the function ``emit_table``, and negate it."""
    table = emit_table(editor)
    return editor.add(ops.neg, [table], table.shape, table.dtype)


def _positions(x: View, tables: Sequence[View], width: int, shape: Shape) -> tuple[int, ...] | str:
    """Return the axes besides ``width`` along which the tables vary, or the reason for a near miss.

    Axes after ``width`` come first, then those before it, each in ascending order. The last one is
    the axis of positions; the others are batch axes.
    """
    if any(t.axes[width] is None or not t.has_all_base_axes() for t in tables):
        return "a table does not vary along the rotated axis"
    axes = {i for t in tables for i, a in enumerate(t.axes) if a is not None and i != width}
    if not axes:
        return "the tables do not depend on a position"
    ordered = tuple(sorted(axes, key=lambda i: (i < width, i)))
    return ordered if x.has_no_broadcast_axes(shape) else "the rotated value is broadcast"


def emit_rotation(rotation: MatchedRotation, dtype: np.dtype, editor: Editor) -> Value:
    """Emit a rotary embedding in ``dtype`` and return its result, which has the shape
    ``rotation.shape``."""
    sizes = tuple(rotation.shape[i] for i in rotation.positions)
    table_shape = (*sizes, rotation.shape[rotation.width] // 2)
    tables = [
        emit_view(editor, view_of(emit_half(editor), axes), table_shape, dtype)
        for emit_half, axes in rotation.tables
    ]
    value = emit_view(editor, rotation.x, rotation.shape, dtype)
    params = {
        "positions": rotation.positions,
        "width": rotation.width,
        "interleaved": rotation.interleaved,
    }
    return editor.add(ops.rotary, [value, *tables], value.shape, value.dtype, params)


# ------------------------------------------------------------------------------- sums of products

SIGNS = {ops.add: 1, ops.sub: -1}
"""The sign of the second term of a sum and of a difference."""

SignedProduct: TypeAlias = tuple[int, tuple[View, ...]]
"""A sign and the two factors of a product."""


def signed_products(view: View, context: MatchContext) -> list[SignedProduct] | None:
    """Return the two terms of a sum or difference if both are products of two factors.

    A term has 1 or -1 as its sign, which is -1 for a subtracted or negated product. Return None for
    other views, or if a product has another coefficient than 1 or -1.
    """
    op = view.op()
    if op not in SIGNS:
        return None
    products: list[SignedProduct] = []
    for sign, term in zip((1, SIGNS[op]), operands(view), strict=True):
        if term.op() not in (ops.mul, ops.neg):
            return None
        parts = read_factors(term, context)
        if abs(parts.coefficient) != 1 or parts.divisors or len(parts.factors) != 2:
            return None
        products.append((sign * int(parts.coefficient), parts.factors))
    return products
