"""Batch norms with statistics that are known [Ioffe & Szegedy, arXiv:1502.03167].

    x * s - mean * s + bias  =  batch_norm(x, 1, mean, variance, bias, epsilon=epsilon)

where ``s`` is ``rsqrt(variance + epsilon)``, perhaps times a scale, and ``mean`` and ``variance``
have a number for each channel of ``x`` [N, C, ...]. Runtimes compute the left side. The form
``(x - mean) * s`` keeps digits that this loses where the mean is many deviations, so that it stays.
"""

from dataclasses import replace

from converter.fuse.match import Uses, peel, proved
from converter.fuse.norm import CentredValue, centred, dressed
from converter.ir import Node, Value, const, dims, ops
from converter.ir.dtypes import is_float
from converter.ir.moves import write
from converter.ir.rewrite import Editor


def prove_batch_norm(node: Node, uses: Uses) -> CentredValue | str | None:
    out, reason = node.out, None
    if not (is_float(out.dtype) and uses.takes("BatchNormalization", out.dtype)):
        return None
    if out.rank < 2 or not dims.is_static(out.shape[1]):
        return None
    for centre in centred(node, uses):
        x, spread = centre.x, peel(centre.deviation.spread, rounding=True)
        same = x.axes == tuple(range(out.rank)) or (x.complete() and x.fills(out.shape))
        by_channel = centre.average.covers((1,)) and spread.covers((1,)) and not x.covers((1,))
        if same and by_channel and centre.weight == 1:
            if centre.may_move(uses):
                return replace(centre, deviation=replace(centre.deviation, spread=spread))
            reason = centre.reason
    return reason


def build_batch_norm(node: Node, centre: CentredValue, editor: Editor) -> Value:
    out = node.out
    channels = (out.shape[1],)
    x = write(editor, centre.x, out.shape, out.dtype)
    statistics = [
        write(editor, view.take((1,)), channels, out.dtype)
        for view in (centre.average, centre.deviation.spread)
    ]
    ones = editor.broadcast(const(1, out.dtype), channels, ())
    params = {"epsilon": centre.deviation.as_attribute(editor)}
    normed = editor.add(ops.batch_norm, [x, ones, *statistics], out.shape, out.dtype, params)
    return dressed(normed, centre, editor)


BATCH_NORM = proved("BatchNormalization", (ops.add, ops.sub), prove_batch_norm, build_batch_norm)
