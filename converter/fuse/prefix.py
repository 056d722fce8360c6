"""Unrotated prefix tokens before a rotated rest are rows with cos = 1 and sin = 0."""

from __future__ import annotations

from converter.fuse.match import NearMiss, Recogniser
from converter.ir import Node, Value, const, dims, ops
from converter.ir.rewrite import Editor
from converter.ir.slices import has_strides


def _prefix(node: Node, editor: Editor, _: list[NearMiss]) -> Value | None:
    """``concatenate([x[:n], rotary(x[n:])])`` along the positions is one rotation of x."""
    if len(node.inputs) != 2:
        return None
    seq = node.params["dimension"]
    head, tail = node.inputs
    turned = tail.node
    if turned is None or turned.op is not ops.rotary or turned.params["seq"] != seq:
        return None
    rest, kept = turned.inputs[0].node, head.node
    if rest is None or kept is None or rest.op is not ops.slice or kept.op is not ops.slice:
        return None
    source, count = rest.inputs[0], head.shape[seq]
    whole = kept.inputs[0] is source and dims.same_shape(source.shape, node.out.shape)
    if not whole or not editor.single_use(tail) or not dims.is_static(count):
        return None
    if has_strides(kept) or has_strides(rest):
        return None
    if kept.params["start_indices"][seq] != 0 or rest.params["start_indices"][seq] != count:
        return None
    tables = [
        editor.concatenate([_rows(editor, table, count, fill), table], 0)
        for table, fill in zip(turned.inputs[1:], (1, 0), strict=True)
    ]
    return editor.add(ops.rotary, [source, *tables], node.out.shape, node.out.dtype, turned.params)


def _rows(editor: Editor, table: Value, count: int, fill: int) -> Value:
    return editor.broadcast(const(fill, table.dtype), (count, table.shape[1]), ())


PREFIX = Recogniser((ops.concatenate,), _prefix)
