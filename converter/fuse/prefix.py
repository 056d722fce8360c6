"""Unrotated prefix tokens before a rotated rest are rows with cos = 1 and sin = 0."""

from __future__ import annotations

from converter.fuse.match import NearMiss, Recogniser
from converter.ir import Node, Value, const, dims, ops
from converter.ir.axes import along
from converter.ir.moves import above
from converter.ir.rewrite import Editor


def _prefix(node: Node, editor: Editor, _: list[NearMiss]) -> Value | None:
    """``concatenate([x[:n], rotary(x[n:])])`` along the positions is one rotation of x."""
    if len(node.inputs) != 2:
        return None
    seq = node.params["dimension"]
    head, tail = node.inputs
    turned = tail.node
    if turned is None or turned.op is not ops.rotary or turned.params["seq"] != seq:
        return None
    kept, rest = above(along(head)), above(along(turned.inputs[0]))
    if kept is None or not dims.same_shape(kept.base.shape, node.out.shape):
        return None
    source, count = along(kept.base), head.shape[seq]
    cuts = source.cut(seq, 0, count), source.cut(seq, count, tail.shape[seq])
    if (kept, rest) != cuts or not editor.single_use(tail) or not dims.is_static(count):
        return None
    tables = [
        editor.concatenate([_rows(editor, table, count, fill), table], 0)
        for table, fill in zip(turned.inputs[1:], (1, 0), strict=True)
    ]
    return editor.add(
        ops.rotary, [kept.base, *tables], node.out.shape, node.out.dtype, turned.params
    )


def _rows(editor: Editor, table: Value, count: int, fill: int) -> Value:
    return editor.broadcast(const(fill, table.dtype), (count, table.shape[1]), ())


PREFIX = Recogniser((ops.concatenate,), _prefix)
