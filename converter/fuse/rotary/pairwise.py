"""The spelling ``join(a * cos - b * sin, b * cos + a * sin)`` of the halves ``a`` and ``b``."""

from __future__ import annotations

import itertools

from converter.fuse.match import Uses, only_reader, operands
from converter.fuse.product_terms import product
from converter.fuse.rotary.halves import Joined, joined_halves, stacked, united
from converter.fuse.rotary.rotary_build import Rotation, rotation
from converter.ir import Node, ops
from converter.ir.axes import along
from converter.ir.dims import Shape


def prove_pairwise(node: Node, uses: Uses) -> Rotation | str | None:
    """All readers of pairs get what is built, or none: a reshape of them that is turned in between
    has to be the only one."""
    pairs = stacked(node)
    found = None if pairs is None else _rotated(pairs[0], pairs[1], uses)
    join = joined_halves(along(node.out)) if found is None else None
    if join is None or not (join.node is node or only_reader(node.inputs[0], join.node.out, uses)):
        return found
    return _rotated(join, node.out.shape, uses)


def _rotated(join: Joined, shape: Shape, uses: Uses) -> Rotation | str | None:
    if join.first.op() is not ops.sub or join.second.op() is not ops.add:
        return None
    terms = [product(o, uses) for v in (join.first, join.second) for o in operands(v)]
    if any(t.coefficient != 1 or t.divisors or len(t.factors) != 2 for t in terms):
        return None
    ac, bs, *rest = (t.factors for t in terms)
    found: Rotation | str | None = None
    for (a, cos), (b, sin) in itertools.product((ac, ac[::-1]), (bs, bs[::-1])):
        crossed = [{b, cos}, {a, sin}]
        x = united(a, b, join.axis, join.interleaved)
        if x is not None and [set(factors) for factors in rest] in (crossed, crossed[::-1]):
            found = rotation(shape, x, (cos, sin), join, lambda table: lambda _: table.base)
            if isinstance(found, Rotation):
                return found
    return found
