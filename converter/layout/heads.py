"""Rewrite operands in the layouts of ONNX's ``RotaryEmbedding`` and ``Attention``.

The 4-D layout is [batch, heads, positions, width], the 3-D layout [batch, positions, heads *
width].
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from converter.ir import Node, Value, const, dims, ops
from converter.ir.origins import source_behind
from converter.ir.rewrite import Editor, SupportsDtype
from converter.layout.pooling import from_image, to_image


def emit_rotary(node: Node, editor: Editor, has_operator: SupportsDtype) -> Value:
    """Emit a rotary embedding as a 4-D operator, or as elementwise arithmetic if the target has
    none.

    ``has_operator`` returns True if the target has an operator for a dtype.
    """
    if not has_operator("RotaryEmbedding", node.out.dtype):
        return _expand_rotary(node, editor)
    x, *tables = node.inputs
    *batch, seq = node.params["positions"]
    flat, order = _to_heads(editor, x, batch, seq, node.params["width"])
    rows = () if batch else (_row_numbers(editor, flat.shape[0], flat.shape[2]),)
    shape = (*flat.shape[:1], *flat.shape[2:3], tables[0].shape[-1])
    cos, sin = (editor.reshape(v, shape) for v in tables) if batch else tables
    cos.name, sin.name = cos.name or "rotary_cos_cache", sin.name or "rotary_sin_cache"
    params = {"heads": flat.shape[1], "interleaved": node.params["interleaved"]}
    out = editor.add(ops.rotary_heads, [flat, cos, sin, *rows], flat.shape, x.dtype, params)
    return from_image(editor, out, order, x.shape)


def _to_heads(
    editor: Editor, x: Value, batch: Sequence[int], seq: int, width: int
) -> tuple[Value, list[int]]:
    """Return ``x`` as [batch, heads, positions, width], and the permutation of its axes.

    ``batch``, ``seq`` and ``width`` are axes of ``x``. All others become heads. If there are no
    batch axes, the last of the other axes becomes the heads, and those before it become the batch.
    """
    if not batch:
        return to_image(editor, x, (seq, width))
    heads = [i for i in range(x.rank) if i not in (*batch, seq, width)]
    order = [*batch, *heads, seq, width]
    sizes = (dims.size_product([x.shape[i] for i in group]) for group in (batch, heads))
    transposed = editor.transpose(x, order)
    return editor.reshape(transposed, (*sizes, x.shape[seq], x.shape[width])), order


def _row_numbers(editor: Editor, batch: dims.Dim, count: dims.Dim) -> Value:
    """Return the row numbers 0 to ``count - 1`` of the tables, for each sample, as int64 [batch,
    count]."""
    if dims.is_static(count):
        line = const(np.arange(count, dtype=np.int64))
    else:
        params = {"dtype": np.dtype(np.int64), "shape": (count,), "dimension": 0}
        line = editor.add(ops.iota, [], (count,), np.int64, params)
    return editor.broadcast(line, (batch, count), (1,))


def _expand_rotary(node: Node, editor: Editor) -> Value:
    """Emit a rotary embedding as ``x * [cos, cos] + swap(x) * [-sin, sin]``, and return it.

    ``swap`` exchanges the two elements of each pair. The sign is in the table, so that the graph
    negates no activations.
    """
    x, cos, sin = node.inputs
    positions, width = node.params["positions"], node.params["width"]
    interleaved = node.params["interleaved"]
    join = partial(_join_halves, editor, interleaved=interleaved)
    minus = editor.add(ops.neg, [sin], sin.shape, sin.dtype)
    direct, cross = (join(pair, cos.rank - 1) for pair in ([cos, cos], [minus, sin]))
    direct.name, cross.name = "rotary_cos_table", "rotary_sin_table"
    size, middle = x.shape[width], x.shape[width] // 2
    parts = ((0, size, 2), (1, size, 2)) if interleaved else ((0, middle), (middle, size))
    even, odd = (editor.slice(x, width, *part) for part in parts)
    swapped = join([odd, even], width)
    terms = [
        editor.binary(ops.mul, value, _align_table(editor, table, x, (*positions, width)))
        for value, table in ((x, direct), (swapped, cross))
    ]
    return editor.binary(ops.add, *terms)


def _join_halves(editor: Editor, halves: list[Value], axis: int, interleaved: bool) -> Value:
    """Concatenate two halves along an axis, or interleave them: first[0], second[0], first[1],
    second[1] …"""
    if not interleaved:
        return editor.concatenate(halves, axis)
    shape = halves[0].shape
    single = (*shape[: axis + 1], 1, *shape[axis + 1 :])
    joined = editor.concatenate([editor.reshape(v, single) for v in halves], axis + 1)
    return editor.reshape(joined, (*shape[:axis], shape[axis] * 2, *shape[axis + 1 :]))


def _align_table(editor: Editor, table: Value, x: Value, axes: Sequence[int]) -> Value:
    """Return a table [*positions, width] in a shape that broadcasts to ``x``.

    ``axes`` are the axes of ``x`` that the axes of the table become.
    """
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    shape = tuple(x.shape[i] if i in axes else 1 for i in range(x.rank))
    return editor.reshape(editor.transpose(table, order), shape)


def attention_3d(node: Node, editor: Editor) -> Value | None:
    """Rewrite 4-D attention with operands of [batch, positions, heads * width].

    Return the result in 4-D. Return None if the attention is not 4-D, or if the numbers of heads or
    the widths are not static.
    """
    query, key, value, *mask = node.inputs
    static_sizes = [v.shape[i] for v in (query, key, value) for i in (1, 3)]
    if query.rank != 4 or not dims.all_static(static_sizes):
        return None
    flat = [_flatten(editor, v) for v in (query, key, value)]
    batch, heads, rows, width = node.out.shape
    shape = (batch, rows, heads * width)
    out = editor.add(ops.attention, [*flat, *mask], shape, node.out.dtype, node.params)
    return editor.transpose(editor.reshape(out, (batch, rows, heads, width)), (0, 2, 1, 3))


def attention_3d_of_transposed(node: Node, editor: Editor) -> Value | None:
    """Rewrite 4-D attention in the 3-D layout if its operands were transposed to 4-D, otherwise
    return None.

    Without these transposes, the 3-D layout would need others.
    """
    # Operations that can also be applied in the 3-D layout. A rotary embedding is moved after the
    # reshape.
    head_ops = (ops.reshape, ops.rotary_heads, ops.slice)
    sources = (source_behind(value, head_ops) for value in node.inputs[:3])
    return (
        attention_3d(node, editor) if all(v.producer_if(ops.transpose) for v in sources) else None
    )


def _flatten(editor: Editor, value: Value) -> Value:
    """Return a 4-D operand [batch, heads, positions, width] as [batch, positions, heads * width].

    A rotary embedding that computes the operand is computed after the reshape.
    """
    if node := value.producer_if(ops.rotary_heads):
        x, *tables = node.inputs
        flat = _flatten(editor, x)
        return editor.add(ops.rotary_heads, [flat, *tables], flat.shape, flat.dtype, node.params)
    batch, heads, rows, width = value.shape
    transposed = editor.transpose(value, (0, 2, 1, 3))
    return editor.reshape(transposed, (batch, rows, heads * width))
