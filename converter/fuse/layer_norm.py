"""Norms that are divided by their own statistics, without scale and bias.

    (x - mean(x)) * rsqrt(var(x) + epsilon) = layer_norm(x, 1, epsilon=epsilon)
    x * rsqrt(mean(x^2) + epsilon)          = rms_norm(x, 1, epsilon=epsilon)

``var(x)`` is ``mean((x - mean(x))^2)`` or ``mean(x^2) - mean(x)^2``. All means are over the same
one or more axes. The product may have further factors. LayerNorm [Ba et al., arXiv:1607.06450] may
also be a difference of two products (``fuse/norm.py``), and its axes may be groups of other axes.
RMSNorm: Zhang & Sennrich, arXiv:1910.07467.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from converter.fuse.factors import factors_of
from converter.fuse.look_alikes import find_layer_norm_look_alikes, find_rms_norm_look_alikes
from converter.fuse.match import (
    MatchContext,
    match_repeated_axis,
    operand,
    operand_orders,
    operands,
    peeled_view,
    recogniser_from,
)
from converter.fuse.norm import (
    CentredValue,
    Norm,
    emit_norm,
    match_centred,
    match_root_quotients,
)
from converter.fuse.statistics import (
    is_variance,
    match_mean_form,
    match_summed_value,
    mean_square_axes,
    variance_divisor,
)
from converter.ir import Node, Value, dims, ops
from converter.ir.axes import View, as_group, view_of
from converter.ir.dims import Shape
from converter.ir.moves import look_through, view_of_operand
from converter.ir.scalars import scalar


def match_layer_norm(node: Node, context: MatchContext) -> Norm | str | None:
    """Match a layer norm without scale: a value that is centred and divided by its own deviation.

    ``node`` is the last operation of the norm, which may have further factors or terms. Return the
    match, or a text if the node nearly is a layer norm: the reason for a near miss. Return None for
    other nodes.
    """
    reason = _explain_epsilon_outside_root(node, context)
    for candidate in match_centred(node, context):
        centre, shape = split_repeated_groups(candidate, node.out.shape, context) or (
            candidate,
            None,
        )
        x = centre.x
        mean = match_mean_form(centre.average, x, context, centre.weight)
        if mean is None or not x.has_all_base_axes():
            continue
        divisor = variance_divisor(_unclipped(centre.quotient.second_moment), mean, x, context)
        if divisor == "elements" and centre.may_move(context):
            return Norm(x, mean.axes, centre.quotient, centre.terms, shape, centre.moved)
        if divisor == "elements":
            reason = centre.near_miss_reason
        elif divisor is not None:
            reason = "the variance is divided by another number than that of the elements (ddof)"
    return reason


def _explain_epsilon_outside_root(node: Node, context: MatchContext) -> str | None:
    """Return the reason for a near miss if an epsilon is added to the deviation, otherwise None.

    The structure is ``(x - mean(x)) / (sqrt(var(x)) + epsilon)``, which is no layer norm.
    """
    parts = factors_of(node, context) if node.op is ops.div else None
    if parts is None or len(parts.divisors) != 1 or parts.divisors[0].op() is not ops.add:
        return None
    for number, root in operand_orders(parts.divisors[0]):
        if scalar(number.base) is None or root.op() is not ops.sqrt:
            continue
        for factor in parts.factors:
            if factor.op() is not ops.sub:
                continue
            x, average = operands(factor)
            mean, second_moment = match_mean_form(average, x, context), _unclipped(operand(root, 0))
            if mean and variance_divisor(second_moment, mean, x, context) == "elements":
                return "the epsilon is added to the deviation and not to the variance in its root"
    return None


def _unclipped(view: View) -> View:
    """Return the operand of ``max(variance, 0)``, or the view itself if there is no such maximum.

    Conversions are also removed. The maximum has no effect, because a variance is not negative.
    """
    view = look_through(view, conversions="rounding")
    for number, other in operand_orders(view) if view.op() is ops.max else ():
        if scalar(number.base) == 0:
            return other
    return view


LAYER_NORM = recogniser_from(
    "LayerNormalization",
    (ops.mul, ops.div, ops.add, ops.sub),
    match_layer_norm,
    partial(emit_norm, ops.layer_norm),
    find_layer_norm_look_alikes,
)


# ------------------------------------------------------------------------ repeated for each channel


def split_repeated_groups(
    centre: CentredValue, shape: Shape, context: MatchContext
) -> tuple[CentredValue, Shape] | None:
    """Return a centred value with its channels split into groups, and the shape with the split.

    Statistics of groups of channels are repeated for each channel, as in Flax' GroupNorm:

        x - merge(repeat(mean(split(x))))  =  merge(split(x) - mean(split(x)))

    ``split`` reshapes an axis to [groups, size of a group], and ``merge`` is its inverse. The
    result describes the right side before ``merge``. ``shape`` is the shape of ``centre`` before
    the split. Return None if the statistics are not repeated in this way.
    """
    mean_repeat, square_repeat = (
        match_repeated_axis(centre.average),
        match_repeated_axis(centre.quotient.second_moment),
    )
    if mean_repeat is None or square_repeat is None or mean_repeat[1] != square_repeat[1]:
        return None
    (average, axis), (second_moment, _) = mean_repeat, square_repeat
    summed = match_summed_value(average, context)
    x = None if summed is None else _split(centre.x, summed, axis)
    if x is None:
        return None
    quotient = replace(centre.quotient, second_moment=second_moment)
    sizes = tuple(1 if a is None else x.base.shape[a] for a in x.axes)
    split_shape = (*shape[:axis], *sizes[axis : axis + 2], *shape[axis + 1 :])
    return replace(centre, x=x, average=average, quotient=quotient), split_shape


def _split(x: View, source: Value, axis: int) -> View | None:
    """Return ``x`` with ``axis`` split into two axes, as a view of ``source``.

    The axes ``axis`` and ``axis + 1`` of the result are the split axis. Return None if ``source``
    is not the result of a reshape that splits this axis of ``x``.
    """
    if source.node is None or source.node.op is not ops.reshape:
        return None
    split, base_view = view_of_operand(view_of(source)), x.compose(peeled_view(x.base))
    split_parts = None if split is None else split.compose(peeled_view(source.node.inputs[0]))
    if base_view is None or split_parts is None or base_view.base is not split_parts.base:
        return None
    pairs = zip(split_parts.groups, split_parts.groups[1:], strict=False)
    joined = [
        as_group((*first_group, *second_group)) if first_group and second_group else ()
        for first_group, second_group in pairs
    ]
    merged, other_groups = (
        base_view.groups[axis],
        [g for i, g in enumerate(base_view.groups) if i != axis and g],
    )
    if not merged or merged not in joined or not set(other_groups) <= set(split_parts.groups):
        return None
    axes = [split_parts.groups.index(g) if g in other_groups else None for g in base_view.groups]
    split_axis = joined.index(merged)
    return view_of(source, (*axes[:axis], split_axis, split_axis + 1, *axes[axis + 1 :]))


# -------------------------------------------------------------------------------------- not centred


def match_rms_norm(node: Node, context: MatchContext) -> Norm | str | None:
    """Match an RMS norm without scale, ``x * rsqrt(mean(x^2) + epsilon)``.

    The product may have further factors. Return the match, the reason for a near miss as a text, or
    None for other nodes.
    """
    reason = None
    for quotient in match_root_quotients(node, context):
        for x in quotient.numerator.factors:
            axes = mean_square_axes(quotient.second_moment, x, context)
            if axes and x.has_all_base_axes():
                norm = Norm(x, axes, quotient.without(x))
                return norm if _has_elements(x, axes) else "the normalised axis may be empty"
            if len(quotient.numerator.factors) == 1 and is_variance(
                quotient.second_moment, x, context
            ):
                reason = "the mean is taken off what is squared only"
    return reason


def _has_elements(x: View, axes: Sequence[int]) -> bool:
    """Return True if the normalised ``axes`` of x are not empty for any value of a named size.

    Runtimes raise an error for norms over empty axes.
    """
    base_axes = [a for i in axes if (a := x.axes[i]) is not None]
    return all(dims.is_at_least(x.base.shape[a], 1) for a in base_axes)


RMS_NORM = recogniser_from(
    "RMSNormalization",
    (ops.mul, ops.div),
    match_rms_norm,
    partial(emit_norm, ops.rms_norm),
    find_rms_norm_look_alikes,
)
