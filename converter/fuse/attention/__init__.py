"""Scaled dot-product attention [Vaswani et al., arXiv:1706.03762] around a softmax.

    softmax(f(q k^T)) v = attention(q, k, v, mask=f(0), scale=c, softcap=t)

``f`` multiplies the scores by numbers, whose product is ``c``, and by arrays, which multiply the
queries instead. It may cap the result (``t * tanh(x / t)``). It adds terms, and fills hidden scores
with low numbers. Axes, heads and batches may have any order.

The root is the second product. Its operand is followed to the softmax (``weights``), and from there
through ``f`` to the first product (``scores``). All axes are numbered in the same way as the axes
of the softmax (``attention_axes``). The terms of ``f`` are combined into one mask that is added to
the scores (``masks``). The operator gets operands of [batch, heads, positions, width]; keys and
values that are repeated for several heads are passed once. If the weights of hidden scores are set
to zero after the softmax, rows without visible scores are zero.
"""

from dataclasses import dataclass
from functools import partial

import jax.numpy as jnp
import numpy as np

from converter.fuse import magnitudes
from converter.fuse.attention import attention_axes, masks
from converter.fuse.attention.attention_axes import AttentionOperand, AxisRoles
from converter.fuse.attention.masks import VANISHING, Mask
from converter.fuse.attention.scores import (
    AdditiveMask,
    FillMask,
    ScoreFactor,
    Scores,
    ScoreTerm,
    match_scores,
)
from converter.fuse.attention.weights import AttentionWeights, match_weights
from converter.fuse.dependence import record_scalar_fact
from converter.fuse.look_alikes import find_attention_look_alikes
from converter.fuse.match import MatchContext, match_repeated_axis, peeled_view, recogniser_from
from converter.ir import Node, Value, const, dims, ops
from converter.ir.axes import View
from converter.ir.dims import Shape
from converter.ir.dtypes import is_float
from converter.ir.moves import emit_view
from converter.ir.op import Op
from converter.ir.rewrite import Editor
from converter.ir.scalars import scalar


@dataclass(frozen=True)
class MatchedAttention:
    """The operands and parameters of an attention node.

    - `roles`: queries, keys and values with the roles of their axes.
    - `scale`: the number by which the product of queries and keys is multiplied, before a cap.
    - `factors`: arrays by which the queries are multiplied or divided in place of the scores.
    - `softcap`: the bound t of scores ``t * tanh(scale * q k^T / t)``; zero for no bound.
    - `mask`: the mask that is added to the scores, or None.
    - `precision`: the dtype in which the scores are computed.
    """

    roles: AxisRoles
    scale: float
    factors: tuple[ScoreFactor, ...]
    softcap: float
    mask: Mask | None
    precision: np.dtype

    @property
    def mask_replaces_scores(self) -> bool:
        """True if the mask replaces scores by numbers."""
        return self.mask is not None and any(isinstance(t, FillMask) for t in self.mask.terms)


NARROW_QUERIES = (
    "the scores are multiplied by an array; in float16, the queries may overflow or vanish if they "
    "are multiplied instead"
)

HIDDEN = (
    "the conversion is strict, and a score that is NaN or infinite would be NaN where the mask "
    "hides it"
)

CAPPED = (
    "scores are capped and then masked, in the order that the standard has only since onnx 1.22: "
    "runtimes before that mask them first"
)


def match_attention(
    node: Node, context: MatchContext, strict: bool = False
) -> MatchedAttention | str | None:
    """Match scaled dot-product attention, ``softmax(scores) @ values``.

    ``node`` is the second product, an einsum. Return the operands and parameters of attention, a
    text with the reason for a near miss, or None if no operand of the product comes from a softmax.
    With ``strict``, attention whose mask replaces scores by numbers is a near miss: a score that is
    NaN would stay NaN in the sum of scores and mask.
    """
    reason = None
    for side in (0, 1):
        weights_or_reason = match_weights(node.inputs[side], context)
        evidence = (
            _match_scores_of(node, side, weights_or_reason, context)
            if isinstance(weights_or_reason, AttentionWeights)
            else weights_or_reason
        )
        if isinstance(evidence, MatchedAttention):
            return HIDDEN if strict and evidence.mask_replaces_scores else evidence
        reason = reason or evidence
    return reason


def _match_scores_of(
    node: Node, side: int, weights: AttentionWeights, context: MatchContext
) -> MatchedAttention | str:
    """Return the evidence for attention with these weights, or the reason why there is none.

    The weights are operand ``side`` of the product ``node``. Each way to see the operand of their
    softmax as scores is tried.
    """
    reasons: list[str] = []
    for score in match_scores(weights.softmax.node().inputs[0], context, reasons):
        evidence = _match_parts(score, node, side, weights, context)
        if isinstance(evidence, MatchedAttention):
            return evidence
        reasons.append(evidence)
    return reasons[0]


