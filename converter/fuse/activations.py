"""Recognisers of activations for which ONNX has an operator, as JAX, Keras and users write them.

Most are made from the table in `converter/ir/ops/activation_table.py`. A function recognises an
activation if its condition is about the graph, not about numbers in the formula.
"""

import numpy as np

from converter.fuse.spelling import Spelling
from converter.ir import Node, Value, dims, ops
from converter.ir.op import Op
from converter.ir.ranges import known_range
from converter.ir.rewrite import Editor, Rule
from converter.ir.scalars import scalar
from converter.opsets import OLDEST_OPSET
from converter.targets.schemas import SINCE, operator_name


def _spellings() -> tuple[Spelling, ...]:
    """Return the forms of all activations that are compared operation by operation, in the order of
    the table.

    A form that contains a later activation comes after the forms of that one.
    """
    positions = {row.name: i for i, row in enumerate(ops.ACTIVATIONS.values())}
    ranked = [
        (positions[form.contains or row.name], bool(form.contains), op, form)
        for op, row in ops.ACTIVATIONS.items()
        for form in row.forms
        if not form.has_any_order
    ]
    return tuple(
        Spelling(op, form, SINCE.get(operator_name(op), OLDEST_OPSET))
        for _, _, op, form in sorted(ranked, key=lambda entry: entry[:2])
    )


SPELLINGS_OF_ACTIVATIONS = _spellings()


def _softplus_of_negative(node: Node, editor: Editor) -> Value | None:
    """Replace ``log1p(exp(x))`` of float32 by softplus if the range of x is at most zero.

    Nothing overflows then. The structure is a part of ``logaddexp``. ``node`` is the logarithm.
    Return None if it is another one, or if x may be positive.
    """
    exp_node, dtype = node.inputs[0].producer_if(ops.exp), node.out.dtype
    if exp_node is None or dtype != np.float32 or known_range(exp_node.inputs[0]).high > 0:
        return None
    return editor.add(ops.softplus, exp_node.inputs, node.out.shape, dtype)


SOFTPLUS_RULES: dict[Op, Rule] = {ops.log1p: _softplus_of_negative}


def _relu(node: Node, editor: Editor) -> Value | None:
    """Replace ``max(x, 0)`` or ``max(0, x)`` of floats by ReLU. Both propagate NaN.

    ``node`` is the maximum. Return None if it is another one, if x is broadcast, or if the dtype is
    bfloat16 or no float.
    """
    for zero, x in (node.inputs, node.inputs[::-1]):
        floating = node.out.dtype.kind == "f" and dims.is_same_shape(x.shape, node.out.shape)
        if floating and scalar(zero) == 0:
            return editor.add(ops.relu, [x], x.shape, x.dtype)
    return None


RELU_RULES: dict[Op, Rule] = {ops.max: _relu}
