"""Rewrite group norms and batch norms in the form of ONNX's operators, with a bias.

    group_norm(x, w, b, groups=G)  =  merge(group_norm(split(x), 1, 0, groups=G)) * w + b

This form, where ``split`` reshapes [N, C, ...] to [N, G, ...], is for targets without
``GroupNormalization``.
"""

from converter.ir import Node, Value, const, dims, ops
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule, SupportsDtype
from converter.ir.scalars import scalar


def emit_group_norm(node: Node, editor: Editor, has_operator: SupportsDtype) -> Value | None:
    """Rewrite a group norm in a form that the target has, with a bias.

    If the target has GroupNormalization, or there is one channel for each group, the norm gets a
    bias of zero; return None if it has a bias already. Otherwise return a norm with one channel for
    each group, followed by the scale and the bias. ``has_operator`` returns True if the target has
    an operator for a dtype.
    """
    x, scale, *bias = node.inputs
    groups, channels = node.params["groups"], x.shape[1]
    if dims.is_same_dim(groups, channels) or has_operator("GroupNormalization", x.dtype):
        return _add_zero_bias(node, editor)
    group_size = dims.size_product((channels // groups, *x.shape[2:]))
    split = editor.reshape(x, (x.shape[0], groups, group_size))
    unit_params = [editor.broadcast(const(n, x.dtype), (groups,), ()) for n in (1, 0)]
    normed = editor.reshape(
        editor.copy_with_operands(node, [split, *unit_params], split.shape), x.shape
    )
    by_channel = (channels, *(1,) * (x.rank - 2))
    if scalar(scale) != 1:
        normed = editor.binary(ops.mul, normed, editor.reshape(scale, by_channel))
    for value in bias:
        normed = editor.binary(ops.add, normed, editor.reshape(value, by_channel))
    return normed


def _add_zero_bias(node: Node, editor: Editor) -> Value | None:
    """Emit a group norm or batch norm with a bias of zero, or return None if it has a bias."""
    operand_count = {ops.group_norm: 3, ops.batch_norm: 5}[node.op]
    if len(node.inputs) == operand_count:
        return None
    zero = editor.broadcast(const(0, node.out.dtype), node.inputs[1].shape, ())
    return editor.copy_with_operands(node, [*node.inputs, zero])


BATCH_NORM_RULES: dict[Op, Rule] = {ops.batch_norm: _add_zero_bias}
