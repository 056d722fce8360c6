"""Reshapes, transposes, broadcasts and conversions: forwarded, joined, written as reshapes."""

from __future__ import annotations

from converter.graph import Node, Value, dims, ops
from converter.graph.dims import Shape
from converter.graph.op import Op
from converter.graph.rewrite import Editor, Rule, moves_only_ones


def _convert(node: Node, editor: Editor) -> Value | None:
    if node.inputs[0].dtype == node.out.dtype:
        return node.inputs[0]
    return None


def _reshape(node: Node, editor: Editor) -> Value | None:
    source = node.inputs[0]
    if (order := node.params.get("dimensions")) is not None and node.op is ops.reshape:
        return editor.reshape(editor.transpose(source, order), node.out.shape)
    if dims.same_shape(source.shape, node.out.shape):
        return source
    inner = source.node
    if inner is not None and inner.op is ops.reshape:
        return editor.reshape(inner.inputs[0], node.out.shape)
    if node.op is ops.reshape and set(node.params) == {"shape"}:
        return None
    return editor.reshape(source, node.out.shape)


def _transpose(node: Node, editor: Editor) -> Value | None:
    source, order = node.inputs[0], tuple(node.params["permutation"])
    inner = source.node
    if inner is not None and inner.op is ops.einsum and editor.single_use(source):
        out = [inner.params["out"][i] for i in order]
        return editor.add(
            ops.einsum, inner.inputs, node.out.shape, node.out.dtype, {**inner.params, "out": out}
        )
    if moves_only_ones(source.shape, order):
        return editor.reshape(source, node.out.shape)
    if inner is None:
        return None
    if inner.op is ops.transpose:
        first = inner.params["permutation"]
        return editor.transpose(inner.inputs[0], [first[i] for i in order])
    if inner.op is ops.broadcast_in_dim:
        axes = [order.index(a) for a in inner.params["broadcast_dimensions"]]
        return (
            editor.broadcast(inner.inputs[0], node.out.shape, axes)
            if axes == sorted(axes)
            else None
        )
    return None


def _broadcast(node: Node, editor: Editor) -> Value | None:
    source, shape = node.inputs[0], node.out.shape
    axes = list(node.params["broadcast_dimensions"])
    inner = source.node
    if inner is not None and inner.op is ops.broadcast_in_dim:
        outer = [axes[a] for a in inner.params["broadcast_dimensions"]]
        return editor.broadcast(inner.inputs[0], shape, outer)
    result = editor.broadcast(source, shape, axes) if _only_ones(source, shape, axes) else None
    if result is None and inner is not None and inner.op is ops.reshape:
        squeezed = [a for a in range(source.rank) if not dims.same(source.shape[a], 1)]
        bare = tuple(source.shape[a] for a in squeezed)
        if dims.same_shape(inner.inputs[0].shape, bare):
            return editor.broadcast(inner.inputs[0], shape, [axes[a] for a in squeezed])
    return result


def _only_ones(source: Value, shape: Shape, axes: list[int]) -> bool:
    ones = tuple(source.shape[axes.index(i)] if i in axes else 1 for i in range(len(shape)))
    return dims.same_shape(ones, shape)


def _rev(node: Node, editor: Editor) -> Value | None:
    """What is reversed twice, transposed between or not, is not reversed."""
    order, inner = list(range(node.out.rank)), node.inputs[0].node
    if inner is not None and inner.op is ops.transpose:
        order, inner = list(inner.params["permutation"]), inner.inputs[0].node
    if inner is None or inner.op is not ops.rev:
        return None
    own = {order[a] for a in node.params["dimensions"]}
    left = tuple(sorted(own.symmetric_difference(inner.params["dimensions"])))
    value = inner.inputs[0]
    if left:
        value = editor.rev(value, left)
    return editor.transpose(value, order)


RULES: dict[Op, Rule] = {
    ops.convert_element_type: _convert,
    ops.reshape: _reshape,
    ops.squeeze: _reshape,
    ops.expand_dims: _reshape,
    ops.transpose: _transpose,
    ops.broadcast_in_dim: _broadcast,
    ops.rev: _rev,
}