def _match_parts(
    score: Scores, node: Node, side: int, weights: AttentionWeights, context: MatchContext
) -> MatchedAttention | str:
    """Return the evidence for attention with these scores, or the reason why there is none.

    **Arguments**

    - `score`: one way to see the operand of the softmax as scores of queries and keys.
    - `node`: the product of the weights with the values.
    - `side`: the index of the operand of `node` that is the weights, 0 or 1.
    - `weights`: the softmax.
    - `context`: the dtypes that the runtime's Attention supports, and the number of readers of
      values.
    """
    axes = attention_axes.match_axis_roles(node, side, weights.softmax, score.product, context)
    if isinstance(axes, str):
        return axes
    roles, logical = axes
    if node.out.rank == 1:
        return "it is of one query alone, for which two products are faster"
    dtype, precision = node.out.dtype, score.product.base.dtype
    if not all(v.dtype == dtype for v in roles.values()):
        return "queries, keys, values and result differ in dtype"
    dtypes = {dtype, precision, *(t.dtype for t in score.terms)}
    unsupported = {
        d.name for d in dtypes if not (is_float(d) and context.has_operator("Attention", d))
    }
    if unsupported:
        return f"the runtime's operator does not take {', '.join(sorted(unsupported))}"
    if score.factors and roles.query.value.dtype == np.float16:
        return NARROW_QUERIES
    factors = [(op, logical.compose(view)) for op, view in score.factors]
    if not all(view is not None and _is_of_queries(view, roles) for _, view in factors):
        return "the scores are multiplied by an array that queries cannot be multiplied by"
    if not all(magnitudes.may_move(view.base, context) for _, view in score.factors):
        return f"the scores are multiplied by {magnitudes.UNBOUNDED_REASON}, and not the queries"
    cap = score.cap or 0.0
    scale = score.scale * roles.scale * (cap or 1.0)
    if not (0 < scale < float("inf") and 0 <= cap < float("inf")):
        return f"the scale {scale:g} is not positive"
    columns = weights.softmax.node().params["axis"]
    mask = masks.combine_masks(score.terms, columns, dtype, weights)
    mask = mask.along(logical) if isinstance(mask, Mask) else mask
    if isinstance(mask, str):
        return mask
    if cap and mask is not None:
        return CAPPED
    moved = tuple((op, view) for op, view in factors if view is not None)
    return MatchedAttention(roles, scale, moved, cap, mask, precision)


def _is_of_queries(view: View, roles: AxisRoles) -> bool:
    """Return True if the queries can be multiplied by ``view`` in place of the scores.

    The array may vary only along axes of the queries. Both must be floats of at most 32 bits, and
    not float16, in which queries may overflow.
    """
    axes = {i for i, axis in enumerate(view.axes) if axis is not None}
    floats = (view.base.dtype, roles.query.value.dtype)
    has_range = all(is_float(d) and d.itemsize <= 4 and d != np.float16 for d in floats)
    return has_range and view.has_all_base_axes() and axes <= set(roles.query.axes)


# ----------------------------------------------------------------------------------------- emission


def emit_attention(node: Node, attention: MatchedAttention, editor: Editor) -> Value:
    """Emit an attention node for the evidence, and return its result in the shape of ``node``.

    The operands of the attention node are [batch, heads, positions, width]. Keys and values may
    have fewer heads than queries. Rows without visible scores are set to zero if the program does
    so (`Mask.zeroing_mask`).
    """
    p, dtype = attention.roles, _widest_dtype(node.out.dtype, attention.mask)
    heads = (*p.heads, *p.groups)
    query = _emit_operand(editor, p, p.query, (p.outer, heads, p.rows, p.width), dtype)
    for op, factor in attention.factors:
        magnitudes.record_magnitude_fact(editor, factor.base)
        query = _multiply_queries(editor, op, query, _emit_scores_view(editor, p, factor))
    key = _emit_operand(editor, p, p.key, (p.outer, p.heads, (p.columns,), p.width), dtype)
    value = _emit_operand(
        editor, p, p.value, (p.outer, p.heads, (p.columns,), p.value_width), dtype
    )
    inputs = [query, key, value]
    if attention.mask is not None:
        inputs.append(_emit_mask(editor, p, attention.mask, (query.shape[2], key.shape[2]), dtype))
    params = {
        "scale": attention.scale,
        "softcap": attention.softcap,
        "q_heads": query.shape[1],
        "kv_heads": key.shape[1],
        "precision": max(attention.precision, dtype, key=lambda d: d.itemsize),
        "mask_replaces_scores": attention.mask_replaces_scores,
    }
    shape = (*query.shape[:3], value.shape[3])
    out = editor.convert(editor.add(ops.attention, inputs, shape, dtype, params), node.out.dtype)
    if attention.mask is not None and attention.mask.zeroing_mask is not None:
        out = _zero_hidden_rows(editor, p, attention.mask.zeroing_mask, out)
    order = p.result()
    split = editor.reshape(out, tuple(p.sizes[i] for i in order))
    transposed = editor.transpose(split, [order.index(i) for i in p.out])
    return editor.reshape(transposed, node.out.shape)


