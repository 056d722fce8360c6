"""Scaled dot-product attention [Vaswani et al., arXiv:1706.03762] around a softmax.

    softmax(f(q k^T)) v = attention(q, k, v, mask=f(0), scale=c, softcap=t)

where ``f`` multiplies by numbers (``c`` together) and by what the queries take instead, may cap
what it has so far (``t * tanh(x / t)``), adds terms, and puts low numbers in the place of hidden
scores; in any order of axes, of heads and batches. The root is the second product. Its softmax
operand is followed up, through ``f`` (``scores``), to the first product; all axes are numbered as
the softmax's own (``axes``); what ``f`` adds and hides has to mean the same when it is added as a
mask (``masks``); then the node is written (``build``), and keys and values that were repeated are
taken once (``rules``).
"""

from __future__ import annotations

import numpy as np

from converter.fuse.attention import attention_axes, attention_build, masks, scores
from converter.fuse.attention.attention_axes import Parts
from converter.fuse.attention.attention_build import Attention
from converter.fuse.attention.scores import ScoreFactor, Scores
from converter.fuse.match import Uses, only_reader, peel, proved, whole
from converter.ir import Node, ops
from converter.ir.axes import View, along
from converter.ir.dtypes import is_float


def prove_attention(node: Node, uses: Uses) -> Attention | str | None:
    reason = None
    for side in (0, 1):
        weights = peel(along(node.inputs[side]), rounding=True)
        if weights.op() is ops.softmax:
            found = _attention(node, side, weights, uses)
            if isinstance(found, Attention):
                return found
            reason = reason or found
        elif weights.op() in (ops.mul, ops.select_n, ops.slice) and _is_of_softmax(weights.node()):
            reason = f"between the softmax and the second product stands {weights.op()}"
    return reason


def _is_of_softmax(node: Node) -> bool:
    return any(whole(value).op() is ops.softmax for value in node.inputs)


def _attention(node: Node, side: int, weights: View, uses: Uses) -> Attention | str:
    if not only_reader(node.inputs[side], weights.base, uses):
        return "the weights of the softmax are used elsewhere"
    reasons: list[str] = []
    for found in scores.scores(weights.node().inputs[0], uses, reasons):
        evidence = _with(found, node, side, weights, uses)
        if isinstance(evidence, Attention):
            return evidence
        reasons.append(evidence)
    return reasons[0]


def _with(found: Scores, node: Node, side: int, weights: View, uses: Uses) -> Attention | str:
    parts = attention_axes.axis_parts(node, side, weights, found.product, uses)
    if isinstance(parts, str):
        return parts
    dtype, precision = node.out.dtype, found.product.base.dtype
    if not all(v.dtype == dtype for v in parts.values()):
        return "queries, keys, values and result differ in dtype"
    dtypes = {dtype, precision, *(t.dtype for t in found.terms)}
    odd = {d.name for d in dtypes if not (is_float(d) and uses.takes("Attention", d))}
    if odd:
        return f"the runtime's operator does not take {', '.join(sorted(odd))}"
    if not all(_is_of_queries(f, parts) for f in found.factors):
        return "the scores are multiplied by an array that queries cannot be multiplied by"
    cap = found.cap or 0.0
    scale = found.scale * parts.scale * (cap or 1.0)
    if not (0 < scale < float("inf") and 0 <= cap < float("inf")):
        return f"the scale {scale:g} is not positive"
    mask = masks.prove_masks(found.terms, parts.columns, dtype)
    if isinstance(mask, str):
        return mask
    return Attention(parts, scale, found.factors, cap, mask, precision)


def _is_of_queries(factor: ScoreFactor, parts: Parts) -> bool:
    """Whether queries may be multiplied in place of the scores; float16 might overflow."""
    view, query = factor.view, parts.query
    varies = {i for i, a in enumerate(view.axes) if a is not None}
    same = view.base.dtype == query.value.dtype == np.float32
    return same and view.complete() and varies <= set(query.axes)


ATTENTION = proved("Attention", (ops.einsum,), prove_attention, attention_build.build_attention)
