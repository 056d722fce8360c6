"""Move a factor of a linear operation from its result to its operands.

A rule takes a node and the factor of its result. It returns a list of choices. A choice is a list
of operands that are all multiplied, each with its factor, in place of the result. The list is empty
if the factor cannot be moved. The node itself is not changed.

Factors and divisors are excluded if they could cause an overflow that did not happen before. A
factor has as many axes as the value that it multiplies; axes along which it is constant have size
one.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from converter.ir import Node, Value, const, dims, make_node, ops
from converter.ir.axes import view_of
from converter.ir.evaluation import bound_array
from converter.ir.formulas import LARGEST_SCALE
from converter.ir.moves import emit_view, shortened_axis, view_of_operand
from converter.ir.op import Op
from converter.ir.rewrite import Editor, inverse_order
from converter.ir.scalars import scalar


@dataclass(frozen=True)
class ScaledOperand:
    """Operand of a node, with the value that it is multiplied with or added to.

    Arguments:
        node: the node that reads the operand.
        index: position of the operand. For a bias that is missing, it is the number of operands of
            the node, and `value` raises `IndexError`.
        other: the factor or term.
    """

    node: Node
    index: int
    other: Value

    @property
    def value(self) -> Value:
        """The operand, ``node.inputs[index]``."""
        return self.node.inputs[self.index]


ScaledOperands: TypeAlias = list[ScaledOperand]
"""Operands that all have to be multiplied."""


def _scale_view(node: Node, factor: Value, editor: Editor) -> list[ScaledOperands]:
    """Return the operand of a transpose or reshape to multiply with a factor in place of the
    result.

    The list has one choice with one operand. The factor is transposed and reshaped to the axes of
    the operand. The list is empty if this is not possible, or if the shape of the factor is not
    static.
    """
    (value,) = node.inputs
    if not _varying_axes(factor):
        return [[ScaledOperand(node, 0, editor.reshape(factor, (1,) * value.rank))]]
    inverse = view_of_operand(view_of(_inverse_view(node).out))
    if inverse is None:
        return []
    view = inverse.rebase(factor, range(factor.rank))
    shape = view.unbroadcast_shape(value.shape)
    return (
        [[ScaledOperand(node, 0, emit_view(editor, view, shape))]] if dims.all_static(shape) else []
    )


def _inverse_view(node: Node) -> Node:
    """Return a node that computes the operand of a transpose or reshape from its result."""
    (value,), params = node.inputs, {"shape": node.inputs[0].shape}
    if node.op is ops.transpose:
        params = {"permutation": inverse_order(node.params["permutation"])}
    return make_node(node.op, node.outputs, [(value.shape, value.dtype)], params)


def _scale_slice(node: Node, factor: Value, editor: Editor) -> list[ScaledOperands]:
    """Return the operand of a slice to multiply with a factor in place of the result.

    The list has one choice with one operand, whose factor has ones outside of the slice. It is
    empty if the slice has strides or shortens several axes.
    """
    axis = shortened_axis(node)
    if axis is None:
        return []

    def spread(value: Value, size: int) -> Value:
        """Return a value broadcast to ``size`` entries along the axis of the slice."""
        shape = (*factor.shape[:axis], size, *factor.shape[axis + 1 :])
        return editor.broadcast(value, shape, range(value.rank))

    start, stop = (node.params[name][axis] for name in ("start_indices", "limit_indices"))
    one = const(np.ones((1,) * factor.rank, factor.dtype))
    sizes = start, stop - start, node.inputs[0].shape[axis] - stop
    parts = [spread(v, n) for v, n in zip((one, factor, one), sizes, strict=True) if n]
    return [[ScaledOperand(node, 0, editor.concatenate(parts, axis))]]


def _scale_concatenate(node: Node, factor: Value, editor: Editor) -> list[ScaledOperands]:
    """Return the operands of a concatenation to multiply with a factor in place of the result.

    The list has one choice with all operands. It is empty if the factor varies along the axis of
    the concatenation.
    """
    differs = node.params["dimension"] in _varying_axes(factor)
    return [] if differs else [[ScaledOperand(node, i, factor) for i in range(len(node.inputs))]]


def _scale_either(node: Node, factor: Value, editor: Editor) -> list[ScaledOperands]:
    """Return the operands of a product to multiply with a factor in place of the result.

    The list has one choice for each operand.
    """
    return [
        [ScaledOperand(node, i, _drop_leading_ones(factor, v, editor))]
        for i, v in enumerate(node.inputs)
    ]


def _scale_first(node: Node, factor: Value, editor: Editor) -> list[ScaledOperands]:
    """Return the first operand of a node, such as a dividend, to multiply with a factor in place of
    the result.

    The list has one choice with one operand.
    """
    return _scale_either(node, factor, editor)[:1]


def _scale_both(node: Node, factor: Value, editor: Editor) -> list[ScaledOperands]:
    """Return the operands of a sum or difference to multiply with a factor in place of the result.

    The list has one choice with both operands.
    """
    return [[part for parts in _scale_either(node, factor, editor) for part in parts]]


def _drop_leading_ones(factor: Value, operand: Value, editor: Editor) -> Value:
    """Return a factor without its leading axes that ``operand`` does not have.

    It is returned unchanged if the size of one of these axes is not one.
    """
    surplus = factor.rank - operand.rank
    ones = all(dims.is_same_dim(d, 1) for d in factor.shape[:surplus])
    return editor.reshape(factor, factor.shape[surplus:]) if surplus > 0 and ones else factor


def _scale_matmul(node: Node, factor: Value, editor: Editor) -> list[ScaledOperands]:
    """Return the operands of a matrix product to multiply with a factor in place of the result.

    The list has one choice for each operand that has all axes of the result along which the factor
    varies.
    """
    choices: list[ScaledOperands] = []
    for index in range(len(node.inputs)):
        result_axes = _axes_in_result(node, index)
        if set(_varying_axes(factor)) <= {axis for axis in result_axes if axis is not None}:
            shape = tuple(1 if axis is None else factor.shape[axis] for axis in result_axes)
            choices.append([ScaledOperand(node, index, editor.reshape(factor, shape))])
    return choices


def _axes_in_result(node: Node, index: int) -> list[int | None]:
    """Return the axis of the result for each axis of an operand of a matrix product.

    None stands for the contracted axis, and for an axis along which the operand is broadcast.
    ``index`` is the position of the operand.
    """
    x, y = node.inputs
    operand, out = node.inputs[index], node.out
    matrices = [int(v.rank > 1) for v in (x, y)]
    if operand.rank == 1:
        return [None]
    count, batch = operand.rank - 2, out.rank - sum(matrices)
    axes: list[int | None] = [
        axis if dims.is_same_dim(operand.shape[i], out.shape[axis]) else None
        for i, axis in enumerate(range(batch - count, batch))
    ]
    return [*axes, batch, None] if index == 0 else [*axes, None, out.rank - 1]


CONVOLUTIONS = {ops.conv: 0, ops.conv_transpose: 1}
"""Axis of the weights that has the channels of the result."""


def _scale_convolution(node: Node, factor: Value, editor: Editor) -> list[ScaledOperands]:
    """Return the weights and the bias of a convolution to multiply with a factor in place of the
    result.

    The list has one choice. It is empty if the factor varies along other axes than the channels, or
    for a transposed convolution with groups.
    """
    weight, axis = node.inputs[1], CONVOLUTIONS[node.op]
    # In a grouped transposed convolution, this axis of the weights has only the channels of one
    # group.
    if _varying_axes(factor) not in ([], [1]) or (axis and node.params["groups"] > 1):
        return []
    size = factor.shape[1]
    by_channel = tuple(size if i == axis else 1 for i in range(weight.rank))
    parts = [ScaledOperand(node, 1, editor.reshape(factor, by_channel))]
    if len(node.inputs) > 2:
        parts.append(ScaledOperand(node, 2, editor.reshape(factor, (size,))))
    return [parts]


def channel_vector(node: Node, term: Value, editor: Editor) -> Value | None:
    """Return a term that is added to the result of a convolution as a bias [channels], or None if
    it varies along other axes."""
    if _varying_axes(term) not in ([], [1]):
        return None
    return editor.broadcast(editor.reshape(term, term.shape[1:2]), node.out.shape[1:2], (0,))


def _varying_axes(factor: Value) -> list[int]:
    """Return the axes along which a factor may vary, which are the axes whose size is not one."""
    return [i for i, d in enumerate(factor.shape) if not dims.is_same_dim(d, 1)]


SCALING_RULES: dict[Op, Callable[[Node, Value, Editor], Sequence[ScaledOperands]]] = {
    ops.transpose: _scale_view,
    ops.reshape: _scale_view,
    ops.slice: _scale_slice,
    ops.concatenate: _scale_concatenate,
    ops.neg: _scale_first,
    ops.mul: _scale_either,
    ops.div: _scale_first,
    ops.add: _scale_both,
    ops.sub: _scale_both,
    ops.matmul: _scale_matmul,
    **dict.fromkeys(CONVOLUTIONS, _scale_convolution),
}
"""The operands that can be multiplied instead of the result, by operation."""


# ----------------------------------------------------------------- weights that have to stay finite

MAX_SCALED_WEIGHT = 2.0**40
"""Largest weight that is multiplied with a factor. Sums of its products with ordinary numbers,
below the inverse of it, overflow neither before nor after."""


def has_moderate_size(value: Value, divides: bool) -> bool:
    """Return True if the numbers of a constant are far from the limits of floats.

    A factor must be from 1 / ``LARGEST_SCALE`` to ``LARGEST_SCALE`` in magnitude, or zero. A
    divisor (``divides``) must not be zero. True for values that are not constant, whose sizes are
    checked when the file is saved.
    """
    number = scalar(value)
    if number is None and value.kind != "const":
        return True
    sizes = np.abs(np.asarray(value.const if number is None else number, np.float64))
    within = (sizes >= 1 / LARGEST_SCALE) & (sizes <= LARGEST_SCALE)
    return bool(np.all(within | (sizes == 0) & (not divides)))


def sizes_of_factor(divides: bool) -> dict[str, float]:
    """Return the allowed magnitudes of a factor or divisor as the parameters ``least`` and ``most``
    of ``ops.factor``.

    A factor is at most ``LARGEST_SCALE``, and a divisor (``divides``) at least its inverse. NaN is
    allowed, because the result would be NaN in any case.
    """
    ends = (1 / LARGEST_SCALE, math.inf) if divides else (0.0, LARGEST_SCALE)
    return dict(zip(("least", "most"), ends, strict=True))


WEIGHT_SIZES = {"least": 0.0, "most": MAX_SCALED_WEIGHT}


def is_safe_factor(value: Value, divides: bool) -> bool:
    """Return True if a factor, or a divisor (``divides``), cannot make a finite number infinite.

    If its numbers are known, they must have an allowed size (`sizes_of_factor`). If they are not, a
    factor is accepted, because it is checked when the file is saved. A divisor must then be a sum
    or maximum with a positive number, such as ``variance + epsilon``, or the root of one.
    """
    within = _is_within(value, **sizes_of_factor(divides))
    return (not divides or _is_kept_from_zero(value)) if within is None else within


def is_scalable_weight(weights: Value) -> bool:
    """Return True if weights may be multiplied with a factor without becoming infinite.

    The magnitudes of their numbers may be at most `MAX_SCALED_WEIGHT`. If the numbers are not known
    yet, the result is True, because they are checked when the file is saved.
    """
    within = _is_within(weights, **WEIGHT_SIZES)
    return within is None or within


def _is_within(value: Value, least: float, most: float) -> bool | None:
    """Return True if all numbers of a value have a magnitude from ``least`` to ``most``.

    None if the numbers are not known.
    """
    numbers = bound_array(value)
    if numbers is None:
        return None
    sizes = np.abs(numbers)
    return not np.any((sizes < least) | (sizes > most))


def _is_kept_from_zero(value: Value) -> bool:
    """Return True if a value is a sum or maximum with a positive constant, or its root, such as
    ``sqrt(variance + epsilon)``.

    Transposes and other moves of such a value are followed.
    """
    node = value.node
    while node is not None and (node.op.moves or node.op is ops.sqrt):
        node = node.inputs[0].node
    numbers = map(scalar, node.inputs) if node is not None and node.op in (ops.add, ops.max) else ()
    return any(number is not None and number > 0 for number in numbers)