def _multiply_queries(editor: Editor, op: Op, query: Value, factor: Value) -> Value:
    """Multiply or divide queries in float32 (``op``) and round the result once, as the scores would
    be."""
    operands = [editor.convert(value, np.float32) for value in (query, factor)]
    return editor.convert(editor.binary(op, *operands), query.dtype)


def _widest_dtype(dtype: np.dtype, mask: Mask | None) -> np.dtype:
    """Return the dtype in which the operator computes: that of the mask if it has more bits than
    ``dtype``."""
    return mask.dtype if mask is not None and mask.dtype.itemsize > dtype.itemsize else dtype


def _emit_operand(
    editor: Editor,
    roles: AxisRoles,
    operand: AttentionOperand,
    groups: tuple[tuple[int, ...], ...],
    dtype: np.dtype,
) -> Value:
    """Emit an operand of attention as an array with one axis for each group of logical axes.

    The axes of a group are merged. Axes that the operand does not have are broadcast.
    """
    base = editor.convert(operand.value, dtype)
    view = operand.view(base, max(roles.sizes) + 1)
    return emit_view(editor, view.merge_axes(groups, roles.sizes), _merged_shape(roles, groups))


def _merged_shape(roles: AxisRoles, groups: tuple[tuple[int, ...], ...]) -> Shape:
    """Return the shape of an array in which the logical axes of each group are merged."""
    return tuple(dims.size_product([roles.sizes[i] for i in group]) for group in groups)


def _emit_mask(
    editor: Editor,
    roles: AxisRoles,
    mask: Mask,
    score_sizes: tuple[dims.Dim, dims.Dim],
    dtype: np.dtype,
) -> Value:
    """Emit the mask: its terms applied to an array of zeros, in the order of the program.

    ``score_sizes`` contains the numbers of queries and keys. The last two axes have these sizes,
    because the operator does not broadcast them.
    """
    total = const(0, mask.dtype)
    for term in mask.terms:
        total = _apply_term(editor, roles, term, total, mask.dtype)
    if mask.needs_lifting:
        total = lift_hidden_rows(editor, total)
    total = editor.convert(total, dtype)
    return editor.broadcast(total, (*total.shape[:2], *score_sizes), (0, 1, 2, 3))


def _zero_hidden_rows(editor: Editor, roles: AxisRoles, hiding: FillMask, out: Value) -> Value:
    """Return ``out`` with zeros in the rows whose scores are all hidden by the mask ``hiding``.

    For these rows the result of the ``Attention`` operator is different in every version of the
    runtimes.
    """
    condition = _emit_scores_view(editor, roles, hiding.view)
    visible = condition
    if hiding.hidden:
        visible = editor.add(ops.not_, [condition], condition.shape, np.bool_)
    axes = {"axes": (3,)}
    if not dims.is_same_dim(visible.shape[3], 1):
        visible = editor.add(ops.reduce_or, [visible], visible.shape[:3], np.bool_, axes)
    rows = editor.reshape(visible, (*condition.shape[:3], 1))
    return editor.where(rows, out, const(0, out.dtype))


def _apply_term(
    editor: Editor, roles: AxisRoles, term: ScoreTerm, total: Value, dtype: np.dtype
) -> Value:
    """Emit one term of a mask on top of ``total``, which has the terms before it, and return the
    result.

    An additive term is added. A fill term replaces elements by a number, and the graph records that
    the rewrite relies on that number.
    """
    value = _emit_scores_view(editor, roles, term.view)
    if isinstance(term, AdditiveMask):
        value = editor.convert(value, dtype)
        if term.coefficient != 1:
            value = editor.binary(ops.mul, value, const(term.coefficient, dtype))
        return value if total.rank == 0 else editor.binary(ops.add, total, value)
    record_scalar_fact(editor, term.value)
    fill = const(np.asarray(term.number).astype(dtype))
    shape = dims.broadcast([value.shape, total.shape])
    assert shape is not None, (value.shape, total.shape)
    cases = [total, fill] if term.hidden else [fill, total]
    return editor.add(ops.select_n, [value, *cases], shape, dtype)


