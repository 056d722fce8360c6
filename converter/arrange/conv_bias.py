"""A value per channel that is added to a convolution is the convolution's third operand."""

from __future__ import annotations

from converter.graph import Node, Value, dims
from converter.graph.rewrite import Editor, Rule


def _bias(node: Node, editor: Editor) -> Value | None:
    for term, other in (node.inputs, node.inputs[::-1]):
        found = _convolution(term, editor)
        if found is None or not dims.same_shape(term.shape, node.out.shape):
            continue
        conv, axis = found
        bias = _along(other, axis, node.out, editor)
        if bias is not None:
            inner = conv.out
            whole = editor.add(conv.op, [*conv.inputs, bias], inner.shape, inner.dtype, conv.params)
            view = term.node
            return whole if view is conv or view is None else editor.like(view, [whole])
    return None


def _convolution(value: Value, editor: Editor) -> tuple[Node, int] | None:
    """The convolution without bias behind a value that nothing else reads, and its channel axis.

    It may be seen through a transposition, or through a reshape that splits the batch (``vmap``).
    """
    node = value.node
    if node is None or not editor.single_use(value):
        return None
    if node.op in ("conv", "conv_transpose"):
        return (node, 1) if len(node.inputs) == 2 else None
    source = node.inputs[0] if node.op in ("transpose", "reshape") else value
    inner = _convolution(source, editor) if source is not value else None
    if inner is None or source.node is not inner[0]:
        return None
    if node.op == "transpose":
        return inner[0], node.params["permutation"].index(1)
    kept = source.rank - 1
    same = value.rank >= kept and dims.same_shape(value.shape[-kept:], source.shape[1:])
    return (inner[0], value.rank - kept) if same else None


def _along(value: Value, axis: int, out: Value, editor: Editor) -> Value | None:
    """``value`` as [channels], if it differs along that axis of ``out`` only."""
    source, ones = value, list(value.shape)
    node = value.node
    if node is not None and node.op == "broadcast_in_dim":
        source, ones = node.inputs[0], [1] * value.rank
        for place, size in zip(node.params["broadcast_dimensions"], source.shape, strict=True):
            ones[place] = size
    ones = [*[1] * (out.rank - value.rank), *ones]
    wanted = tuple(d if i == axis else 1 for i, d in enumerate(out.shape))
    fits = dims.same_shape(ones, wanted) and source.dtype == out.dtype
    return editor.reshape(source, (out.shape[axis],)) if fits else None


RULES: dict[str, Rule] = {"add": _bias}
