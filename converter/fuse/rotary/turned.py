"""The spelling ``x * cos + rotate(x) * sin``, where ``rotate`` joins ``-b`` and ``a``."""

from __future__ import annotations

from converter.fuse.match import Uses, operands
from converter.fuse.product_terms import product
from converter.fuse.rotary import tables
from converter.fuse.rotary.halves import joined_halves, united
from converter.fuse.rotary.rotary_build import Rotation, Table, positions
from converter.ir import Node
from converter.ir.axes import View, along
from converter.ir.moves import descended


def prove_turned(node: Node, uses: Uses) -> Rotation | str | None:
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
                if descended(plain) == x:
                    return _rotation(node, plain, cos, sin, width, interleaved, uses)
    return None


def _rotate_half(view: View, uses: Uses) -> tuple[View, int, bool] | None:
    """(x, logical axis, interleaved) where the view is ``(-b, a)`` of the halves ``a, b`` of x."""
    join = joined_halves(view)
    if join is None:
        return None
    parts = [product(half, uses) for half in (join.first, join.second)]
    if [part.coefficient for part in parts] != [-1, 1]:
        return None
    if any(part.divisors or len(part.factors) != 1 for part in parts):
        return None
    (b,), (a,) = (part.factors for part in parts)
    x = united(a, b, join.axis, join.interleaved)
    return None if x is None else (descended(x), join.axis, join.interleaved)


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
