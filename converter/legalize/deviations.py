"""Cases in which the results of ONNX operators differ from JAX for some inputs.

By default the operator is used and the case is reported. In a strict conversion, additional nodes
compute JAX's result. The quirks of a runtime add further cases (``converter/targets``). If the
exact form of an arithmetic operation is not measurably slower, it is always used.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from converter.ir import Node, Value, const, ops
from converter.ir.dtypes import highest, is_float, is_integer, lowest
from converter.ir.op import Op
from converter.ir.origins import all_ancestors_pass
from converter.ir.ranges import known_range
from converter.ir.rewrite import Editor, Rule
from converter.layout.pooling import windows_fit
from converter.targets import Deviation, Target

NAN_SKIPPED_TEXT = "the maximum or minimum of numbers with NaN among them leaves NaN out"


def _interpolates_computed_values(node: Node) -> bool:
    """Return True if a resize interpolates between values that may be infinite or NaN."""
    return node.params["kinds"][0][0] != "nearest" and _may_be_infinite(node.inputs[0])


def _only_moves(op: Op) -> bool:
    """Return True if an operation moves or converts elements, but does not compute with them."""
    return op.moves or op is ops.convert_element_type


def _is_finite_leaf(leaf: Value) -> bool:
    """Return True if a value without a node is a parameter, which is assumed finite, or a finite
    constant."""
    return leaf.kind == "param" or (leaf.kind == "const" and bool(np.isfinite(leaf.const).all()))


def _may_have_nan(node: Node) -> bool:
    """Return True if the node's first operand is a float that may be NaN."""
    x = node.inputs[0]
    return is_float(x.dtype) and known_range(x).nan


def _propagate_nan(node: Node, editor: Editor) -> Value:
    """Rewrite a maximum or minimum along axes so that it is NaN if any element is NaN."""
    (x,), out = node.inputs, editor.copy_with_operands(node, node.inputs)
    any_nan = editor.add(
        ops.reduce_or, [editor.compare(ops.ne, x, x)], out.shape, np.bool_, node.params
    )
    return editor.where(any_nan, const(math.nan, out.dtype), out)


def _propagate_nan_position(node: Node, editor: Editor) -> Value:
    """Rewrite ``argmax`` or ``argmin`` so that it returns the position of the first NaN if there is
    one."""
    (x,), shape = node.inputs, node.out.shape
    nan = editor.compare(ops.ne, x, x)
    any_nan = editor.add(ops.reduce_or, [nan], shape, np.bool_, {"axes": node.params["axes"]})
    flags = editor.convert(nan, np.int32)
    first = editor.add(ops.argmax, [flags], shape, node.out.dtype, node.params)
    return editor.where(any_nan, first, editor.copy_with_operands(node, node.inputs))


def _scatter_nan(node: Node, editor: Editor) -> Value:
    """Rewrite a scatter of maxima or minima so that it is NaN where a NaN was combined with any
    number.

    The positions of NaN are computed by the same scatter, applied to flags that mark NaN.
    """
    x, indices, updates = node.inputs
    out = editor.copy_with_operands(node, node.inputs)
    flags = [editor.convert(editor.compare(ops.ne, v, v), np.int32) for v in (x, updates)]
    inputs = [flags[0], indices, flags[1]]
    any_nan = editor.add(ops.scatter_max, inputs, out.shape, np.int32, node.params)
    return editor.where(editor.convert(any_nan, np.bool_), const(math.nan, out.dtype), out)


def _gelu_by_erfc(node: Node, editor: Editor) -> Value:
    """Rewrite a GELU as x/2 * erfc(-x / sqrt(2)), because 1 + erf(x / sqrt(2)) cancels for negative
    x."""
    (x,), dtype = node.inputs, node.out.dtype
    scaled = editor.binary(ops.mul, x, const(-math.sqrt(0.5), dtype))
    tail = editor.add(ops.erfc, [scaled], x.shape, dtype)
    return editor.binary(ops.mul, editor.binary(ops.mul, x, const(0.5, dtype)), tail)


def _may_be_infinite(x: Value) -> bool:
    """Return True if a value may be infinite or NaN.

    A parameter is assumed finite. A value that is moved or converted from finite ones, or has
    finite bounds, is finite.
    """
    interval = known_range(x)
    is_bounded = not interval.nan and math.isfinite(interval.low) and math.isfinite(interval.high)
    return not is_bounded and not all_ancestors_pass(
        x, _is_finite_leaf, lambda inner: _only_moves(inner.op)
    )


