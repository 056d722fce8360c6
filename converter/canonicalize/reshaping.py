"""Merge consecutive reshapes, transposes, broadcasts and conversions.

All operations that only change a shape are rewritten as reshapes.

``dot_general`` is rewritten as ``einsum``, a contraction with axis labels. Transposes around a
contraction are merged into its labels.
"""

from typing import Any

from converter.canonicalize.emptiness import fold_empty_reduction
from converter.ir import Node, Value, dims, ops
from converter.ir.axes import view_of
from converter.ir.moves import emit_view, view_of_operand
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule, inverse_order, moves_only_ones


def _drop_conversion(node: Node, _: Editor) -> Value | None:
    """Return the operand of a conversion to the dtype that it already has, otherwise None."""
    return node.inputs[0] if node.inputs[0].dtype == node.out.dtype else None


def _drop_cumulative(node: Node, _: Editor) -> Value | None:
    """Return the operand of a cumulative sum, product or extremum along an axis of size one,
    otherwise None."""
    x = node.inputs[0]
    return x if dims.is_same_dim(x.shape[node.params["axis"]], 1) else None


def _canonicalize_reshape(node: Node, editor: Editor) -> Value | None:
    """Rewrite a reshape or squeeze in canonical form: one ``reshape``, without ``dimensions``.

    A reshape in a given order of axes becomes a transpose and a reshape. If a reshape moves only
    axes of size one, it is merged into an einsum before it. Reshapes in a row are merged, and one
    to the same shape is dropped. Return None if the node is in canonical form.
    """
    source, is_reshape = node.inputs[0], node.op is ops.reshape
    if is_reshape and (order := node.params.get("dimensions")) is not None:
        return editor.reshape(editor.transpose(source, order), node.out.shape)
    if is_reshape and (contraction := _move_ones_into_einsum(node, editor)) is not None:
        return contraction
    is_needed = not dims.is_same_shape(source.shape, node.out.shape) and not source.producer_if(
        ops.reshape
    )
    if is_needed and is_reshape and set(node.params) == {"shape"}:
        return None
    return editor.reshape(source, node.out.shape)


def _move_ones_into_einsum(node: Node, editor: Editor) -> Value | None:
    """Rewrite an einsum and a reshape that only moves axes of size one as one einsum, or return
    None.

    ``node`` is the reshape. The labels of the einsum's result are permuted. Nothing else may read
    the einsum.
    """
    source, shape = node.inputs[0], node.out.shape
    inner = source.producer_if(ops.einsum)
    if inner is None or not editor.single_use(source) or source.rank != len(shape):
        return None
    ones = [i for i, d in enumerate(source.shape) if dims.is_same_dim(d, 1)]
    other_axes = [i for i in range(source.rank) if i not in ones]
    if sum(dims.is_same_dim(d, 1) for d in shape) != len(ones):
        return None
    order = [(ones if dims.is_same_dim(d, 1) else other_axes).pop(0) for d in shape]
    if order == sorted(order) or not dims.is_same_shape([source.shape[i] for i in order], shape):
        return None
    params = {**inner.params, "out": [inner.params["out"][i] for i in order]}
    return editor.add(ops.einsum, inner.inputs, shape, node.out.dtype, params)


def _canonicalize_transpose(node: Node, editor: Editor) -> Value | None:
    """Merge a transpose with the einsum, transpose or broadcast before it, or make it a reshape.

    The einsum must have no other use. A transpose is replaced by a reshape if it moves only axes of
    size one. It is merged into a broadcast if the axes of the broadcast's operand keep their order.
    Return None if the transpose stays.
    """
    source, order, shape = node.inputs[0], tuple(node.params["permutation"]), node.out.shape
    if (inner := source.producer_if(ops.einsum)) and editor.single_use(source):
        params = {**inner.params, "out": [inner.params["out"][i] for i in order]}
        return editor.add(ops.einsum, inner.inputs, shape, node.out.dtype, params)
    if moves_only_ones(source.shape, order) or source.producer_if(ops.transpose):
        return editor.transpose(source, order)
    if inner := source.producer_if(ops.broadcast_in_dim):
        axes = [order.index(a) for a in inner.params["broadcast_dimensions"]]
        return editor.broadcast(inner.inputs[0], shape, axes) if axes == sorted(axes) else None
    return None


def _canonicalize_broadcast(node: Node, editor: Editor) -> Value | None:
    """Merge a broadcast with the broadcast before it, or drop a reshape before it that adds axes of
    one.

    A broadcast is replaced by a reshape if it only adds axes of size one. Return None if the
    broadcast stays.
    """
    source, shape = node.inputs[0], node.out.shape
    axes = list(node.params["broadcast_dimensions"])
    if inner := source.producer_if(ops.broadcast_in_dim):
        outer = [axes[a] for a in inner.params["broadcast_dimensions"]]
        return editor.broadcast(inner.inputs[0], shape, outer)
    if dims.is_same_shape(dims.expand_with_ones(source.shape, axes, len(shape)), shape):
        return editor.broadcast(source, shape, axes)
    if inner := source.producer_if(ops.reshape):
        squeezed = [a for a in range(source.rank) if not dims.is_same_dim(source.shape[a], 1)]
        if dims.is_same_shape(inner.inputs[0].shape, [source.shape[a] for a in squeezed]):
            return editor.broadcast(inner.inputs[0], shape, [axes[a] for a in squeezed])
    return None


