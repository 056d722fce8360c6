"""Statistics of groups of channels that are repeated for each channel, as in Flax' GroupNorm.

    x - merge(repeat(mean(split(x))))  =  merge(split(x) - mean(split(x)))

``split`` writes an axis as [groups, size of one], ``merge`` undoes it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from converter.fuse.centred import Centred
from converter.fuse.match import Uses, peel, whole
from converter.fuse.reductions import mean
from converter.graph import Value, dims, ops
from converter.graph.axes import View, along
from converter.graph.dims import Shape


@dataclass(frozen=True)
class _Opened:
    """A view along one more logical axis: ``axis`` has become two."""

    view: View
    axis: int


def opened(found: Centred, shape: Shape, uses: Uses) -> tuple[Centred, Shape] | None:
    """What is centred, along logical axes of which the groups are one; and its shape."""
    average, spread = (unrepeated(view) for view in (found.average, found.deviation.spread))
    if average is None or spread is None or average.axis != spread.axis:
        return None
    taken = mean(average.view, uses)
    x = None if taken is None else _split(found.x, taken.total.node().inputs[0])
    if x is None or x.axis != average.axis:
        return None
    deviation = replace(found.deviation, spread=spread.view)
    sizes = tuple(1 if a is None else x.view.base.shape[a] for a in x.view.axes)
    inside = (*shape[: x.axis], *sizes[x.axis : x.axis + 2], *shape[x.axis + 1 :])
    return replace(found, x=x.view, average=average.view, deviation=deviation), inside


def unrepeated(view: View) -> _Opened | None:
    """What is repeated along the second of the two axes that are merged."""
    if view.op() is not ops.reshape:
        return None
    found = _open(view, view.node().inputs[0])
    if found is None:
        return None
    inner = peel(found.view)
    return _Opened(inner, found.axis) if inner.axes[found.axis + 1] is None else None


def _split(x: View, source: Value) -> _Opened | None:
    """``x`` as it is in ``source``, if that is ``x`` with one axis split."""
    if source.node is None or source.node.op is not ops.reshape:
        return None
    value = source.node.inputs[0]
    inner, outer = whole(value), whole(x.base)
    if inner.base is not outer.base:
        return None
    places = (None if a is None else outer.axes[a] for a in x.axes)
    axes = tuple(None if a is None else inner.axes.index(a) for a in places)
    return _open(along(value, axes), source)


def _open(view: View, inner: Value) -> _Opened | None:
    """The view of what was reshaped, if that merged two of its axes to one."""
    merged = view.base
    real, kept = (
        [a for a, d in enumerate(v.shape) if not dims.same(d, 1)] for v in (inner, merged)
    )
    if len(real) != len(kept) + 1:
        return None
    sizes, wanted = [inner.shape[a] for a in real], [merged.shape[a] for a in kept]
    pairs = enumerate(zip(sizes, wanted, strict=False))
    place = next((i for i, (one, other) in pairs if not dims.same(one, other)), -1)
    if place < 0 or kept[place] not in view.axes:
        return None
    sizes[place : place + 2] = [dims.product(sizes[place : place + 2])]
    if not dims.same_shape(sizes, wanted):
        return None
    first, second = real[place : place + 2]
    table = dict(zip(kept, (*real[:place], None, *real[place + 2 :]), strict=True))
    axis = view.axes.index(kept[place])
    axes = [None if a is None else table.get(a) for a in view.axes]
    return _Opened(along(inner, (*axes[:axis], first, second, *axes[axis + 1 :])), axis)
