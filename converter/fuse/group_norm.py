"""Group norms of [N, C, ...], from layer norms over groups of channels or over single channels.

    layer_norm(split(x), 1)        =  split(group_norm(x, 1, groups=G))
    layer_norm(x, 1) * w           =  group_norm(x, w, groups=C)
    split(x) * w                   =  split(x * merge(w))

``split`` reshapes the C channels to [G, C/G]; the norm is over the second of the two and all
spatial axes. ``w`` has one number for each channel. The third rule moves scales and biases before
the split, where the norm can absorb them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from converter.fuse.match import MatchContext, operand_orders, peeled_view, recogniser_from
from converter.ir import Node, Value, const, dims, ops
from converter.ir.axes import View, view_of
from converter.ir.moves import emit_view, rearrange
from converter.ir.rewrite import Editor, SupportsDtype
from converter.ir.scalars import scalar


@dataclass(frozen=True)
class Groups:
    """A value ``x`` whose axes in ``order`` are [batch..., channels, space...].

    ``batch`` is the number of batch axes. ``groups`` is the number of groups of channels.
    """

    x: Value
    order: tuple[int, ...]
    batch: int
    groups: int


def emit_norm_of_groups(
    groups: Groups, scale: Value | None, epsilon: float, editor: Editor
) -> Value:
    """Emit the group norm of ``groups.x`` and return it with the shape and axes of ``groups.x``.

    ``scale`` has one number for each channel, or is None for a norm with scale 1. The batch axes
    are merged into one axis for the operator.
    """
    shape = tuple(groups.x.shape[i] for i in groups.order)
    count = dims.size_product(shape[: groups.batch])
    flat = rearrange(
        editor, groups.x, groups.x.shape, groups.order, (count, *shape[groups.batch :])
    )
    if scale is None:
        scale = editor.broadcast(const(1, flat.dtype), (flat.shape[1],), ())
    params = {"groups": groups.groups, "epsilon": epsilon}
    normed = editor.add(ops.group_norm, [flat, scale], flat.shape, flat.dtype, params)
    inverse = [groups.order.index(i) for i in range(len(groups.order))]
    return rearrange(editor, normed, shape, inverse, groups.x.shape)


# ------------------------------------------------------------------------------- groups of channels


def match_channel_groups(node: Node, context: MatchContext) -> Groups | None:
    """Match a layer norm without scale and bias that normalises groups of channels.

    A reshape has split the channels of its operand to [groups, channels of a group]. The result of
    the reshape may be transposed. The norm must be over the second of these two axes and at least
    one other axis, and not over the first. Return the value before the split with its axes in the
    roles of a group norm. Return None for other norms, if the sizes of the two axes are not static,
    or if the runtime has no InstanceNormalization of this dtype.
    """
    order, source = _split_transpose(node.inputs[0])
    axis = split_axis(source)
    if not has_no_affine(node, context.has_operator) or axis is None:
        return None
    first = node.params["axis"]
    batch, normed = order[:first], order[first:]
    space = [a for a in normed if a != axis + 1]
    if axis not in batch or axis + 1 not in normed or not space:
        return None
    assert source.node is not None
    x = source.node.inputs[0]
    leading_axes = [a for a in batch if a != axis]
    source_order = tuple(a if a <= axis else a - 1 for a in (*leading_axes, axis, *space))
    groups = source.shape[axis]
    fixed = dims.is_static(x.shape[axis]) and dims.is_static(groups)
    return Groups(x, source_order, len(leading_axes), groups) if fixed else None


def emit_channel_groups(node: Node, groups: Groups, editor: Editor) -> Value:
    """Emit the group norm before the split of the channels, then the split and the transpose."""
    order, source = _split_transpose(node.inputs[0])
    normed = emit_norm_of_groups(groups, None, node.params["epsilon"], editor)
    return editor.transpose(editor.reshape(normed, source.shape), order)


def _split_transpose(value: Value) -> tuple[Sequence[int], Value]:
    """Return the permutation and the operand of a transpose.

    If the value is not a transpose, return the identity and the value.
    """
    node = value.node
    if node is not None and node.op is ops.transpose:
        return node.params["permutation"], node.inputs[0]
    return range(value.rank), value


def split_axis(value: Value) -> int | None:
    """Return the axis i that a reshape has split into the axes i and i + 1, and nothing else.

    Return None if the value is no reshape, or another reshape.
    """
    if value.node is None or value.node.op is not ops.reshape:
        return None
    sizes, split_sizes = value.node.inputs[0].shape, value.shape
    for axis in range(len(sizes)):
        size_pair = dims.size_product(split_sizes[axis : axis + 2])
        if dims.is_same_shape(sizes, (*split_sizes[:axis], size_pair, *split_sizes[axis + 2 :])):
            return axis
    return None


def has_no_affine(node: Node, has_operator: SupportsDtype) -> bool:
    """Return True for a layer norm with scale 1 and no bias, if InstanceNormalization takes its
    dtype.

    ``has_operator(operator, dtype)`` returns True if the runtime supports an operator for a dtype.
    """
    is_plain = node.op is ops.layer_norm and len(node.inputs) == 2 and scalar(node.inputs[1]) == 1
    return is_plain and has_operator("InstanceNormalization", node.out.dtype)


GROUPED_CHANNELS = recogniser_from(
    "GroupNormalization", (ops.layer_norm,), match_channel_groups, emit_channel_groups
)


# ------------------------------------------------------------------------------------- each channel


@dataclass(frozen=True)
class ChannelNorm:
    """A layer norm of each channel alone, and the scale of the channels.

    ``normed`` is a view of the layer norm's output, ``groups`` describes its operand, and ``scale``
    is a view with one axis, the channels.
    """

    normed: View
    groups: Groups
    scale: View


def match_channel_norm(node: Node, context: MatchContext) -> ChannelNorm | None:
    """Match a product of a layer norm and one number per channel, where each channel is normalised
    separately.

    The channels must be one of at least two batch axes of the norm, with a static size. Nothing
    else may read the norm. Return None for other products.
    """
    for normed, other in operand_orders(view_of(node.out)):
        inner, varying_axes = (
            normed.base.node,
            [i for i, a in enumerate(other.axes) if a is not None],
        )
        if (
            inner is None
            or not has_no_affine(inner, context.has_operator)
            or len(varying_axes) != 1
        ):
            continue
        channel, first, rank = normed.axes[varying_axes[0]], inner.params["axis"], normed.base.rank
        leading_axes = [a for a in range(first) if a != channel]
        is_aligned = normed.has_all_base_axes() and normed.has_no_broadcast_axes(node.out.shape)
        is_aligned = is_aligned and inner.out.dtype == node.out.dtype
        if is_aligned and channel is not None and channel < first and leading_axes:
            size = normed.base.shape[channel]
            groups = Groups(
                inner.inputs[0],
                (*leading_axes, channel, *range(first, rank)),
                len(leading_axes),
                size,
            )
            if dims.is_static(size) and context.single_use(normed.base):
                return ChannelNorm(normed, groups, other.select_axes(varying_axes))
    return None


def emit_channel_norm(node: Node, match: ChannelNorm, editor: Editor) -> Value:
    """Emit the group norm with one group per channel and the scale, along the axes of ``node``."""
    scale = emit_view(editor, match.scale, (match.groups.groups,), node.out.dtype)
    epsilon = match.normed.node().params["epsilon"]
    normed = emit_norm_of_groups(match.groups, scale, epsilon, editor)
    return emit_view(editor, view_of(normed, match.normed.axes), node.out.shape)


SINGLE_CHANNELS = recogniser_from(
    "InstanceNormalization", (ops.mul,), match_channel_norm, emit_channel_norm
)


# --------------------------------------------------------------------- scales of the split channels


def match_operand_on_split_channels(node: Node, context: MatchContext) -> tuple[Value, View] | None:
    """Match a scale or bias of a group norm whose channels are split into groups.

    ``node`` is a product or sum. One operand is a group norm or a product with a group norm. A
    reshape splits its channels to [groups, channels of a group], and no other node reads it. The
    other operand varies along these two axes only.

    Return the value before the split, and the other operand as a view along the axes of that value.
    Return None for other nodes.
    """
    view = view_of(node.out)
    for index in (0, 1):
        value = node.inputs[index]
        axis = split_axis(value)
        if (
            value.node is None
            or axis is None
            or not dims.is_same_shape(value.shape, node.out.shape)
        ):
            continue
        other = operand_orders(view)[index][1]
        if (
            _is_normed(value)
            and other.varies_only_along((axis, axis + 1))
            and context.single_use(value)
        ):
            parts = [(i, i + 1) if i == axis else (i + (i > axis),) for i in range(value.rank - 1)]
            return value.node.inputs[0], other.merge_axes(parts, dict(enumerate(value.shape)))
    return None


def _is_normed(split: Value) -> bool:
    """Return True if the operand of the reshape ``split`` is a group norm, or a product with
    one."""
    assert split.node is not None
    view = peeled_view(split.node.inputs[0])
    factors = [peeled_view(v) for v in view.node().inputs] if view.op() is ops.mul else []
    return any(v.op() is ops.group_norm for v in (view, *factors))


def emit_operand_on_merged_channels(
    node: Node, operands: tuple[Value, View], editor: Editor
) -> Value:
    """Emit the product or sum ``node`` on the value before the split, then the split.

    ``operands`` has that value and a view of the other operand.
    """
    x, operand_view = operands
    operand = emit_view(
        editor, operand_view, operand_view.unbroadcast_shape(x.shape), node.out.dtype
    )
    return editor.reshape(editor.binary(node.op, x, operand), node.out.shape)


SPLIT_CHANNELS = recogniser_from(
    "GroupNormalization",
    (ops.mul, ops.add),
    match_operand_on_split_channels,
    emit_operand_on_merged_channels,
)
