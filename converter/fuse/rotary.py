"""Rotary position embedding [Su et al., arXiv:2104.09864], half-split and interleaved.

Two spellings: ``x * cos + rotate(x) * sin`` with full-width tables whose halves must be shown to be
equal, and the pairwise one, ``concatenate(a*cos - b*sin, b*cos + a*sin)``.
"""

from __future__ import annotations

from dataclasses import dataclass

from converter.fuse import tables
from converter.fuse.match import (
    NearMiss,
    Recogniser,
    View,
    materialise,
    operands,
    peel,
    product,
    whole,
)
from converter.graph import Node, Value, dims
from converter.graph.origins import ancestors
from converter.graph.rewrite import Editor
from converter.graph.slices import cut_axes


@dataclass(frozen=True)
class Part:
    """One half of a value along an axis: the first or second half, or the even or odd elements."""

    base: Value
    axis: int
    second: bool
    interleaved: bool


def _part(value: Value) -> Part | None:
    """The half that a slice takes, if it takes one."""
    node = value.node
    if node is None or node.op != "slice":
        return None
    source = node.inputs[0]
    starts, limits = node.params["start_indices"], node.params["limit_indices"]
    strides = node.params["strides"]
    cut = cut_axes(node)
    if len(cut) != 1 or not dims.is_static(source.shape[cut[0]]):
        return None
    axis = cut[0]
    width, start, stride = source.shape[axis], starts[axis], strides[axis]
    if width % 2 or value.shape[axis] * 2 != width:
        return None
    if stride == 2 and start in (0, 1):
        return Part(source, axis, start == 1, True)
    if stride == 1 and (start, limits[axis]) in ((0, width // 2), (width // 2, width)):
        return Part(source, axis, start > 0, False)
    return None


# --------------------------------------------------------------- x * cos + rotate(x) * sin


def _full(node: Node, editor: Editor, notes: list[NearMiss]) -> Value | None:
    root = View(node.out, tuple(range(node.out.rank)))
    terms = [product(t, editor) for t in operands(root)]
    if any(t.coefficient != 1 or t.divisors or len(t.factors) != 2 for t in terms):
        return None
    for straight, turned in (terms, terms[::-1]):
        for rotated, sin in (turned.factors, turned.factors[::-1]):
            found = _rotate_half(rotated, editor)
            if found is None:
                continue
            x, axis, interleaved = found
            for plain, cos in (straight.factors, straight.factors[::-1]):
                if plain == x:
                    return _emit_full(node, editor, notes, x, cos, sin, axis, interleaved)
    return None


def _rotate_half(view: View, editor: Editor) -> tuple[View, int, bool] | None:
    """(x, logical axis, interleaved) where the view is ``(-b, a)`` of the halves ``a, b`` of x."""
    joined = _joined(view)
    if joined is None:
        return None
    b, a = (_signed_part(v, editor) for v in joined.node.inputs)
    if a is None or b is None or joined.along not in joined.axes or (b[1], a[1]) != (-1, 1):
        return None
    (second, _, order), (first, _, other) = b, a
    halves = second.second and not first.second and first.base is second.base
    kinds = first.interleaved == second.interleaved == joined.interleaved
    if not halves or not kinds or order != other or order[joined.along] != first.axis:
        return None
    inner = tuple(None if i is None else order[i] for i in joined.axes)
    return peel(View(first.base, inner)), joined.axes.index(joined.along), joined.interleaved


@dataclass(frozen=True)
class Joined:
    """Two halves put together: one after the other, or taking turns."""

    node: Node  # the concatenation
    axes: tuple[int | None, ...]  # logical axis -> axis of the concatenation
    along: int  # the axis, of the concatenation, that counts the pairs or elements
    interleaved: bool


def _joined(view: View) -> Joined | None:
    if view.op() == "concatenate" and len(view.node().inputs) == 2:
        return Joined(view.node(), view.axes, view.node().params["dimension"], False)
    if view.op() != "reshape":
        return None
    # [..., n, 2] -> [..., 2n] interleaves what is concatenated along the last axis
    node = view.node()
    pairs = node.inputs[0]
    inner = whole(pairs)
    if inner.op() != "concatenate" or len(inner.node().inputs) != 2 or pairs.rank < 2:
        return None
    merged = (*pairs.shape[:-2], dims.as_dim(pairs.shape[-2] * 2))
    last = inner.axes[-1] == inner.node().params["dimension"] and dims.same(pairs.shape[-1], 2)
    along = inner.axes[-2]
    if not last or along is None or not dims.same_shape(merged, node.out.shape):
        return None
    axes = tuple(None if a is None else inner.axes[a] for a in view.axes)
    return Joined(inner.node(), axes, along, True)


def _signed_part(value: Value, editor: Editor) -> tuple[Part, float, tuple[int | None, ...]] | None:
    """(half, sign, axes): a half of something, plain or negated, in any layout."""
    parts = product(whole(value), editor)
    if len(parts.factors) != 1 or parts.divisors:
        return None
    view = peel(parts.factors[0])
    half = _part(view.base)
    return None if half is None else (half, parts.coefficient, view.axes)


def _emit_full(
    node: Node,
    editor: Editor,
    notes: list[NearMiss],
    x: View,
    cos: View,
    sin: View,
    axis: int,
    interleaved: bool,
) -> Value | None:
    seq = _position_axis(x, cos, sin, axis, node.out)
    if isinstance(seq, str):
        notes.append(NearMiss("RotaryEmbedding", seq))
        return None
    halves: list[Value] = []
    for view in (cos, sin):
        table = _oriented(editor, view, (seq, axis), node.out)
        half = tables.half(editor, table, 1, interleaved)
        if half is None:
            given = ": it is a parameter, which may get other numbers" if _is_given(table) else ""
            reason = f"the two halves of a table cannot be shown to be equal{given}"
            notes.append(NearMiss("RotaryEmbedding", reason))
            return None
        halves.append(half)
    return _emit(node, editor, x, halves[0], halves[1], seq, axis, interleaved)


def _is_given(table: Value) -> bool:
    return any(v.kind == "param" for v in ancestors(table))


def _position_axis(x: View, cos: View, sin: View, axis: int, out: Value) -> int | str:
    """The one axis besides ``axis`` that the tables depend on, or why there is none."""
    if any(t.axes[axis] is None for t in (cos, sin)) or not (cos.complete() and sin.complete()):
        return "a table does not vary along the rotated axis"
    seq = {i for t in (cos, sin) for i, a in enumerate(t.axes) if a is not None and i != axis}
    if len(seq) != 1:
        return f"the tables depend on {len(seq)} axes besides the rotated one, not on one"
    if not x.fills(out.shape):
        return "the rotated value is broadcast"
    return seq.pop()


def _oriented(editor: Editor, view: View, order: tuple[int, int], out: Value) -> Value:
    """A table as [positions, width]."""
    flat = View(view.base, tuple(view.axes[i] for i in order))
    return materialise(editor, flat, tuple(out.shape[i] for i in order), out.dtype)


def _emit(
    node: Node,
    editor: Editor,
    x: View,
    cos: Value,
    sin: Value,
    seq: int,
    axis: int,
    interleaved: bool,
) -> Value:
    value = materialise(editor, x, node.out.shape, node.out.dtype)
    params = {"seq": seq, "width": axis, "interleaved": interleaved}
    return editor.add("rotary", [value, cos, sin], value.shape, value.dtype, params)


# ------------------------------------------- concatenate(a * cos - b * sin, b * cos + a * sin)


def _pairwise(node: Node, editor: Editor, notes: list[NearMiss]) -> Value | None:
    joined = _joined(View(node.out, tuple(range(node.out.rank))))
    if joined is None or joined.along not in joined.axes:
        return None
    real, imag = (peel(View(v, joined.axes)) for v in joined.node.inputs)
    if real.op() != "sub" or imag.op() != "add":
        return None
    terms = [_half_terms(t, editor) for v in (real, imag) for t in operands(v)]
    if any(t is None for t in terms):
        return None
    ac, bs, *rest = (t for t in terms if t is not None)
    for bc, as_ in (rest, rest[::-1]):
        first, second = ac[0], bs[0]
        halves = not first.second and second.second and first.base is second.base
        crossed = bc[0] == second and as_[0] == first and ac[2] == as_[2] and bs[2] == bc[2]
        same_tables = ac[1] == bc[1] and bs[1] == as_[1]
        if halves and crossed and same_tables and first.interleaved == joined.interleaved:
            axis = joined.axes.index(joined.along)
            return _emit_pairwise(node, editor, notes, ac, bs, axis)
    return None


def _half_terms(term: View, editor: Editor) -> tuple[Part, View, tuple[int | None, ...]] | None:
    """(half of x, table, axes of the half) of a product of the two."""
    parts = product(term, editor)
    if parts.coefficient != 1 or parts.divisors or len(parts.factors) != 2:
        return None
    for half, table in (parts.factors, parts.factors[::-1]):
        part = _part(half.base)
        if part is not None and part.axis in half.axes:
            return part, table, half.axes
    return None


def _emit_pairwise(
    node: Node,
    editor: Editor,
    notes: list[NearMiss],
    first: tuple[Part, View, tuple[int | None, ...]],
    second: tuple[Part, View, tuple[int | None, ...]],
    axis: int,
) -> Value | None:
    part, cos, axes = first
    sin = second[1]
    if axes[axis] != part.axis:
        return None
    x = peel(View(part.base, axes))
    seq = _position_axis(x, cos, sin, axis, node.out)
    if isinstance(seq, str):
        notes.append(NearMiss("RotaryEmbedding", seq))
        return None
    shape = tuple(d // 2 if i == axis else d for i, d in enumerate(node.out.shape))
    half = Value(shape, node.out.dtype)
    return _emit(
        node,
        editor,
        x,
        _oriented(editor, cos, (seq, axis), half),
        _oriented(editor, sin, (seq, axis), half),
        seq,
        axis,
        part.interleaved,
    )


def _rotary(node: Node, editor: Editor, notes: list[NearMiss]) -> Value | None:
    return _full(node, editor, notes) if node.op == "add" else _pairwise(node, editor, notes)


ROTARY = Recogniser(("add", "concatenate", "reshape"), _rotary)
