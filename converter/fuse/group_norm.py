"""Layer norms over groups of channels, and over all of one, become group norms of [N, C, ...].

    layer_norm(split(x), 1)        =  split(group_norm(x, 1, groups=G))
    layer_norm(x, 1) * w           =  group_norm(x, w, groups=C)
    split(x) * w                   =  split(x * merge(w))

``split`` writes the C channels as [G, C/G], and the norm is over the second of the two and all of
space. ``w`` has a number for each channel. The third lets scales and biases in that are written
before the channels are merged again.
"""

from dataclasses import dataclass

from converter.fuse.match import Uses, pair, proved, whole
from converter.ir import Node, Value, const, dims, ops
from converter.ir.axes import View, along
from converter.ir.moves import above, rearrange, write
from converter.ir.rewrite import Editor, Takes
from converter.ir.scalars import scalar


@dataclass(frozen=True)
class Groups:
    """``x`` of which the axes ``order`` are [batch..., channels, space...]."""

    x: Value
    order: tuple[int, ...]
    batch: int
    groups: int


def written(found: Groups, scale: Value | None, epsilon: float, editor: Editor) -> Value:
    """The group norm of ``x``, in the layout of ``x``."""
    shape = tuple(found.x.shape[i] for i in found.order)
    count = dims.size_product(shape[: found.batch])
    flat = rearrange(editor, found.x, found.x.shape, found.order, (count, *shape[found.batch :]))
    if scale is None:
        scale = editor.broadcast(const(1, flat.dtype), (flat.shape[1],), ())
    params = {"groups": found.groups, "epsilon": epsilon}
    normed = editor.add(ops.group_norm, [flat, scale], flat.shape, flat.dtype, params)
    back = [found.order.index(i) for i in range(len(found.order))]
    return rearrange(editor, normed, shape, back, found.x.shape)


# ------------------------------------------------------------------------------- groups of channels


def prove_groups(node: Node, uses: Uses) -> tuple[View, Groups] | None:
    """A norm over the second half of split channels and others; what is normed as a view of x."""
    if not is_bare(node, uses.takes):
        return None
    seen: View | None = along(node.inputs[0])
    while seen is not None and (found := split_axes(seen)) is None:
        seen = above(seen)
    if seen is None or found is None:
        return None
    (channel, outer, inner), first, x = found, node.params["axis"], seen.base
    places = range(len(seen.groups))
    axes = [seen.axes[i] for i in places if i >= first and i != inner]
    space = [a for a in axes if a is not None]
    lead = [a for a in range(x.rank) if a != channel and a not in space]  # those of one, too
    apart = outer < first <= inner and space and len(space) == len(axes)
    if not apart or not dims.is_static(x.shape[channel]):
        return None
    order = (*lead, channel, *space)
    groups = seen.groups[outer][0].size
    return (seen, Groups(x, order, len(lead), groups)) if dims.is_static(groups) else None


def build_groups(node: Node, found: tuple[View, Groups], editor: Editor) -> Value:
    seen, groups = found
    normed = written(groups, None, node.params["epsilon"], editor)
    return write(editor, seen._replace(base=normed), node.out.shape)


def split_axes(seen: View) -> tuple[int, int, int] | None:
    """The axis of the base that two axes of a view split, and those two; others go along whole
    axes."""
    split = None
    for axis, size in enumerate(seen.base.shape):
        own = [i for i, group in enumerate(seen.groups) if any(f.axis == axis for f in group)]
        parts = seen.nested(axis)
        if parts is None or not dims.same(dims.size_product([f.size for f in parts]), size):
            return None
        if len(parts) == 2 and len(own) == 2 and split is None:
            outer = next(i for i in own if parts[0] in seen.groups[i])
            split = axis, outer, next(i for i in own if i != outer)
        elif len(parts) > 1:
            return None
    alone = all(len(group) < 2 for group in seen.groups)
    return split if alone and not any(f.axis is None for g in seen.groups for f in g) else None


def is_bare(node: Node, takes: Takes) -> bool:
    """Whether a layer norm has no scale and no bias yet, and may become one of channels."""
    bare = node.op is ops.layer_norm and len(node.inputs) == 2 and scalar(node.inputs[1]) == 1
    return bare and takes("InstanceNormalization", node.out.dtype)


GROUPS = proved("GroupNormalization", (ops.layer_norm,), prove_groups, build_groups)


# ------------------------------------------------------------------------------------- each channel


@dataclass(frozen=True)
class Channel:
    """A norm of each channel, and the scale of each."""

    normed: View
    groups: Groups
    scale: View


def prove_channel(node: Node, uses: Uses) -> Channel | None:
    for normed, other in pair(along(node.out)):
        inner, varies = normed.base.node, [i for i, a in enumerate(other.axes) if a is not None]
        if inner is None or not is_bare(inner, uses.takes) or len(varies) != 1:
            continue
        channel, first, rank = normed.axes[varies[0]], inner.params["axis"], normed.base.rank
        lead = [a for a in range(first) if a != channel]
        in_place = normed.complete() and normed.fills(node.out.shape)
        in_place = in_place and inner.out.dtype == node.out.dtype
        if in_place and channel is not None and channel < first and lead:
            size = normed.base.shape[channel]
            groups = Groups(inner.inputs[0], (*lead, channel, *range(first, rank)), len(lead), size)
            if dims.is_static(size) and uses.single_use(normed.base):
                return Channel(normed, groups, other.take(varies))
    return None


def build_channel(node: Node, found: Channel, editor: Editor) -> Value:
    scale = write(editor, found.scale, (found.groups.groups,), node.out.dtype)
    epsilon = found.normed.node().params["epsilon"]
    normed = written(found.groups, scale, epsilon, editor)
    return write(editor, along(normed, found.normed.axes), node.out.shape)


CHANNEL = proved("InstanceNormalization", (ops.mul,), prove_channel, build_channel)


# --------------------------------------------------------------------- scales of the split channels


def prove_inside(node: Node, uses: Uses) -> tuple[Value, View] | None:
    """What an operand splits the channels of, and the other along its axes."""
    view = along(node.out)
    for index in (0, 1):
        value = node.inputs[index]
        seen = above(along(value)) if value.made_by(ops.reshape) else None
        found = split_axes(seen) if seen is not None else None
        if seen is None or found is None or not dims.same_shape(value.shape, node.out.shape):
            continue
        other = pair(view)[index][1]
        if _is_normed(seen.base) and other.covers(found[1:]) and uses.single_use(value):
            ranks = range(len(seen.groups))
            parts = [
                [i for i in ranks if any(f.axis == axis for f in seen.groups[i])]
                for axis in range(seen.base.rank)
            ]
            return seen.base, other.merge(parts, dict(enumerate(value.shape)))
    return None


def _is_normed(value: Value) -> bool:
    """Whether a value is a group norm, perhaps scaled already."""
    found = whole(value)
    inner = [whole(v) for v in found.node().inputs] if found.op() is ops.mul else []
    return any(v.op() is ops.group_norm for v in (found, *inner))


def build_inside(node: Node, found: tuple[Value, View], editor: Editor) -> Value:
    x, seen = found
    other = write(editor, seen, seen.bare(x.shape), node.out.dtype)
    return editor.reshape(editor.binary(node.op, x, other), node.out.shape)


INSIDE = proved("GroupNormalization", (ops.mul, ops.add), prove_inside, build_inside)
