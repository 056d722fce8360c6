"""RMSNorm without scale [Zhang & Sennrich, arXiv:1910.07467].

    x * rsqrt(mean(x^2) + epsilon) = rms_norm(x, 1, epsilon=epsilon)

where the mean is over one or more axes, and the product may have further factors.
"""

from __future__ import annotations

from functools import partial

from converter.fuse import norm
from converter.fuse.match import Uses, proved
from converter.fuse.norm import Norm, NormDeviation, norm_deviations
from converter.fuse.reductions import Reduced, mean_of
from converter.ir import Node, ops


def prove_rms_norm(node: Node, uses: Uses) -> Norm | str | None:
    reason = None
    for deviation in norm_deviations(node, uses):
        found = mean_of(deviation.spread, uses)
        squares = None if found is None else found.squares()
        if found is None or squares is None:
            continue
        for x in deviation.rest.factors:
            axes = squares.axes_of(x)
            if axes and found.divides(x, axes) and x.complete():
                rest = tuple(deviation.rest.without(x))
                return Norm(x, axes, deviation.epsilon, rest, deviation.rest.coefficient)
        if _is_centred(squares, deviation):
            reason = "the mean is taken off what is squared only"
    return reason


def _is_centred(squares: Reduced, deviation: NormDeviation) -> bool:
    """``x * rsqrt(var(x) + eps)``: a variance, as of LayerNorm, but x itself is not centred."""
    bases = [f.base for f in deviation.rest.factors]
    return squares.view.op() is ops.sub and bases == [squares.operand(0).view.base]


RMS_NORM = proved(
    "RMSNormalization", (ops.mul, ops.div), prove_rms_norm, partial(norm.build_norm, ops.rms_norm)
)