def _drop_double_reverse(node: Node, editor: Editor) -> Value | None:
    """Merge two reversals in a row, also if there is a transpose between them, which stays.

    Reversals of the same axis cancel each other. Return None if there is no other reversal before
    this one.
    """
    view = view_of_operand(view_of(node.out))
    if view is not None and view.op() is ops.transpose:
        view = view_of_operand(view)
    source = view_of_operand(view) if view is not None and view.op() is ops.rev else None
    return None if source is None else emit_view(editor, source, node.out.shape)


# ------------------------------------------------------------------------- contractions by labels


def _dot_general(node: Node, editor: Editor) -> Value:
    """Rewrite a ``dot_general`` as an einsum, or as a constant if it reduces no elements.

    The result has the batch axes first, then the free axes of the left operand, then of the right
    one.
    """
    if (constant := fold_empty_reduction(node, editor)) is not None:
        return constant
    (lhs_sum, rhs_sum), (lhs_batch, rhs_batch) = node.params["dimension_numbers"]
    x, y = node.inputs
    lhs = list(range(x.rank))
    rhs = [x.rank + i for i in range(y.rank)]
    for i, j in zip((*lhs_sum, *lhs_batch), (*rhs_sum, *rhs_batch), strict=True):
        rhs[j] = lhs[i]
    shared = {lhs[i] for i in (*lhs_sum, *lhs_batch)}
    out = [lhs[i] for i in lhs_batch] + [a for a in (*lhs, *rhs) if a not in shared]
    params = {"lhs": lhs, "rhs": rhs, "out": out, "dtype": node.out.dtype}
    params["precision"] = node.params.get("precision")
    return editor.add(ops.einsum, [x, y], node.out.shape, node.out.dtype, params)


def _einsum(node: Node, editor: Editor) -> Value | None:
    """Absorb transposes of an einsum's operands into their labels, and drop axes that broadcasts
    add.

    An added axis is removed if the other operand and the result also have it. Return None if no
    operand changes.
    """
    labels = [node.params["lhs"], node.params["rhs"]]
    inputs = list(node.inputs)
    for side in (0, 1):
        if inner := inputs[side].producer_if(ops.transpose):
            inverse = inverse_order(inner.params["permutation"])
            labels[side] = [labels[side][i] for i in inverse]
            inputs[side] = inner.inputs[0]
        elif inner := inputs[side].producer_if(ops.broadcast_in_dim):
            remaining = _labels_without_broadcast(
                inner, labels[side], labels[1 - side], node.params["out"]
            )
            if remaining is not None:
                labels[side], inputs[side] = remaining, inner.inputs[0]
    if inputs == node.inputs:
        return None
    params = {**node.params, "lhs": labels[0], "rhs": labels[1]}
    return editor.add(ops.einsum, inputs, node.out.shape, node.out.dtype, params)


def _labels_without_broadcast(
    inner: Node, labels: Any, other_labels: Any, result_labels: Any
) -> list[Any] | None:
    """Return the labels of an einsum's operand without the axes that a broadcast adds.

    Return None if an added axis is in the broadcast operand only, or is summed, or if the broadcast
    repeats an axis of size one.

    Arguments:
        inner: the broadcast that computes the operand.
        labels: the labels of the operand's axes.
        other_labels: the labels of the other operand.
        result_labels: the labels of the einsum's result.
    """
    axes, source = inner.params["broadcast_dimensions"], inner.inputs[0]
    if not all(dims.is_same_dim(source.shape[i], inner.out.shape[a]) for i, a in enumerate(axes)):
        return None
    dropped = [labels[a] for a in range(inner.out.rank) if a not in axes]
    return (
        [labels[a] for a in axes]
        if all(a in other_labels and a in result_labels for a in dropped)
        else None
    )


RULES: dict[Op, Rule] = {
    ops.dot_general: _dot_general,
    ops.einsum: _einsum,
    ops.convert_element_type: _drop_conversion,
    **dict.fromkeys((ops.reshape, ops.squeeze), _canonicalize_reshape),
    ops.transpose: _canonicalize_transpose,
    ops.broadcast_in_dim: _canonicalize_broadcast,
    ops.rev: _drop_double_reverse,
    **dict.fromkeys((ops.cumsum, ops.cumprod, ops.cummax, ops.cummin), _drop_cumulative),
}
