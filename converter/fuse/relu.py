"""Activations that ONNX has an operator for and JAX spells with another primitive."""

from __future__ import annotations

from converter.ir import Node, Value, dims, ops
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule
from converter.ir.scalars import scalar


def _relu(node: Node, editor: Editor) -> Value | None:
    """``max(x, 0)``; both pass a NaN on."""
    for zero, x in (node.inputs, node.inputs[::-1]):
        floating = node.out.dtype.kind == "f" and dims.same_shape(x.shape, node.out.shape)
        if floating and scalar(zero) == 0:
            return editor.add(ops.relu, [x], x.shape, x.dtype)
    return None


RULES: dict[Op, Rule] = {ops.max: _relu}
