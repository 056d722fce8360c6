"""Writing attention: operands as [batch, heads, positions, width], a mask that broadcasts so."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from converter.fuse.attention.attention_axes import AttentionOperand, Parts
from converter.fuse.attention.masks import Mask
from converter.fuse.attention.scores import Added, ScoreFactor, ScoreTerm
from converter.ir import Node, Value, const, dims, ops
from converter.ir.axes import View, along
from converter.ir.dims import Shape
from converter.ir.moves import write
from converter.ir.rewrite import Editor


@dataclass(frozen=True)
class Attention:
    """All that the node takes; ``precision`` is what the scores are computed in."""

    parts: Parts
    scale: float
    factors: tuple[ScoreFactor, ...]  # of the queries
    softcap: float  # zero for none
    mask: Mask | None
    precision: np.dtype


def build_attention(node: Node, found: Attention, editor: Editor) -> Value:
    p, dtype = found.parts, _wider(node.out.dtype, found.mask)
    heads = (*p.heads, *p.groups)
    query = _arrange(editor, p, p.query, (p.outer, heads, p.rows, p.width), dtype)
    for factor in found.factors:
        query = editor.binary(factor.op, query, _attention_along(editor, p, factor.view))
    key = _arrange(editor, p, p.key, (p.outer, p.heads, (p.columns,), p.width), dtype)
    value = _arrange(editor, p, p.value, (p.outer, p.heads, (p.columns,), p.value_width), dtype)
    inputs = [query, key, value]
    if found.mask is not None:
        inputs.append(_mask(editor, p, found.mask, (query.shape[2], key.shape[2]), dtype))
    params = {
        "scale": found.scale,
        "softcap": found.softcap,
        "q_heads": query.shape[1],
        "kv_heads": key.shape[1],
        "precision": max(found.precision, dtype, key=lambda d: d.itemsize),
    }
    shape = (*query.shape[:3], value.shape[3])
    out = editor.convert(editor.add(ops.attention, inputs, shape, dtype, params), node.out.dtype)
    order = p.result()
    spread = editor.reshape(out, tuple(p.sizes[i] for i in order))
    turned = editor.transpose(spread, [order.index(i) for i in p.out])
    return editor.reshape(turned, node.out.shape)


def _wider(dtype: np.dtype, mask: Mask | None) -> np.dtype:
    """The operator computes in one dtype, which is the mask's where that has more bits."""
    return mask.dtype if mask is not None and mask.dtype.itemsize > dtype.itemsize else dtype


def _arrange(
    editor: Editor,
    parts: Parts,
    operand: AttentionOperand,
    groups: tuple[tuple[int, ...], ...],
    dtype: np.dtype,
) -> Value:
    """An operand with one axis per group, batch axes that it lacks broadcast."""
    base = editor.convert(operand.value, dtype)
    seen = along(base, map(operand.axes.get, range(max(parts.sizes) + 1)))
    return write(editor, seen.merge(groups, parts.sizes), _merged(parts, groups))


def _merged(parts: Parts, groups: tuple[tuple[int, ...], ...]) -> Shape:
    return tuple(dims.size_product([parts.sizes[i] for i in group]) for group in groups)


def _mask(
    editor: Editor, parts: Parts, mask: Mask, full: tuple[dims.Dim, dims.Dim], dtype: np.dtype
) -> Value:
    """The terms applied to zero; the last two axes, which the operator does not broadcast, in full.

    It fills and adds as the source does, in its order, so that what lies beside or on top of what
    is what it was.
    """
    total = const(0, mask.dtype)
    for term in mask.terms:
        total = _applied(editor, parts, term, total, mask.dtype)
    if mask.lifted:
        total = lift(editor, total)
    total = editor.convert(total, dtype)
    return editor.broadcast(total, (*total.shape[:2], *full), (0, 1, 2, 3))


def _applied(editor: Editor, parts: Parts, term: ScoreTerm, total: Value, dtype: np.dtype) -> Value:
    value = _attention_along(editor, parts, term.view)
    if isinstance(term, Added):
        value = editor.convert(value, dtype)
        if term.coefficient != 1:
            value = editor.binary(ops.mul, value, const(term.coefficient, dtype))
        return value if total.rank == 0 else editor.binary(ops.add, total, value)
    fill = const(np.asarray(term.number).astype(dtype))
    shape = dims.broadcast([value.shape, total.shape])
    assert shape is not None, (value.shape, total.shape)
    cases = [total, fill] if term.hidden else [fill, total]
    return editor.add(ops.select_n, [value, *cases], shape, dtype)


def _attention_along(editor: Editor, parts: Parts, view: View) -> Value:
    """A view of the scores with ONNX's four axes, each in full or one."""
    groups = (parts.outer, (*parts.heads, *parts.groups), parts.rows, (parts.columns,))
    merged = view.merge(groups, parts.sizes)
    return write(editor, merged, merged.bare(_merged(parts, groups)))


def lift(editor: Editor, mask: Value) -> Value:
    """``mask - min(max(mask) - low, 0)``, the maximum being that of each row.

    ``low`` is three quarters of the lowest number. Zero is taken off a row that shows something.
    One that lies below ``low`` is raised to it, where it absorbs as many scores as before; one of
    -inf becomes NaN, as it is in JAX.
    """
    shape = (*mask.shape[:-1], 1)
    top = editor.add(
        ops.reduce_max, [mask], mask.shape[:-1], mask.dtype, {"axes": (mask.rank - 1,)}
    )
    low = const(0.75 * 2.0 ** jnp.finfo(mask.dtype).maxexp, mask.dtype)
    above = editor.binary(ops.add, editor.reshape(top, shape), low)
    below = editor.binary(ops.min, above, const(0, mask.dtype))
    return editor.binary(ops.sub, mask, below)
