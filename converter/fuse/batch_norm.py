"""Batch norms with known statistics [Ioffe & Szegedy, arXiv:1502.03167].

    x * s - mean * s + bias  =  batch_norm(x, 1, mean, variance, bias, epsilon=epsilon)

``s`` is ``rsqrt(variance + epsilon)``, possibly times a scale. ``mean`` and ``variance`` have one
number for each channel of ``x`` [N, C, ...]. Runtimes compute the left side. The form ``(x - mean)
* s`` is not replaced: it keeps digits that the left side loses if the mean is many deviations.
"""

from dataclasses import replace

from converter.fuse.match import MatchContext, recogniser_from
from converter.fuse.norm import CentredValue, emit_factors_and_terms, match_centred
from converter.ir import Node, Value, const, dims, ops
from converter.ir.dtypes import is_float
from converter.ir.moves import emit_view, look_through
from converter.ir.rewrite import Editor


def match_batch_norm(node: Node, context: MatchContext) -> CentredValue | str | None:
    """Match ``x * s - mean * s + bias`` with one mean and one variance for each channel (axis 1).

    ``s`` is ``rsqrt(variance + epsilon)``, possibly times a scale. Return the match. Return a text,
    the reason for a near miss, if the factors may be infinite or huge, so that they must not be
    multiplied in another order. Return None for other nodes, or if the runtime has no
    BatchNormalization of this dtype.
    """
    out, reason = node.out, None
    if not (is_float(out.dtype) and context.has_operator("BatchNormalization", out.dtype)):
        return None
    if out.rank < 2 or not dims.is_static(out.shape[1]):
        return None
    for centre in match_centred(node, context):
        x, second_moment = (
            centre.x,
            look_through(centre.quotient.second_moment, conversions="rounding"),
        )
        is_aligned = x.axes == tuple(range(out.rank)) or (
            x.has_all_base_axes() and x.has_no_broadcast_axes(out.shape)
        )
        by_channel = (
            centre.average.varies_only_along((1,))
            and second_moment.varies_only_along((1,))
            and not x.varies_only_along((1,))
        )
        if is_aligned and by_channel and centre.weight == 1:
            if centre.may_move(context):
                return replace(
                    centre, quotient=replace(centre.quotient, second_moment=second_moment)
                )
            reason = centre.near_miss_reason
    return reason


def emit_batch_norm(node: Node, centre: CentredValue, editor: Editor) -> Value:
    """Emit a batch norm with scale 1 for the matched value, then its other factors and terms."""
    out = node.out
    channels = (out.shape[1],)
    x = emit_view(editor, centre.x, out.shape, out.dtype)
    statistics = [
        emit_view(editor, view.select_axes((1,)), channels, out.dtype)
        for view in (centre.average, centre.quotient.second_moment)
    ]
    ones = editor.broadcast(const(1, out.dtype), channels, ())
    params = {"epsilon": centre.quotient.as_attribute(editor)}
    normed = editor.add(ops.batch_norm, [x, ones, *statistics], out.shape, out.dtype, params)
    return emit_factors_and_terms(normed, centre, editor)


BATCH_NORM = recogniser_from(
    "BatchNormalization", (ops.add, ops.sub), match_batch_norm, emit_batch_norm
)
