"""Statistics of groups of channels that are repeated for each channel, as in Flax' GroupNorm.

    x - merge(repeat(mean(split(x))))  =  merge(split(x) - mean(split(x)))

``split`` writes an axis as [groups, size of one], ``merge`` undoes it.
"""

from __future__ import annotations

from dataclasses import replace

from converter.fuse.centred import Centred
from converter.fuse.match import Uses, peel, whole
from converter.fuse.reductions import mean_of
from converter.ir import Value, ops
from converter.ir.axes import View, along, as_group
from converter.ir.dims import Shape
from converter.ir.moves import above


def opened(found: Centred, shape: Shape, uses: Uses) -> tuple[Centred, Shape] | None:
    """What is centred, along logical axes of which the groups are one; and its shape."""
    first, second = unrepeated(found.average), unrepeated(found.deviation.spread)
    if first is None or second is None or first[1] != second[1]:
        return None
    (average, axis), (spread, _) = first, second
    taken = mean_of(average, uses)
    x = None if taken is None else _split(found.x, taken.total.node().inputs[0], axis)
    if x is None:
        return None
    deviation = replace(found.deviation, spread=spread)
    sizes = tuple(1 if a is None else x.base.shape[a] for a in x.axes)
    inside = (*shape[:axis], *sizes[axis : axis + 2], *shape[axis + 1 :])
    return replace(found, x=x, average=average, deviation=deviation), inside


def unrepeated(view: View) -> tuple[View, int] | None:
    """What is repeated along the second of the two axes that are merged, and the first of them."""
    inner = above(view) if view.op() is ops.reshape else None
    merged = [i for i, group in enumerate(inner.groups) if len(group) == 2] if inner else []
    if inner is None or len(merged) != 1:
        return None
    (axis,) = merged
    first, second = inner.groups[axis]
    groups = (*inner.groups[:axis], (first,), (second,), *inner.groups[axis + 1 :])
    found = peel(replace(inner, groups=groups))
    lone = found.is_whole and found.axes[axis + 1] is None
    return (found, axis) if lone else None


def _split(x: View, source: Value, axis: int) -> View | None:
    """``x`` as it is in ``source``, if that is ``x`` with this axis split."""
    if source.node is None or source.node.op is not ops.reshape:
        return None
    split, seen = above(along(source)), x.of(whole(x.base))
    parts = None if split is None else split.of(whole(source.node.inputs[0]))
    if seen is None or parts is None or seen.base is not parts.base:
        return None
    pairs = zip(parts.groups, parts.groups[1:], strict=False)
    joined = [as_group((*one, *other)) if one and other else () for one, other in pairs]
    merged, others = seen.groups[axis], [g for i, g in enumerate(seen.groups) if i != axis and g]
    if not merged or merged not in joined or not set(others) <= set(parts.groups):
        return None
    places = [parts.groups.index(g) if g in others else None for g in seen.groups]
    first = joined.index(merged)
    return along(source, (*places[:axis], first, first + 1, *places[axis + 1 :]))
