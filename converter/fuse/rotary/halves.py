"""Halves of a value along an axis: concatenations of halves, and halves that are equal.

Halves are the first and the second one, or the even and the odd elements, in any form:
``x[..., :n]``, ``x.reshape(…, 2, n)[…, 0, :]``, ``x[..., ::2]``, ``x.reshape(…, n, 2)[…, 0]``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from converter.fuse.dependence import constant_array, record_fact
from converter.ir import Node, Value, dims, ops
from converter.ir.axes import Factor, View, as_group, view_of
from converter.ir.dims import Shape
from converter.ir.evaluation import bound_array
from converter.ir.moves import (
    UNCUT_MOVES,
    emit_view,
    look_through,
    view_of_concatenated_operand,
    view_of_operand,
)
from converter.ir.op import Op
from converter.ir.origins import ancestors
from converter.ir.rewrite import Editor

EmitValue: TypeAlias = Callable[[Editor], Value]
"""A function that emits a value."""


@dataclass(frozen=True)
class JoinedHalves:
    """Two halves along an axis of a view, which are the operands of the concatenation ``node``.

    With ``interleaved``, ``first`` has the even elements of the view and ``second`` the odd ones.
    """

    node: Node
    first: View
    second: View
    axis: int
    interleaved: bool


def match_stacked_halves(node: Node) -> tuple[JoinedHalves, Shape] | None:
    """Match a concatenation of two values [..., n, 1, ...] to pairs [..., n, 2, ...].

    Return the two as halves of the value [..., 2n, ...] in which the axis of pairs is merged with
    the axis before it, and its shape. Return None for other nodes.
    """
    last, shape = node.params.get("dimension", 0), node.out.shape
    if node.op is not ops.concatenate or last == 0 or not dims.is_same_dim(shape[last], 2):
        return None
    merged = (*shape[: last - 1], dims.as_dim(shape[last - 1] * 2), *shape[last + 1 :])
    view = view_of(node.out)
    pair = as_group((*view.groups[last - 1], *view.groups[last]))
    groups = (*view.groups[: last - 1], pair, *view.groups[last + 1 :])
    halves = match_joined_halves(view._replace(groups=groups))
    return None if halves is None else (halves, merged)


def match_joined_halves(view: View) -> JoinedHalves | None:
    """Match a view whose halves along an axis are the two operands of a concatenation.

    The halves may be the first and the second, or the even and the odd elements. Return None for
    other views, or if the width is not static.
    """
    node = view.base.node
    while node is not None and node.op in UNCUT_MOVES:
        node = node.inputs[0].node
    if node is None or node.op is not ops.concatenate or len(node.inputs) != 2:
        return None
    view = look_through(view, reach="factors")
    if view.base.node is not node:
        return None
    for axis, group in enumerate(view.groups):
        width = dims.size_product([factor.size for factor in group])
        if node.params["dimension"] not in (f.axis for f in group):
            continue
        if not dims.is_static(width) or width % 2:
            # Sizes with symbolic dimensions are not compared, because that takes seconds.
            continue
        for stride, second in ((1, width // 2), (2, 1)):
            cuts = (view.slice_axis(axis, start, width // 2, stride) for start in (0, second))
            one, other = (
                None if cut is None else view_of_concatenated_operand(cut) for cut in cuts
            )
            if one is not None and other is not None:
                return JoinedHalves(node, look_through(one), look_through(other), axis, stride == 2)
    return None


def unite_halves(first: View, second: View, axis: int, interleaved: bool) -> View | None:
    """Return the view whose halves along ``axis`` are two views of the same value.

    With ``interleaved``, the halves are the even and the odd elements. Return None if the views are
    no halves of one value.
    """
    one, other, unified = first, second, None
    while one.groups == other.groups and len(one.starts) == len(other.starts):
        steps = [dims.as_dim(b - a) for a, b in zip(one.starts, other.starts, strict=True)]
        moved = [i for i, step in enumerate(steps) if not dims.is_same_dim(step, 0)]
        if one.base is other.base and len(moved) == 1 and dims.is_at_least(steps[moved[0]], 1):
            pair, half = Factor(moved[0], steps[moved[0]], 2), one.groups[axis]
            group = as_group((*half, pair) if interleaved else (pair, *half))
            groups = (*one.groups[:axis], group, *one.groups[axis + 1 :])
            unified = one._replace(groups=groups)
            if unified.has_full_axes:
                return look_through(unified)
        upper, lower = view_of_operand(one), view_of_operand(other)
        if upper is None or lower is None:
            break
        one, other = upper, lower
    return unified


# ------------------------------------------------------------------------------------------- tables


def match_equal_halves(
    value: Value, axis: int, interleaved: bool, memo: dict[Any, Any]
) -> EmitValue | str:
    """Return a function that emits one half of ``value`` along ``axis`` if both halves are equal.

    Return a text, the reason for a near miss, if they may differ. With ``interleaved``, the halves
    are the even and the odd elements. ``memo`` caches the result, because all layers of a network
    read the same tables.

    Rotary tables are usually tiled to the full width. The fused operator takes half of a table, so
    that both halves have to be equal. The proof follows the operations that compute the table. If
    that fails, it compares the numbers, if all parameters that the table depends on have arrays.
    The function then records that the rewrite relies on these numbers.
    """
    key = (id(value), axis, interleaved)
    if key not in memo:
        # The memo keeps a reference to the value, so that no other value can get the same id.
        memo[key] = value, _compare_halves(value, axis, interleaved, memo)
    return memo[key][1]


def _compare_halves(
    value: Value, axis: int, interleaved: bool, memo: dict[Any, Any]
) -> EmitValue | str:
    """Return a function that emits one half of a table, or the reason why the halves may differ.

    The arguments have the same meaning as in `match_equal_halves`.
    """
    width = value.shape[axis] // 2
    stride, second = (2, 1) if interleaved else (1, width)
    one, other = (view_of(value).slice_axis(axis, start, width, stride) for start in (0, second))
    shape = tuple(width if i == axis else d for i, d in enumerate(value.shape))
    half = _compare_tables(one, other, shape)
    if half or one is None or other is None:
        return half or "a table has no halves"
    numbers = bound_array(value, memo)
    columns = "neighbours in" if interleaved else "two halves of"
    if numbers is None:
        is_open = any(v.kind == "param" and v.bound is None for v in ancestors(value))
        cause = ": it is made from a parameter that has no value yet" if is_open else ""
        return f"the {columns} a table cannot be shown to be equal{cause}"
    return _compare_numbers(one, other, numbers, shape) or (
        f"the {columns} a table differ, which is no rotation"
    )


def equal_tables(
    one: View, other: View, shape: Shape, sign: int, memo: dict[Any, Any]
) -> EmitValue | None:
    """Return a function that emits ``one`` in this shape if it equals ``sign * other``, otherwise
    None.

    The two views are compared by their operations, then by their numbers if these are known.
    ``sign`` is 1 or -1.
    """
    table = _compare_tables(one, other, shape, sign)
    if table is not None:
        return table
    one, other = (look_through(v, conversions="none", reach="parts") for v in (one, other))
    if not one.has_nested_factors():
        return None
    if one.base is other.base:
        return _compare_numbers(one, other, bound_array(one.base, memo), shape, sign)
    first, second = constant_array(one.base), constant_array(other.base)
    if first is None or second is None:
        return None
    is_equal = np.array_equal(_read_elements(first, one), sign * _read_elements(second, other))
    return (lambda editor: emit_view(editor, one, shape)) if is_equal else None


def _strip_negations(view: View) -> tuple[View, int]:
    """Return a view of the value before negations, and 1 or -1 as the sign of the negations."""
    sign, view = 1, look_through(view, conversions="none", reach="parts")
    while view.op() is ops.neg:
        sign, view = -sign, look_through(view.operand(0), conversions="none", reach="parts")
    return view, sign


def _compare_tables(
    one: View | None, other: View | None, shape: Shape, sign: int = 1
) -> EmitValue | None:
    """Return a function that emits ``one`` in this shape if it equals ``sign * other``, otherwise
    None.

    The operations that compute both are compared. The numbers are compared only of constants and
    parameters at which these operations end. Return None if one of the views is None.
    """
    if one is None or other is None:
        return None
    one, other = (look_through(v, conversions="none", reach="parts") for v in (one, other))
    (bare_one, one_sign), (bare_other, other_sign) = _strip_negations(one), _strip_negations(other)
    if bare_one == bare_other and one_sign == sign * other_sign:
        return lambda editor: emit_view(editor, one, shape)
    if one.base is not other.base or one.groups != other.groups:
        return None
    if one.base.node is None:
        return _compare_numbers(one, other, bound_array(one.base, {}), shape, sign)
    if one.node().op is ops.concatenate:
        return _compare_concatenated(one, other, shape, sign)
    if sign < 0:
        return None
    if one.node().op in _WHOLE_ROWS:
        return _compare_rows(one, other, shape)
    return _compare_operands(one, other, shape) if one.node().op.elementwise else None


def _compare_numbers(
    one: View, other: View, numbers: np.ndarray | None, shape: Shape, sign: int = 1
) -> EmitValue | None:
    """Return a function that emits ``one`` in this shape if it equals ``sign * other``, otherwise
    None.

    Both are views of the same value with the array ``numbers``. None is returned if ``numbers`` is
    None. The returned function also records that the rewrite relies on the equality.
    """

    def holds(numbers: np.ndarray) -> bool:
        return np.array_equal(_read_elements(numbers, one), sign * _read_elements(numbers, other))

    if numbers is None or not holds(numbers):
        return None
    steps = {
        axis: end - start
        for axis, (start, end) in enumerate(zip(one.starts, other.starts, strict=True))
        if end != start
    }
    sentence = _describe_relation(steps, sign)

    def emit_part(editor: Editor) -> Value:
        record_fact(editor, sentence, one.base, holds)
        return emit_view(editor, one, shape)

    return emit_part


def _describe_relation(steps: dict[int, Any], sign: int) -> str:
    """Return a sentence about two parts of an array that are equal, or opposite if ``sign`` is
    negative.

    ``steps`` contains the distances between the parts, by axis.
    """
    if len(steps) != 1 or sign < 0:
        return f"parts along axes {[*steps]} are {'equal' if sign > 0 else 'opposite'}"
    ((axis, step),) = steps.items()
    return f"{'neighbours' if step == 1 else 'both halves'} along axis {axis} are equal"


def _read_elements(numbers: np.ndarray, view: View) -> np.ndarray:
    """Return the elements that a view selects from an array, with one axis for each factor of the
    view."""
    array = numbers[tuple(slice(start, None) for start in view.starts)]
    factors = [factor for group in view.groups for factor in group]
    steps = [0 if f.axis is None else f.stride * array.strides[f.axis] for f in factors]
    return np.lib.stride_tricks.as_strided(array, [f.size for f in factors], steps)


def _compare_operands(one: View, other: View, shape: Shape) -> EmitValue | None:
    """Return a function that emits ``one`` if it equals ``other``, otherwise None.

    Both are views of an elementwise node, whose operands are compared. ``shape`` is that of
    ``one``.
    """
    node, parts = one.node(), list[EmitValue]()
    for i, value in enumerate(node.inputs):
        first, second = one.operand(i), other.operand(i)
        emit_half = _compare_tables(
            first, second, first.unbroadcast_shape(shape) if value.rank else ()
        )
        if emit_half is None:
            return None
        parts.append(emit_half)
    return lambda editor: editor.copy_with_operands(
        node, [emit_half(editor) for emit_half in parts], shape
    )


def _compare_concatenated(one: View, other: View, shape: Shape, sign: int) -> EmitValue | None:
    """Return a function that emits ``one`` if it equals ``sign * other``, otherwise None.

    Both are views of a concatenation, whose operands are compared. ``shape`` is that of ``one``.
    """
    axis, offset, parts = one.node().params["dimension"], 0, list[EmitValue]()
    if axis not in one.axes or not dims.is_same_dim(
        shape[one.axes.index(axis)], one.base.shape[axis]
    ):
        return None
    position = one.axes.index(axis)
    for value in one.node().inputs:
        size = value.shape[axis]
        part_shape = (*shape[:position], size, *shape[position + 1 :])
        first, second = (view.slice_axis(position, offset, size) for view in (one, other))
        emit_half = _compare_tables(first, second, part_shape, sign)
        if emit_half is None:
            return None
        parts.append(emit_half)
        offset += size
    return lambda editor: editor.concatenate([emit_half(editor) for emit_half in parts], position)


def _compare_rows(one: View, other: View, shape: Shape) -> EmitValue | None:
    """Return a function that emits ``one`` if it equals ``other``, otherwise None.

    Both are views of rows that a gather or dynamic slice selects from a table. The two parts of the
    table are compared. ``shape`` is that of ``one``.
    """
    node = one.node()
    pairs = enumerate(zip(one.starts, other.starts, strict=True))
    halved = [axis for axis, pair in pairs if _differ(*pair)]
    table_axis = _WHOLE_ROWS[node.op](node, halved[0]) if len(halved) == 1 else None
    table, sizes = node.inputs[0], list(node.params["slice_sizes"])
    if table_axis is None or not dims.is_same_dim(sizes[table_axis], table.shape[table_axis]):
        return None
    if not _has_full_other_axes(one, halved[0]):
        return None
    (factor,) = one.factors(halved[0])
    first, second = (
        view_of(table).slice_axis(table_axis, view.starts[halved[0]], factor.size, factor.stride)
        for view in (one, other)
    )
    emit_half = _compare_tables(first, second, _with_size(table.shape, table_axis, factor.size))
    if emit_half is None:
        return None
    sizes[table_axis] = factor.size
    row_shape = _with_size(node.out.shape, halved[0], factor.size)

    def emit_rows(editor: Editor) -> Value:
        operands = [emit_half(editor), *node.inputs[1:]]
        half = editor.copy_with_operands(node, operands, row_shape, slice_sizes=tuple(sizes))
        return emit_view(editor, view_of(half, one.axes), shape)

    return emit_rows


def _differ(one: dims.Dim, other: dims.Dim) -> bool:
    return not dims.is_same_dim(one, other)


def _with_size(shape: Shape, axis: int, size: dims.Dim) -> Shape:
    """Return a shape with another size of one axis."""
    return (*shape[:axis], size, *shape[axis + 1 :])


def _has_full_other_axes(view: View, halved: int) -> bool:
    """Return True if the view has all axes of its base in full except ``halved``.

    The axis ``halved`` of the base must be a single axis of the view. It may be cut.
    """
    if halved not in view.axes:
        return False
    unsplit = view.replace_axis(view.axes.index(halved), halved)
    starts = tuple(0 if axis == halved else start for axis, start in enumerate(view.starts))
    return unsplit._replace(starts=starts).has_full_axes


def _gathered_axis(node: Node, axis: int) -> int | None:
    """Return the axis of a gather's operand that is axis ``axis`` of its result.

    Return None if there is none, or if indices select along it.
    """
    numbers = node.params["dimension_numbers"]
    batched = numbers.operand_batching_dims
    removed = (*numbers.collapsed_slice_dims, *batched)
    window_axes = [a for a in range(node.inputs[0].rank) if a not in removed]
    offsets = list(numbers.offset_dims)
    gathered_axis = window_axes[offsets.index(axis)] if axis in offsets else None
    return None if gathered_axis in numbers.start_index_map else gathered_axis


_WHOLE_ROWS: dict[Op, Callable[[Node, int], int | None]] = {
    ops.gather: _gathered_axis,
    ops.dynamic_slice: lambda _, axis: axis,
}
"""The operations that select rows of a table, each with a function from an axis of the result to
the axis of the table."""
