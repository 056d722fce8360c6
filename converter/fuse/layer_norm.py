"""Norms over their own statistics, without scale and bias.

    (x - mean(x)) * rsqrt(var(x) + epsilon) = layer_norm(x, 1, epsilon=epsilon)
    x * rsqrt(mean(x^2) + epsilon)          = rms_norm(x, 1, epsilon=epsilon)

where ``var(x)`` is ``mean((x - mean(x))^2)`` or ``mean(x^2) - mean(x)^2``, the means are over the
same one or more axes, and the product may have further factors. LayerNorm [Ba et al.,
arXiv:1607.06450] may be the difference of two products (``fuse/norm.py``), and its axes may be
groups of others; RMSNorm is of Zhang & Sennrich, arXiv:1910.07467.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from converter.fuse.look_alikes import layer_norm_like, rms_norm_like
from converter.fuse.match import Uses, operand, operands, pair, peel, proved, unrepeated, whole
from converter.fuse.norm import (
    CentredValue,
    Norm,
    build_norm,
    centred,
    norm_deviations,
)
from converter.fuse.product_terms import product_of
from converter.fuse.statistics import (
    is_variance,
    mean_form,
    mean_square_axes,
    summed_value,
    variance_divisor,
)
from converter.ir import Node, Value, dims, ops
from converter.ir.axes import View, along, as_group
from converter.ir.dims import Shape
from converter.ir.moves import above
from converter.ir.scalars import scalar


def prove_layer_norm(node: Node, uses: Uses) -> Norm | str | None:
    reason = _outside_the_root(node, uses)
    for written in centred(node, uses):
        centre, shape = opened(written, node.out.shape, uses) or (written, None)
        x = centre.x
        mean = mean_form(centre.average, x, uses, centre.weight)
        if mean is None or not x.complete():
            continue
        divisor = variance_divisor(_unclipped(centre.deviation.spread), mean, x, uses)
        if divisor == "elements" and centre.may_move(uses):
            return Norm(x, mean.axes, centre.deviation, centre.terms, shape, centre.moved)
        if divisor == "elements":
            reason = centre.reason
        elif divisor is not None:
            reason = "the variance is divided by another number than that of the elements (ddof)"
    return reason


def _outside_the_root(node: Node, uses: Uses) -> str | None:
    """Why ``(x - mean(x)) / (sqrt(var(x)) + epsilon)`` is none."""
    parts = product_of(node, uses) if node.op is ops.div else None
    if parts is None or len(parts.divisors) != 1 or parts.divisors[0].op() is not ops.add:
        return None
    for number, root in pair(parts.divisors[0]):
        if scalar(number.base) is None or root.op() is not ops.sqrt:
            continue
        for factor in parts.factors:
            if factor.op() is not ops.sub:
                continue
            x, average = operands(factor)
            mean, spread = mean_form(average, x, uses), _unclipped(operand(root, 0))
            if mean and variance_divisor(spread, mean, x, uses) == "elements":
                return "the epsilon is added to the deviation and not to the variance in its root"
    return None


def _unclipped(view: View) -> View:
    """A variance is often clipped at zero; it cannot be negative here."""
    view = peel(view, rounding=True)
    for number, other in pair(view) if view.op() is ops.max else ():
        if scalar(number.base) == 0:
            return other
    return view


LAYER_NORM = proved(
    "LayerNormalization",
    (ops.mul, ops.div, ops.add, ops.sub),
    prove_layer_norm,
    partial(build_norm, ops.layer_norm),
    layer_norm_like,
)


# ------------------------------------------------------------------------ repeated for each channel


def opened(centre: CentredValue, shape: Shape, uses: Uses) -> tuple[CentredValue, Shape] | None:
    """Value that is centred, along logical axes of which the groups are one; and its shape.

    Statistics of groups of channels are repeated for each channel, as in Flax' GroupNorm:

        x - merge(repeat(mean(split(x))))  =  merge(split(x) - mean(split(x)))

    ``split`` writes an axis as [groups, size of one], ``merge`` undoes it.
    """
    first, second = unrepeated(centre.average), unrepeated(centre.deviation.spread)
    if first is None or second is None or first[1] != second[1]:
        return None
    (average, axis), (spread, _) = first, second
    total = summed_value(average, uses)
    x = None if total is None else _split(centre.x, total, axis)
    if x is None:
        return None
    deviation = replace(centre.deviation, spread=spread)
    sizes = tuple(1 if a is None else x.base.shape[a] for a in x.axes)
    inside = (*shape[:axis], *sizes[axis : axis + 2], *shape[axis + 1 :])
    return replace(centre, x=x, average=average, deviation=deviation), inside


def _split(x: View, source: Value, axis: int) -> View | None:
    """``x`` as it is in ``source``, if that is ``x`` with this axis split."""
    if source.node is None or source.node.op is not ops.reshape:
        return None
    split, seen = above(along(source)), x.of(whole(x.base))
    parts = None if split is None else split.of(whole(source.node.inputs[0]))
    if seen is None or parts is None or seen.base is not parts.base:
        return None
    pairs = zip(parts.groups, parts.groups[1:], strict=False)
    joined = [as_group((*one, *other)) if one and other else () for one, other in pairs]
    merged, others = seen.groups[axis], [g for i, g in enumerate(seen.groups) if i != axis and g]
    if not merged or merged not in joined or not set(others) <= set(parts.groups):
        return None
    places = [parts.groups.index(g) if g in others else None for g in seen.groups]
    first = joined.index(merged)
    return along(source, (*places[:axis], first, first + 1, *places[axis + 1 :]))


# -------------------------------------------------------------------------------------- not centred


def prove_rms_norm(node: Node, uses: Uses) -> Norm | str | None:
    reason = None
    for deviation in norm_deviations(node, uses):
        for x in deviation.rest.factors:
            axes = mean_square_axes(deviation.spread, x, uses)
            if axes and x.complete():
                norm = Norm(x, axes, deviation.without(x))
                return norm if _has_elements(x, axes) else "the normalised axis may be empty"
            if len(deviation.rest.factors) == 1 and is_variance(deviation.spread, x, uses):
                reason = "the mean is taken off what is squared only"
    return reason


def _has_elements(x: View, axes: Sequence[int]) -> bool:
    """Whether there are some along all axes, whatever the named sizes are: runtimes refuse none."""
    own = [a for i in axes if (a := x.axes[i]) is not None]
    return all(dims.is_at_least(x.base.shape[a], 1) for a in own)


RMS_NORM = proved(
    "RMSNormalization",
    (ops.mul, ops.div),
    prove_rms_norm,
    partial(build_norm, ops.rms_norm),
    rms_norm_like,
)
