"""Layer norms over groups of channels, and over all of one, become group norms of [N, C, ...].

    layer_norm(split(x), 1)        =  split(group_norm(x, 1, groups=G))
    layer_norm(x, 1) * w           =  group_norm(x, w, groups=C)
    split(x) * w                   =  split(x * merge(w))

``split`` writes the C channels as [G, C/G], and the norm is over the second of the two and all of
space. ``w`` has a number for each channel. The third lets scales and biases in that are written
before the channels are merged again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from converter.fuse.match import Uses, pair, proved, whole
from converter.ir import Node, Value, const, dims, ops
from converter.ir.axes import View, along
from converter.ir.moves import rearrange, write
from converter.ir.rewrite import Editor, SupportsDtype
from converter.ir.scalars import scalar


@dataclass(frozen=True)
class Groups:
    """``x`` of which the axes ``order`` are [batch..., channels, space...]."""

    x: Value
    order: tuple[int, ...]
    batch: int
    groups: int


def written(groups: Groups, scale: Value | None, epsilon: float, editor: Editor) -> Value:
    """The group norm of ``x``, in the layout of ``x``."""
    shape = tuple(groups.x.shape[i] for i in groups.order)
    count = dims.size_product(shape[: groups.batch])
    flat = rearrange(
        editor, groups.x, groups.x.shape, groups.order, (count, *shape[groups.batch :])
    )
    if scale is None:
        scale = editor.broadcast(const(1, flat.dtype), (flat.shape[1],), ())
    params = {"groups": groups.groups, "epsilon": epsilon}
    normed = editor.add(ops.group_norm, [flat, scale], flat.shape, flat.dtype, params)
    back = [groups.order.index(i) for i in range(len(groups.order))]
    return rearrange(editor, normed, shape, back, groups.x.shape)


# ------------------------------------------------------------------------------- groups of channels


def prove_groups(node: Node, uses: Uses) -> Groups | None:
    """A norm over the second half of a split axis, and others."""
    order, source = _group_norm_turned(node.inputs[0])
    axis = split_axis(source)
    if not is_bare(node, uses.takes) or axis is None:
        return None
    first = node.params["axis"]
    batch, normed = order[:first], order[first:]
    space = [a for a in normed if a != axis + 1]
    if axis not in batch or axis + 1 not in normed or not space:
        return None
    assert source.node is not None
    x = source.node.inputs[0]
    lead = [a for a in batch if a != axis]
    places = tuple(a if a <= axis else a - 1 for a in (*lead, axis, *space))
    groups = source.shape[axis]
    fixed = dims.is_static(x.shape[axis]) and dims.is_static(groups)
    return Groups(x, places, len(lead), groups) if fixed else None


def build_groups(node: Node, groups: Groups, editor: Editor) -> Value:
    order, source = _group_norm_turned(node.inputs[0])
    normed = written(groups, None, node.params["epsilon"], editor)
    return editor.transpose(editor.reshape(normed, source.shape), order)


def _group_norm_turned(value: Value) -> tuple[Sequence[int], Value]:
    """A value as the transposition of another."""
    node = value.node
    if node is not None and node.op is ops.transpose:
        return node.params["permutation"], node.inputs[0]
    return range(value.rank), value


def split_axis(value: Value) -> int | None:
    """The axis that a reshape has split into itself and the next."""
    if value.node is None or value.node.op is not ops.reshape:
        return None
    before, after = value.node.inputs[0].shape, value.shape
    for axis in range(len(before)):
        pair = dims.size_product(after[axis : axis + 2])
        if dims.same_shape(before, (*after[:axis], pair, *after[axis + 2 :])):
            return axis
    return None


def is_bare(node: Node, takes: SupportsDtype) -> bool:
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


def build_channel(node: Node, channel: Channel, editor: Editor) -> Value:
    scale = write(editor, channel.scale, (channel.groups.groups,), node.out.dtype)
    epsilon = channel.normed.node().params["epsilon"]
    normed = written(channel.groups, scale, epsilon, editor)
    return write(editor, along(normed, channel.normed.axes), node.out.shape)


CHANNEL = proved("InstanceNormalization", (ops.mul,), prove_channel, build_channel)


# --------------------------------------------------------------------- scales of the split channels


def prove_inside(node: Node, uses: Uses) -> tuple[Value, View] | None:
    """Value of which an operand splits the channels, and the other along its axes."""
    view = along(node.out)
    for index in (0, 1):
        value = node.inputs[index]
        axis = split_axis(value)
        if value.node is None or axis is None or not dims.same_shape(value.shape, node.out.shape):
            continue
        other = pair(view)[index][1]
        if _is_normed(value) and other.covers((axis, axis + 1)) and uses.single_use(value):
            parts = [(i, i + 1) if i == axis else (i + (i > axis),) for i in range(value.rank - 1)]
            return value.node.inputs[0], other.merge(parts, dict(enumerate(value.shape)))
    return None


def _is_normed(split: Value) -> bool:
    """Whether what is split is a group norm, perhaps scaled already."""
    assert split.node is not None
    view = whole(split.node.inputs[0])
    inner = [whole(v) for v in view.node().inputs] if view.op() is ops.mul else []
    return any(v.op() is ops.group_norm for v in (view, *inner))


def build_inside(node: Node, operands: tuple[Value, View], editor: Editor) -> Value:
    x, seen = operands
    other = write(editor, seen, seen.bare(x.shape), node.out.dtype)
    return editor.reshape(editor.binary(node.op, x, other), node.out.shape)


INSIDE = proved("GroupNormalization", (ops.mul, ops.add), prove_inside, build_inside)
