"""The spelling ``join(a * cos - b * sin, b * cos + a * sin)`` of the halves ``a`` and ``b``."""

from __future__ import annotations

from dataclasses import dataclass

from converter.fuse.match import Uses, operands, peel
from converter.fuse.products import product
from converter.fuse.rotary.build import Rotation, Table, as_it_is, positions
from converter.fuse.rotary.halves import Part, joined, part
from converter.graph import Node, ops
from converter.graph.axes import View, along


@dataclass(frozen=True)
class Term:
    """A half of x, which has these axes, times a table."""

    part: Part
    table: View
    axes: tuple[int | None, ...]


def prove(node: Node, uses: Uses) -> Rotation | str | None:
    join = joined(along(node.out))
    if join is None or join.along not in join.axes:
        return None
    real, imag = (peel(along(v, join.axes)) for v in join.node.inputs)
    if real.op() is not ops.sub or imag.op() is not ops.add:
        return None
    terms = [t for v in (real, imag) for o in operands(v) if (t := _term(o, uses)) is not None]
    if len(terms) != 4:
        return None
    ac, bs, *rest = terms
    for bc, as_ in (rest, rest[::-1]):
        a, b = ac.part, bs.part
        halves = not a.second and b.second and a.base is b.base
        crossed = bc.part == b and as_.part == a and ac.axes == as_.axes and bs.axes == bc.axes
        same_tables = ac.table == bc.table and bs.table == as_.table
        if halves and crossed and same_tables and a.interleaved == join.interleaved:
            return _rotation(node, ac, bs.table, join.axes.index(join.along))
    return None


def _term(view: View, uses: Uses) -> Term | None:
    parts = product(view, uses)
    if parts.coefficient != 1 or parts.divisors or len(parts.factors) != 2:
        return None
    for half, table in (parts.factors, parts.factors[::-1]):
        found = part(half.base)
        if found is not None and found.axis in half.axes:
            return Term(found, table, half.axes)
    return None


def _rotation(node: Node, first: Term, sin: View, width: int) -> Rotation | str | None:
    if first.axes[width] != first.part.axis:
        return None
    x, cos = peel(along(first.part.base, first.axes)), first.table
    seq = positions(x, cos, sin, width, node.out)
    if isinstance(seq, str):
        return seq
    halves = [Table(as_it_is(view.base), view.axes) for view in (cos, sin)]
    return Rotation(x, halves[0], halves[1], seq, width, first.part.interleaved)
