"""The spelling ``join(a * cos - b * sin, b * cos + a * sin)`` of the halves ``a`` and ``b``."""

from __future__ import annotations

from dataclasses import dataclass

from converter.fuse.match import Uses, operands, peel
from converter.fuse.products import product
from converter.fuse.rotary.build import Rotation, Table, as_it_is, positions
from converter.fuse.rotary.halves import Joined, Part, joined, part, stacked
from converter.graph import Node, ops
from converter.graph.axes import View, along
from converter.graph.dims import Shape


@dataclass(frozen=True)
class Term:
    """A half of x, which has these axes, times a table."""

    part: Part
    table: View
    axes: tuple[int | None, ...]


def prove(node: Node, uses: Uses) -> Rotation | str | None:
    """All readers of pairs get what is built, or none: a reshape of them that is turned in between
    has to be the only one."""
    pairs = stacked(node)
    found = None if pairs is None else _rotated(pairs[0], pairs[1], uses)
    join = joined(along(node.out)) if found is None else None
    if join is None or not (join.node is node or _alone(node, join, uses)):
        return found
    return _rotated(join, node.out.shape, uses)


def _alone(node: Node, join: Joined, uses: Uses) -> bool:
    """Whether nothing else reads what lies between two joined halves and the node."""
    value = node.inputs[0]
    while value is not join.node.out and uses.single_use(value):
        assert value.node is not None
        value = value.node.inputs[0]
    return uses.single_use(value)


def _rotated(join: Joined, shape: Shape, uses: Uses) -> Rotation | str | None:
    if join.along not in join.axes:
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
            return _rotation(shape, ac, bs.table, join.axes.index(join.along))
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


def _rotation(shape: Shape, first: Term, sin: View, width: int) -> Rotation | str | None:
    if first.axes[width] != first.part.axis:
        return None
    x, cos = peel(along(first.part.base, first.axes)), first.table
    seq = positions(x, cos, sin, width, shape)
    if isinstance(seq, str):
        return seq
    halves = [Table(as_it_is(view.base), view.axes) for view in (cos, sin)]
    return Rotation(shape, x, halves[0], halves[1], seq, width, first.part.interleaved)
