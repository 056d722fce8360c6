"""Two halves of a value along an axis: put together, what they are the halves of, equal ones.

A half is the first or the second one, or the even or the odd elements, however it is written:
``x[..., :n]``, ``x.reshape(…, 2, n)[…, 0, :]``, ``x[..., ::2]``, ``x.reshape(…, n, 2)[…, 0]``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from converter.fuse.dependence import known, rely
from converter.fuse.match import PEELED, peel, through
from converter.ir import Node, Value, dims, ops
from converter.ir.axes import Factor, View, along, as_group
from converter.ir.dims import Shape
from converter.ir.evaluation import bound
from converter.ir.moves import above, descended, part, write
from converter.ir.op import Op
from converter.ir.origins import ancestors
from converter.ir.rewrite import Editor

Write: TypeAlias = Callable[[Editor], Value]
"""A value that is still to be written."""


@dataclass(frozen=True)
class JoinedHalves:
    """Two halves along a logical axis: one after the other, or taking turns."""

    node: Node  # the concatenation
    first: View
    second: View
    axis: int
    interleaved: bool


def stacked(node: Node) -> tuple[JoinedHalves, Shape] | None:
    """Views that take turns along an axis of two, [..., n, 2, ...], which its reader reshapes to
    [..., 2n, ...]; and that shape."""
    last, shape = node.params.get("dimension", 0), node.out.shape
    if node.op is not ops.concatenate or last == 0 or not dims.same(shape[last], 2):
        return None
    merged = (*shape[: last - 1], dims.as_dim(shape[last - 1] * 2), *shape[last + 1 :])
    seen = along(node.out)
    pair = as_group((*seen.groups[last - 1], *seen.groups[last]))
    groups = (*seen.groups[: last - 1], pair, *seen.groups[last + 1 :])
    halves = joined_halves(seen._replace(groups=groups))
    return None if halves is None else (halves, merged)


def joined_halves(view: View) -> JoinedHalves | None:
    """The two values that are the halves of a view."""
    node, seen = view.base.node, view
    while node is not None and node.op in PEELED:
        node = node.inputs[0].node
    if node is None or node.op is not ops.concatenate or len(node.inputs) != 2:
        return None
    while seen.base.node is not node:
        inner = through(seen)
        if inner is None:
            return None
        seen = inner
    for axis, group in enumerate(seen.groups):
        width = dims.size_product([factor.size for factor in group])
        if node.params["dimension"] not in (f.axis for f in group):
            continue
        if not dims.is_static(width) or width % 2:  # what is known of open sizes takes seconds
            continue
        for stride, second in ((1, width // 2), (2, 1)):
            cuts = (seen.cut(axis, start, width // 2, stride) for start in (0, second))
            one, other = (None if cut is None else part(cut) for cut in cuts)
            if one is not None and other is not None:
                return JoinedHalves(node, peel(one), peel(other), axis, stride == 2)
    return None


def united(first: View, second: View, axis: int, interleaved: bool) -> View | None:
    """Value whose halves along an axis two views are."""
    one, other, unified = first, second, None
    while one.groups == other.groups and len(one.starts) == len(other.starts):
        steps = [dims.as_dim(b - a) for a, b in zip(one.starts, other.starts, strict=True)]
        moved = [i for i, step in enumerate(steps) if not dims.same(step, 0)]
        if one.base is other.base and len(moved) == 1 and dims.is_at_least(steps[moved[0]], 1):
            both, own = Factor(moved[0], steps[moved[0]], 2), one.groups[axis]
            group = as_group((*own, both) if interleaved else (both, *own))
            groups = (*one.groups[:axis], group, *one.groups[axis + 1 :])
            unified = one._replace(groups=groups)
            if unified.is_whole:
                return peel(unified)
        upper, lower = above(one), above(other)
        if upper is None or lower is None:
            break
        one, other = upper, lower
    return unified


# ------------------------------------------------------------------------------------------- tables


def distinct_half(value: Value, axis: int, interleaved: bool, memo: dict[Any, Any]) -> Write | str:
    """The distinct half of ``value`` along ``axis``, or why there is none.

    Rotary tables are usually tiled to the full width. The fused operator wants half of one, so the
    equality of the two has to be proved: from how the table is made, or from its numbers, where
    parameters have any. All layers of a network read the same tables, which are proved once.
    """
    key = (id(value), axis, interleaved)
    if key not in memo:  # held there, so that nothing else gets its id
        memo[key] = value, _proved_half(value, axis, interleaved, memo)
    return memo[key][1]


def _proved_half(value: Value, axis: int, interleaved: bool, memo: dict[Any, Any]) -> Write | str:
    width = value.shape[axis] // 2
    stride, second = (2, 1) if interleaved else (1, width)
    one, other = (along(value).cut(axis, start, width, stride) for start in (0, second))
    shape = tuple(width if i == axis else d for i, d in enumerate(value.shape))
    tables = _tables_either(one, other, shape)
    if tables or one is None or other is None:
        return tables or "a table has no halves"
    numbers = bound(value, memo)
    columns = "neighbours in" if interleaved else "two halves of"
    if numbers is None:
        empty = any(v.kind == "param" and v.bound is None for v in ancestors(value))
        why = ": it is made from a parameter that has no value yet" if empty else ""
        return f"the {columns} a table cannot be shown to be equal{why}"
    return _by_numbers(one, other, numbers, shape) or (
        f"the {columns} a table differ, which is no rotation"
    )


def equal_tables(
    one: View, other: View, shape: Shape, sign: int, memo: dict[Any, Any]
) -> Write | None:
    """Return a function that emits ``one`` if it is ``sign * other``, or None."""
    table = _tables_either(one, other, shape, sign)
    if table is not None:
        return table
    one, other = descended(one), descended(other)
    if not one.is_writable():
        return None
    if one.base is other.base:
        return _by_numbers(one, other, bound(one.base, memo), shape, sign)
    numbers = [known(view.base) for view in (one, other)]
    if numbers[0] is None or numbers[1] is None:
        return None
    first, second = (_part(array, view) for array, view in zip(numbers, (one, other), strict=True))
    return (
        (lambda editor: write(editor, one, shape)) if np.array_equal(first, sign * second) else None
    )


def _unsigned(view: View) -> tuple[View, int]:
    """Return a view without negations, and its sign."""
    sign, view = 1, descended(view)
    while view.op() is ops.neg:
        sign, view = -sign, descended(view.operand(0))
    return view, sign


def _tables_either(
    one: View | None, other: View | None, shape: Shape, sign: int = 1
) -> Write | None:
    """Return a function that emits ``one`` if it is ``sign * other``, or None."""
    if one is None or other is None:
        return None
    one, other = descended(one), descended(other)
    (bare_one, one_sign), (bare_other, other_sign) = _unsigned(one), _unsigned(other)
    if bare_one == bare_other and one_sign == sign * other_sign:
        return lambda editor: write(editor, one, shape)
    if one.base is not other.base or one.groups != other.groups:
        return None
    if one.base.node is None:
        return _by_numbers(one, other, bound(one.base, {}), shape, sign)
    if one.node().op is ops.concatenate:
        return _of_joined(one, other, shape, sign)
    if sign < 0:
        return None
    if one.node().op in _WHOLE_ROWS:
        return _of_rows(one, other, shape)
    return _of_elements(one, other, shape) if one.node().op.elementwise else None


def _by_numbers(
    one: View, other: View, numbers: np.ndarray | None, shape: Shape, sign: int = 1
) -> Write | None:
    """Return a function that emits one of two parts of an array if it is ``sign`` times the other
    part, or None."""

    def holds(numbers: np.ndarray) -> bool:
        return np.array_equal(_part(numbers, one), sign * _part(numbers, other))

    if numbers is None or not holds(numbers):
        return None
    steps = [b - a for a, b in zip(one.starts, other.starts, strict=True)]
    moved = [i for i, step in enumerate(steps) if step]
    if not moved:
        return None
    axis = moved[0]
    what = f"{'neighbours' if steps[axis] == 1 else 'both halves'} along axis {axis} are equal"
    if len(moved) > 1:
        what = (
            f"entries of the matrices along axes {moved} are {'equal' if sign > 0 else 'opposite'}"
        )

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
        own_half = _tables_either(first, second, first.bare(shape) if value.rank else ())
        if own_half is None:
            return None
        parts.append(own_half)
    return lambda editor: editor.like(node, [own_half(editor) for own_half in parts], shape)


def _of_joined(one: View, other: View, shape: Shape, sign: int) -> Write | None:
    """Rows, or pairs that lie within their parts."""
    axis, offset, parts = one.node().params["dimension"], 0, list[Write]()
    if axis not in one.axes or not dims.same(shape[one.axes.index(axis)], one.base.shape[axis]):
        return None
    place = one.axes.index(axis)
    for value in one.node().inputs:
        size = value.shape[axis]
        own = (*shape[:place], size, *shape[place + 1 :])
        cuts = (view.cut(place, offset, size) for view in (one, other))
        own_half = _tables_either(*cuts, own, sign)
        if own_half is None:
            return None
        parts.append(own_half)
        offset += size
    return lambda editor: editor.concatenate([own_half(editor) for own_half in parts], place)


def _of_rows(one: View, other: View, shape: Shape) -> Write | None:
    """Rows that are taken whole, by indices: the same rows of half a table."""
    node = one.node()
    cut = [a for a, pair in enumerate(zip(one.starts, other.starts, strict=True)) if _differ(*pair)]
    own_axis = _WHOLE_ROWS[node.op](node, cut[0]) if len(cut) == 1 else None
    table, sizes = node.inputs[0], list(node.params["slice_sizes"])
    if own_axis is None or not dims.same(sizes[own_axis], table.shape[own_axis]):
        return None
    if not _is_rest_whole(one, cut[0]):
        return None
    (factor,) = one.factors(cut[0])
    first, second = (
        along(table).cut(own_axis, seen.starts[cut[0]], factor.size, factor.stride)
        for seen in (one, other)
    )
    own_half = _tables_either(first, second, _sized(table.shape, own_axis, factor.size))
    if own_half is None:
        return None
    sizes[own_axis] = factor.size
    taken = _sized(node.out.shape, cut[0], factor.size)

    def written(editor: Editor) -> Value:
        rows = [own_half(editor), *node.inputs[1:]]
        half = editor.like(node, rows, taken, slice_sizes=tuple(sizes))
        return write(editor, along(half, one.axes), shape)

    return written


def _differ(one: dims.Dim, other: dims.Dim) -> bool:
    return not dims.same(one, other)


def _sized(shape: Shape, axis: int, size: dims.Dim) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _is_rest_whole(seen: View, cut: int) -> bool:
    """Whether each axis is one of the base, and all but one are whole."""
    if cut not in seen.axes:
        return False
    whole = seen.put(seen.axes.index(cut), cut)
    starts = tuple(0 if a == cut else start for a, start in enumerate(seen.starts))
    return whole._replace(starts=starts).is_whole


def _gathered_axis(node: Node, axis: int) -> int | None:
    """The axis of a gather's operand that is that of its result, if no index goes along it."""
    numbers = node.params["dimension_numbers"]
    batched = numbers.operand_batching_dims
    kept = [
        a for a in range(node.inputs[0].rank) if a not in (*numbers.collapsed_slice_dims, *batched)
    ]
    offsets = list(numbers.offset_dims)
    gathered_axis = kept[offsets.index(axis)] if axis in offsets else None
    return None if gathered_axis in numbers.start_index_map else gathered_axis


_WHOLE_ROWS: dict[Op, Callable[[Node, int], int | None]] = {
    ops.gather: _gathered_axis,
    ops.dynamic_slice: lambda _, axis: axis,
}
"""What takes rows of a table, and which of its axes is one of the result's."""