def _emit_scores_view(editor: Editor, roles: AxisRoles, view: View) -> Value:
    """Emit a view that has the logical axes as an array with ONNX's four axes: batch, heads,
    queries and keys.

    An axis along which nothing varies has size 1, the others have their full size.
    """
    groups = (roles.outer, (*roles.heads, *roles.groups), roles.rows, (roles.columns,))
    merged = view.merge_axes(groups, roles.sizes)
    return emit_view(editor, merged, merged.unbroadcast_shape(_merged_shape(roles, groups)))


def lift_hidden_rows(editor: Editor, mask: Value) -> Value:
    """Return ``mask - min(max(mask) - low, 0)``, with the maximum of each row.

    ``low`` is three quarters of the lowest number of the dtype. Rows with visible scores are not
    changed. A row whose maximum is below ``low`` is shifted so that its maximum is ``low``, which
    absorbs the same scores as before. A row of -inf becomes NaN, as in JAX.
    """
    shape = (*mask.shape[:-1], 1)
    top = editor.add(
        ops.reduce_max, [mask], mask.shape[:-1], mask.dtype, {"axes": (mask.rank - 1,)}
    )
    low = const(0.75 * 2.0 ** jnp.finfo(mask.dtype).maxexp, mask.dtype)
    above = editor.binary(ops.add, editor.reshape(top, shape), low)
    below = editor.binary(ops.min, above, const(0, mask.dtype))
    return editor.binary(ops.sub, mask, below)


_as_attention = partial(
    recogniser_from,
    "Attention",
    (ops.einsum,),
    emit=emit_attention,
    look_alikes=find_attention_look_alikes,
)
ATTENTION = _as_attention(find_evidence=match_attention)
STRICT_ATTENTION = _as_attention(find_evidence=partial(match_attention, strict=True))


# ----------------------------------------------------------------------------------- further rules


def share_repeated_heads(node: Node, editor: Editor) -> Value | None:
    """Pass keys and values once that are repeated for every head of a group [Ainslie et al.,
    arXiv:2305.13245].

        attention(q, repeat(k, n, heads), repeat(v, n, heads)) = attention(q, k, v)

    The right side has ``n`` heads of queries for each head of keys and values. ``node`` is an
    attention node. Return the result of a new attention node, or None if keys and values are not
    both repeated in the same way.
    """
    query, *repeated = node.inputs[:3]
    views = [_unrepeated_heads(value) for value in repeated]
    fewer = [view for view in views if view is not None]
    counts = {_head_count(view) for view in fewer}
    if len(fewer) < 2 or len(counts) > 1 or counts == {node.params["kv_heads"]}:
        return None
    count = counts.pop()
    sources = [
        emit_view(editor, view, (v.shape[0], count, *v.shape[2:]), v.dtype)
        for view, v in zip(fewer, repeated, strict=True)
    ]
    return editor.copy_with_operands(node, [query, *sources, *node.inputs[3:]], kv_heads=count)


def _unrepeated_heads(value: Value) -> View | None:
    """Return a view of an array [batch, heads, positions, width] before its heads were repeated.

    The view has the same four axes. If all heads are the same, it does not vary along the axis of
    heads. Return None if the heads are not repeated.
    """
    view = peeled_view(value)
    if view.axes[1] is None:
        return view
    source = match_repeated_axis(view)
    return source[0].select_axes((0, 1, 3, 4)) if source is not None and source[1] == 1 else None


def _head_count(view: View) -> dims.Dim:
    """Return the number of heads in the base of a view that `_unrepeated_heads` returned; 1 if all
    heads are the same."""
    return 1 if view.axes[1] is None else view.base.shape[view.axes[1]]


def rewrite_lowered_scores(node: Node, editor: Editor) -> Value | None:
    """Rewrite scores that are lowered where they are hidden as a sum with a term.

        where(hidden, x - c, x)  =  x - where(hidden, c, 0)

    ``node`` is the selection. Return the difference on the right side, or None for another
    selection. ``c`` is a constant of at least 10,000. Keras' ``Attention`` layer has the left side.
    """
    condition, *cases = node.inputs
    for i, (lowered, x) in enumerate((cases, cases[::-1]) if len(cases) == 2 else ()):
        difference = lowered.producer_if(ops.sub)
        if difference is None or difference.inputs[0] is not x:
            continue
        number = scalar(difference.inputs[1])
        if number is not None and number >= -VANISHING:
            numbers = [const(number if j == i else 0, x.dtype) for j in (0, 1)]
            view = peeled_view(condition)
            small = emit_view(editor, view, view.unbroadcast_shape(condition.shape))
            term = editor.add(ops.select_n, [small, *numbers], small.shape, x.dtype)
            return editor.binary(ops.sub, x, term)
    return None
