"""Compute operations in another dtype if the target has no kernel for theirs.

All conversions are exact: narrow integers are computed in wider ones (arithmetic wraps in the
conversion back), Booleans as 0 and 1, and single operations of half precision in float32, rounded
once. The target's table defines the dtypes (``converter/targets``).
"""

from dataclasses import replace
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from converter.ir import Graph, Node, Value, make_node
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule
from converter.targets import Target
from converter.targets.schemas import BFLOAT16_SINCE, operator_name
from converter.targets.target import MissingKernel, narrow_value, widen_value

BFLOAT16 = np.dtype(jnp.bfloat16)

_DTYPES = ("dtype", "precision")
"""Parameters that name the dtype in which an operation computes."""


def dtype_fallback_rules(graph: Graph, opset: int, target: Target) -> dict[Op, Rule]:
    """Return rules, by operation, that compute nodes in another dtype if the target has no kernel
    for theirs.

    There are rules for the operations of ``graph`` only.
    """
    nodes = list(graph.walk())
    present_ops = {node.op for node in nodes}
    table = {op: target.kernels[op] for op in present_ops & target.kernels.keys()}
    for op in present_ops:
        if opset < BFLOAT16_SINCE.get(operator_name(op), 0):
            missing = table.get(op, MissingKernel({}))
            table[op] = replace(missing, conversions={**missing.conversions, "bfloat16": "float32"})
    rules: dict[Op, Rule] = {op: partial(_apply_fallback, missing=row) for op, row in table.items()}
    if target.bfloat16 is not None and any(map(_has_bfloat16, nodes)):
        for op in present_ops - target.bfloat16:
            wider_dtype = target.kernels.get(op, MissingKernel({})).conversions.get(
                "bfloat16", "float32"
            )
            row = MissingKernel({"bfloat16": wider_dtype})
            rules[op] = partial(_compute_bfloat16_in_float, missing=row, other=rules.get(op))
    return rules


def _has_bfloat16(node: Node) -> bool:
    """Return True if an operand or a result of a node is bfloat16."""
    return any(v.dtype == BFLOAT16 for v in (*node.inputs, *node.outputs))


def _compute_bfloat16_in_float(
    node: Node, editor: Editor, missing: MissingKernel, other: Rule | None
) -> Any:
    """Return the results of a node with bfloat16, computed in a wider float and rounded once.

    XLA does the same on CPUs. ``missing`` names the wider float. A node without bfloat16 is
    rewritten by the rule ``other``, or kept if that is None.
    """
    if _has_bfloat16(node):
        return _compute_in_wider_dtype(node, editor, BFLOAT16, missing)
    return other(node, editor) if other else None


def _apply_fallback(node: Node, editor: Editor, missing: MissingKernel) -> list[Value] | None:
    """Return the results of a node that is computed in a wider dtype, or None if the target has a
    kernel.

    ``missing`` contains the dtypes without a kernel. The dtype of the operand
    ``missing.first_operand`` decides.
    """
    dtype = node.inputs[missing.first_operand].dtype
    return (
        _compute_in_wider_dtype(node, editor, dtype, missing)
        if dtype.name in missing.conversions
        else None
    )


def _compute_in_wider_dtype(
    node: Node, editor: Editor, dtype: np.dtype, missing: MissingKernel
) -> list[Value]:
    """Return the results of a node whose operands of ``dtype`` are converted to a wider dtype.

    Results of ``dtype`` are converted back if ``missing.converts_back``. Operands before
    ``missing.first_operand`` are not converted. Parameters that contain the dtype are also changed.
    """
    wider_dtype = np.dtype(missing.conversions[dtype.name])
    shifted = missing.keeps_order and dtype == np.uint64
    inputs = [
        widen_value(editor, v, wider_dtype, shifted)
        if i >= missing.first_operand and v.dtype == dtype
        else v
        for i, v in enumerate(node.inputs)
    ]
    is_narrowed = [missing.converts_back and v.dtype == dtype for v in node.outputs]
    types = [
        (v.shape, wider_dtype if b else v.dtype)
        for v, b in zip(node.outputs, is_narrowed, strict=True)
    ]
    params = {
        name: wider_dtype
        if name in _DTYPES and isinstance(value, np.dtype) and value == dtype
        else value
        for name, value in node.params.items()
    }
    wider_node = make_node(node.op, inputs, types, params, meaning=node.meaning, source=node.source)
    editor.nodes.append(wider_node)
    pairs = zip(wider_node.outputs, is_narrowed, strict=True)
    return [narrow_value(editor, v, dtype, shifted) if b else v for v, b in pairs]
