"""Elementwise operations broadcast their own operands; explicit broadcasts before them go."""

import numpy as np

from converter.ir import Node, Value, const, dims, ops
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule


def _implicit(node: Node, editor: Editor) -> Value | None:
    lean = [_lean(v, editor) for v in node.inputs]
    shape = dims.broadcast([v.shape for v in lean])
    if shape is None or not dims.same_shape(shape, node.out.shape) or lean == node.inputs:
        return None
    return editor.like(node, lean)


def _lean(value: Value, editor: Editor) -> Value:
    """The operand without leading ones, and without what broadcasting gives it anyway."""
    if node := value.made_by(ops.broadcast_in_dim):
        source, axes = node.inputs[0], node.params["broadcast_dimensions"]
        return editor.reshape(source, _trailing(dims.among_ones(source.shape, axes, value.rank)))
    if value.made_by(ops.reshape):
        return editor.reshape(value, _trailing(value.shape))
    if isinstance(value.const, np.ndarray) and value.kind == "const":
        return const(value.const.reshape(_trailing(value.shape)))
    return value


def _trailing(shape: dims.Shape) -> dims.Shape:
    """A shape without leading ones."""
    real = [i for i, d in enumerate(shape) if not dims.same(d, 1)]
    return shape[real[0] :] if real else ()


RULES: dict[Op, Rule] = dict.fromkeys((op for op in ops.stated() if op.broadcasts), _implicit)