def _scale_after_norm(node: Node, editor: Editor) -> Value:
    """Rewrite a norm as one without scale and bias, followed by a product and a sum with these."""
    x, scale, bias = node.inputs
    ones, zeros = (editor.broadcast(const(n, x.dtype), scale.shape, ()) for n in (1, 0))
    channel_shape = (*scale.shape, *(1,) * (x.rank - 2))
    normed = editor.copy_with_operands(node, [x, ones, zeros])
    scaled = editor.binary(ops.mul, normed, editor.reshape(scale, channel_shape))
    return editor.binary(ops.add, scaled, editor.reshape(bias, channel_shape))


def _top_k_total_order(node: Node, editor: Editor) -> list[Value]:
    """Rewrite a ``top_k`` so that it orders NaN and signed zeros as JAX does."""
    types = [(v.shape, v.dtype) for v in node.outputs]
    return editor.add_many(ops.top_k, node.inputs, types, {**node.params, "total": True})


ACTIVATION_DEVIATIONS = {
    op: Deviation(
        row.deviation,
        absolute_functions=row.absolute_functions,
        fails_verification=row.fails_verification,
    )
    for op, row in ops.ACTIVATIONS.items()
    if row.deviation
}

COMMON_DEVIATIONS: dict[Op, Deviation] = {
    **dict.fromkeys(
        (ops.reduce_max, ops.reduce_min), Deviation(NAN_SKIPPED_TEXT, _propagate_nan, _may_have_nan)
    ),
    **dict.fromkeys(
        (ops.argmax, ops.argmin),
        Deviation(
            "the place of the maximum or minimum is not that of the first NaN",
            _propagate_nan_position,
            _may_have_nan,
        ),
    ),
    **dict.fromkeys((ops.scatter_max, ops.scatter_min), Deviation(NAN_SKIPPED_TEXT, _scatter_nan)),
    ops.max_pool: Deviation(
        "a window's maximum or minimum leaves NaN out, and is the largest finite number for inf"
    ),
    **dict.fromkeys(
        (ops.sum_pool, ops.avg_pool),
        Deviation(
            "a sum or average over a window that is longer than its axis of named size is refused, "
            "or is one number where there should be none",
            affects=lambda node: not windows_fit(node.inputs[0].shape[2:], node.params),
        ),
    ),
    ops.max_pool_scatter: Deviation("the gradient of a window with NaN goes elsewhere"),
    ops.top_k: Deviation(
        "NaN is not the largest, and 0.0 and -0.0 are equal, in the order of top_k",
        _top_k_total_order,
    ),
    ops.approx_top_k: Deviation(
        "NaN is not the largest, and 0.0 and -0.0 are equal, in the order of approx_max_k"
    ),
    **ACTIVATION_DEVIATIONS,
    ops.gelu: replace(
        ACTIVATION_DEVIATIONS[ops.gelu],
        exact_rule=_gelu_by_erfc,
        affects=lambda node: not node.params["approximate"],
    ),
    ops.attention: Deviation(
        "a score that is NaN or infinite counts in an Attention whose mask hides it",
        affects=lambda node: node.params["mask_replaces_scores"],
    ),
    ops.rotary: Deviation(
        "NaN or an infinity in a token that is not rotated makes NaN of both elements of its pair",
        affects=lambda node: node.params.get("prefix", False),
    ),
    ops.group_norm: Deviation(
        "a norm of channels with an infinite scale is NaN",
        _scale_after_norm,
        lambda node: _may_be_infinite(node.inputs[1]),
    ),
    ops.conv_transpose: Deviation(
        "NaN or an infinity in the kernel of a transposed convolution in groups is not multiplied "
        "by the zeros between elements",
        affects=lambda node: node.params["groups"] != 1 and _may_be_infinite(node.inputs[1]),
    ),
    ops.grid_sample: Deviation(
        "GridSample gives a number at a place that is NaN or infinite, and JAX NaN; an infinite "
        "pixel at the edge of an image may be NaN"
    ),
    ops.resize: Deviation(
        "a resized axis with NaN or an infinity has NaN next to that alone, not all along",
        affects=_interpolates_computed_values,
    ),
}
"""Deviations by operation, for every target. The windows pass has already made exact what it
can."""


def deviations(target: Target) -> dict[Op, Deviation]:
    """Return the deviations of a target by operation: those of ONNX and those of the target's
    quirks.

    If there are several for an operation, that of the last quirk is returned.
    """
    of_quirks = (quirk.deviations.items() for quirk in target.quirks)
    return {**COMMON_DEVIATIONS, **dict(chain.from_iterable(of_quirks))}


