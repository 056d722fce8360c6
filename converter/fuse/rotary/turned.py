"""The spelling ``x * cos + rotate(x) * sin``, where ``rotate`` joins ``-b`` and ``a``."""

from __future__ import annotations

from converter.fuse.match import Uses, operands, peel, whole
from converter.fuse.products import product
from converter.fuse.rotary import tables
from converter.fuse.rotary.build import Rotation, Table, positions
from converter.fuse.rotary.halves import Part, joined, part
from converter.graph import Node, Value
from converter.graph.axes import View, along


def prove(node: Node, uses: Uses) -> Rotation | str | None:
    root = along(node.out)
    terms = [product(t, uses) for t in operands(root)]
    if any(t.coefficient != 1 or t.divisors or len(t.factors) != 2 for t in terms):
        return None
    for straight, turned in (terms, terms[::-1]):
        for rotated, sin in (turned.factors, turned.factors[::-1]):
            found = _rotate_half(rotated, uses)
            if found is None:
                continue
            x, width, interleaved = found
            for plain, cos in (straight.factors, straight.factors[::-1]):
                if plain == x:
                    return _rotation(node, x, cos, sin, width, interleaved, uses)
    return None


def _rotate_half(view: View, uses: Uses) -> tuple[View, int, bool] | None:
    """(x, logical axis, interleaved) where the view is ``(-b, a)`` of the halves ``a, b`` of x."""
    join = joined(view)
    if join is None:
        return None
    b, a = (_signed_part(v, uses) for v in join.node.inputs)
    if a is None or b is None or join.along not in join.axes or (b[1], a[1]) != (-1, 1):
        return None
    (second, _, order), (first, _, other) = b, a
    halves = second.second and not first.second and first.base is second.base
    kinds = first.interleaved == second.interleaved == join.interleaved
    if not halves or not kinds or order != other or order[join.along] != first.axis:
        return None
    inner = tuple(None if i is None else order[i] for i in join.axes)
    return peel(along(first.base, inner)), join.axes.index(join.along), join.interleaved


def _signed_part(value: Value, uses: Uses) -> tuple[Part, float, tuple[int | None, ...]] | None:
    """(half, sign, axes): a half of something, plain or negated, in any layout."""
    parts = product(whole(value), uses)
    if len(parts.factors) != 1 or parts.divisors:
        return None
    view = peel(parts.factors[0])
    half = part(view.base)
    return None if half is None else (half, parts.coefficient, view.axes)


def _rotation(
    node: Node, x: View, cos: View, sin: View, width: int, interleaved: bool, uses: Uses
) -> Rotation | str:
    seq = positions(x, cos, sin, width, node.out.shape)
    if isinstance(seq, str):
        return seq
    halves: list[Table] = []
    for view in (cos, sin):
        axis = view.axes[width]
        half = "" if axis is None else tables.half(view.base, axis, interleaved, uses.memo)
        if isinstance(half, str):
            return half
        halves.append(Table(half, view.axes))
    return Rotation(node.out.shape, x, halves[0], halves[1], seq, width, interleaved)
