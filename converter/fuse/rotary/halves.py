"""Two halves of a value along an axis: put together, and what they are the halves of.

A half is the first or the second one, or the even or the odd elements, however it is written:
``x[..., :n]``, ``x.reshape(…, 2, n)[…, 0, :]``, ``x[..., ::2]``, ``x.reshape(…, n, 2)[…, 0]``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from converter.fuse.match import PEELED, peel, through
from converter.ir import Node, dims, ops
from converter.ir.axes import Factor, View, along, as_group
from converter.ir.dims import Shape
from converter.ir.moves import above, part


@dataclass(frozen=True)
class Joined:
    """Two halves along a logical axis: one after the other, or taking turns."""

    node: Node  # the concatenation
    first: View
    second: View
    axis: int
    interleaved: bool


def stacked(node: Node) -> tuple[Joined, Shape] | None:
    """What takes turns along an axis of two, [..., n, 2, ...], which is reshaped to [..., 2n, ...]
    by who reads it so; and that shape."""
    last, shape = node.params.get("dimension", 0), node.out.shape
    if node.op is not ops.concatenate or last == 0 or not dims.same(shape[last], 2):
        return None
    merged = (*shape[: last - 1], dims.as_dim(shape[last - 1] * 2), *shape[last + 1 :])
    seen = along(node.out)
    pair = as_group((*seen.groups[last - 1], *seen.groups[last]))
    groups = (*seen.groups[: last - 1], pair, *seen.groups[last + 1 :])
    found = joined_halves(replace(seen, groups=groups))
    return None if found is None else (found, merged)


def joined_halves(view: View) -> Joined | None:
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
        if node.params["dimension"] not in (f.axis for f in group) or width % 2:
            continue
        for stride, second in ((1, width // 2), (2, 1)):
            cuts = (seen.cut(axis, start, width // 2, stride) for start in (0, second))
            one, other = (None if cut is None else part(cut) for cut in cuts)
            if one is not None and other is not None:
                return Joined(node, peel(one), peel(other), axis, stride == 2)
    return None


def united(first: View, second: View, axis: int, interleaved: bool) -> View | None:
    """What two views are the halves of along an axis."""
    one, other, found = first, second, None
    while one.groups == other.groups and len(one.starts) == len(other.starts):
        steps = [dims.as_dim(b - a) for a, b in zip(one.starts, other.starts, strict=True)]
        moved = [i for i, step in enumerate(steps) if not dims.same(step, 0)]
        if one.base is other.base and len(moved) == 1 and dims.is_at_least(steps[moved[0]], 1):
            both, own = Factor(moved[0], steps[moved[0]], 2), one.groups[axis]
            group = as_group((*own, both) if interleaved else (both, *own))
            groups = (*one.groups[:axis], group, *one.groups[axis + 1 :])
            found = replace(one, groups=groups)
            if found.is_whole:
                return peel(found)
        upper, lower = above(one), above(other)
        if upper is None or lower is None:
            break
        one, other = upper, lower
    return found