def deviation_rules(strict: bool, notes: dict[str, list[Node]], target: Target) -> dict[Op, Rule]:
    """Return rules for the operations whose ONNX operators may deviate from JAX.

    A rule keeps nodes that the deviation does not affect. In a strict conversion it rewrites an
    affected node in a form without the deviation, if there is one. Otherwise it keeps the node and
    adds it to ``notes``.

    Arguments:
        strict: whether the conversion is strict.
        notes: the affected nodes, by the sentence for the report.
        target: the target, whose quirks may add deviations.
    """
    table = deviations(target)

    def rule(node: Node, editor: Editor) -> Value | Sequence[Value] | None:
        deviation = table[node.op]
        if not deviation.affects(node):
            return None
        if strict and deviation.exact_rule is not None:
            return deviation.exact_rule(node, editor)
        notes.setdefault(deviation.sentence, []).append(node)
        return None

    return dict.fromkeys(table, rule)


# --------------------------------------------------------------------------------- always exact

# Some results are defined in JAX but undefined in ONNX: the division of an integer by zero, the
# conversion of a float that is out of the range of the integer type, and a clamp with a NaN bound.
# Operations are not changed if their operands are known to be in range.


def _saturate_conversion(node: Node, editor: Editor) -> Value | None:
    """Convert floats to an integer dtype as XLA does: clamp them to its range, and convert NaN to
    0.

    Return None for other conversions, or if all elements are known to be in range.
    """
    x, dtype = node.inputs[0], node.out.dtype
    if not (is_float(x.dtype) and is_integer(dtype)):
        return None
    interval, low, high = known_range(x), int(lowest(dtype)), int(highest(dtype))
    if interval.within(low, high):
        return None
    bottom, top = (_nearest_float(number, x.dtype) for number in (low, high))
    clamped = editor.add(ops.clamp, [bottom, x, top], x.shape, x.dtype)
    if interval.nan:
        nan = editor.compare(ops.ne, x, x)
        clamped = editor.where(nan, const(0, x.dtype), clamped)
    result = editor.convert(clamped, dtype)
    # The limits of the integer type may not be representable as floats.
    for op, bound, number in ((ops.gt, top, high), (ops.lt, bottom, low)):
        if int(bound.const) != number:
            is_beyond = editor.compare(op, x, bound)
            result = editor.where(is_beyond, const(number, dtype), result)
    return result


def _nearest_float(number: int, dtype: Any) -> Value:
    """Return a constant: the nearest float of this dtype that is not larger than an integer in
    absolute value."""
    with np.errstate(over="ignore"):
        number_as_float = np.asarray(number).astype(np.float64).astype(dtype)
    if not np.isfinite(number_as_float) or abs(int(number_as_float)) > abs(number):
        number_as_float = np.nextafter(number_as_float, np.zeros((), dtype))
    return const(number_as_float, dtype)


def _divide_by_zero(node: Node, editor: Editor) -> Value | None:
    """Rewrite a division of integers so that ``x / 0`` has all bits set: -1 if the dtype is signed.

    Return None for floats, or if the divisor is known not to be zero.
    """
    ones = -1 if node.out.dtype.kind == "i" else highest(node.out.dtype)
    return _replace_zero_divisor(node, editor, const(ones, node.out.dtype))


def _remainder_by_zero(node: Node, editor: Editor) -> Value | None:
    """Rewrite a remainder of integers so that ``x % 0`` is ``x``.

    Return None for floats, or if the divisor is known not to be zero.
    """
    return _replace_zero_divisor(node, editor, node.inputs[0])


def _replace_zero_divisor(node: Node, editor: Editor, result: Value) -> Value | None:
    """Return the result of a division or remainder, with ``result`` where the divisor is zero.

    The operator divides by one there. Return None for floats, or if the divisor is known not to be
    zero.
    """
    x, y = node.inputs
    if not is_integer(x.dtype) or known_range(y).misses(0):
        return None
    is_zero = editor.compare(ops.eq, y, const(0, y.dtype))
    quotient = editor.binary(node.op, x, editor.where(is_zero, const(1, y.dtype), y))
    return editor.where(is_zero, result, quotient)


def _clamp_with_nan(node: Node, editor: Editor) -> Value | None:
    """Rewrite a clamp whose bounds may be NaN by ``max`` and ``min``, which propagate NaN. ``Clip``
    ignores a NaN bound.

    Return None if the bounds cannot be NaN.
    """
    low, x, high = node.inputs
    if not any(is_float(bound.dtype) and known_range(bound).nan for bound in (low, high)):
        return None
    # Operands may have fewer axes than the result.
    above = editor.binary(ops.max, x, low)
    return editor.add(ops.min, [above, high], node.out.shape, node.out.dtype)


ARITHMETIC_RULES: dict[Op, Rule] = {
    ops.clamp: _clamp_with_nan,
    ops.convert_element_type: _saturate_conversion,
    ops.div: _divide_by_zero,
    ops.rem: _remainder_by_zero,
}
