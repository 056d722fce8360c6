"""Remove explicit broadcasts before elementwise operations.

In ONNX these operations broadcast their operands themselves.
"""

import numpy as np

from converter.ir import Node, Value, const, dims, ops
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule


def _use_implicit_broadcast(node: Node, editor: Editor) -> Value | None:
    """Emit an elementwise node without the explicit broadcasts of its operands.

    Return None if no operand changes, or if the node's shape would change.
    """
    operands = [_remove_broadcast(v, editor) for v in node.inputs]
    shape = dims.broadcast([v.shape for v in operands])
    if shape is None or not dims.is_same_shape(shape, node.out.shape) or operands == node.inputs:
        return None
    return editor.copy_with_operands(node, operands)


def _remove_broadcast(value: Value, editor: Editor) -> Value:
    """Return an operand without a broadcast, and without leading axes of size one of a reshape or
    constant. Other values are returned unchanged.

    ONNX broadcasts the result, which may have a lower rank, to the same array as ``value``.
    """
    if node := value.producer_if(ops.broadcast_in_dim):
        source, axes = node.inputs[0], node.params["broadcast_dimensions"]
        return editor.reshape(
            source, _drop_leading_ones(dims.expand_with_ones(source.shape, axes, value.rank))
        )
    if value.producer_if(ops.reshape):
        return editor.reshape(value, _drop_leading_ones(value.shape))
    if isinstance(value.const, np.ndarray) and value.kind == "const":
        return const(value.const.reshape(_drop_leading_ones(value.shape)))
    return value


def _drop_leading_ones(shape: dims.Shape) -> dims.Shape:
    """Return a shape without its leading ones."""
    long_axes = [i for i, d in enumerate(shape) if not dims.is_same_dim(d, 1)]
    return shape[long_axes[0] :] if long_axes else ()


RULES: dict[Op, Rule] = dict.fromkeys(
    (op for op in ops.defined_ops() if op.broadcasts), _use_implicit_broadcast
)
