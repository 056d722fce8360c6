"""Floats that are put together from bits."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from converter.ir import Node, Value, const, ops
from converter.ir.dtypes import is_float
from converter.ir.ranges import known_range
from converter.ir.rewrite import Editor
from converter.ir.scalars import scalar


def fraction(node: Node, editor: Editor) -> Value | None:
    """A float from 1 to 2, less 1, whose digits are an integer: that integer, scaled.

    So numbers between 0 and 1 are drawn. Before opset 26 ONNX has no operator that would take bits
    for a float.
    """
    made = node.inputs[0].node
    if made is None or made.op is not ops.bitcast_convert_type or scalar(node.inputs[1]) != 1:
        return None
    bits, dtype = made.inputs[0], node.out.dtype
    if not is_float(dtype) or bits.node is None or bits.node.op is not ops.or_:
        return None
    digits = _digits(bits.node, dtype)
    if digits is None:
        return None
    step = editor.broadcast(const(jnp.finfo(dtype).eps, dtype), node.out.shape, ())
    return editor.binary(ops.mul, editor.convert(digits, dtype), step)


def _digits(node: Node, dtype: np.dtype) -> Value | None:
    """What is below the bits of 1, where that is all there is besides."""
    one = int(np.ones((), dtype).view(node.out.dtype))
    for side, other in ((0, 1), (1, 0)):
        digits = node.inputs[other]
        most = (1 << jnp.finfo(dtype).nmant) - 1
        if scalar(node.inputs[side]) == one and known_range(digits).within(0, most):
            return digits
    return None
