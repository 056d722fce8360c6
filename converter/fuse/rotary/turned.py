"""The spelling ``x * cos + rotate(x) * sin``, where ``rotate`` joins ``-b`` and ``a``."""

from __future__ import annotations

from converter.fuse.match import Uses, operands
from converter.fuse.product_terms import product
from converter.fuse.rotary import tables
from converter.fuse.rotary.halves import Joined, joined_halves, united
from converter.fuse.rotary.rotary_build import Rotation, Write, rotation
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
            x, join = found

            def half(table: View, join: Joined = join) -> Write | str:
                axis = table.axes[join.axis]
                assert axis is not None, table
                return tables.half(table.base, axis, join.interleaved, uses.memo)

            for plain, cos in (straight.factors, straight.factors[::-1]):
                if descended(plain) == x:
                    return rotation(node.out.shape, plain, (cos, sin), join, half)
    return None


def _rotate_half(view: View, uses: Uses) -> tuple[View, Joined] | None:
    """x, where the view is ``(-b, a)`` of the halves ``a, b`` of x."""
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
    return None if x is None else (descended(x), join)
