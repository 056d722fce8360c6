"""Floats that ONNX Runtime gets wrong, written in another way."""

import jax.numpy as jnp
import numpy as np

from converter.ir import Node, Value, const, ops
from converter.ir.dtypes import is_float
from converter.ir.evaluation import bound
from converter.ir.formulas import LARGEST_SCALE
from converter.ir.rewrite import Editor
from converter.ir.scalars import scalar

UNMOVED_ZERO = -0.0
LAST_ROUNDED_UP = 61440
"""From here on float8_e5m2 has no finite number."""


def fixed_padding(node: Node, editor: Editor) -> Value | None:
    """Zeros in front of a pool as zeros that stay there; transpositions may lie between."""
    views, pad = list[Node](), node.inputs[0].node
    while pad is not None and pad.op in (ops.reshape, ops.transpose):
        views.append(pad)
        pad = pad.inputs[0].node
    if pad is None or pad.op is not ops.pad or scalar(pad.inputs[1]) != 0:
        return None
    x = editor.like(pad, [pad.inputs[0], const(UNMOVED_ZERO, pad.out.dtype)])
    for view in reversed(views):
        x = editor.like(view, [x])
    return editor.like(node, [x])


def scalar_gelu(node: Node, editor: Editor) -> Value | None:
    """One number as an array of one."""
    (x,) = node.inputs
    if x.shape or x.dtype != np.float32:
        return None
    return editor.reshape(editor.like(node, [editor.reshape(x, (1,))], (1,)), ())


def factor_first(node: Node, editor: Editor) -> Value | None:
    """An infinite or huge factor of a convolution as the first operand, where no fusion sees it."""
    made, other = node.inputs
    factor = None if made.made_by(ops.conv, ops.conv_transpose) is None else bound(other)
    if factor is None or not np.any(np.abs(factor) > LARGEST_SCALE):
        return None
    return editor.like(node, [other, made])


def to_float8(node: Node, editor: Editor) -> Value | None:
    """Keep infinite before what is rounded to infinity."""
    (x,), dtype = node.inputs, node.out.dtype
    if dtype != jnp.float8_e5m2 or not is_float(x.dtype):
        return None
    size = editor.add(ops.abs, [x], x.shape, x.dtype)
    beyond = editor.compare(ops.ge, size, const(LAST_ROUNDED_UP, x.dtype))
    infinite = editor.binary(ops.mul, x, const(np.inf, x.dtype))
    return editor.convert(editor.where(beyond, infinite, x), dtype)


def exact_logistic(node: Node, editor: Editor) -> Value:
    """1 / (1 + exp(-x))."""
    (x,), one = node.inputs, const(1, node.out.dtype)
    less = editor.add(ops.neg, [x], x.shape, x.dtype)
    power = editor.add(ops.exp, [less], x.shape, x.dtype)
    return editor.binary(ops.div, one, editor.binary(ops.add, power, one))
