"""Dtypes that the target has no kernel for, computed in one that it has.

Only where the detour is exact: narrow integers in wider ones (arithmetic wraps in the conversion
back), booleans as 0 and 1, and operations of half precision in float32, rounded once. Which, says
the target's table (``converter/targets``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from converter.ir import Graph, Node, Value, make_node
from converter.ir.op import Op
from converter.ir.rewrite import Editor, Rule
from converter.targets import Target
from converter.targets.schemas import BFLOAT16_SINCE, operator
from converter.targets.target import Missing
from converter.targets.widening import narrowed_value, widened_value

BRIEF = np.dtype(jnp.bfloat16)


def dtype_fallback_rules(graph: Graph, opset: int, target: Target) -> Mapping[Op, Rule]:
    """The detours of a graph's operations, for an opset and a target."""
    nodes = list(graph.walk())
    there = {node.op for node in nodes}
    table = {op: target.kernels[op] for op in there & target.kernels.keys()}
    for op in there:
        if opset < BFLOAT16_SINCE.get(operator(op), 0):
            missing = table.get(op, Missing({}))
            table[op] = replace(missing, detour={**missing.detour, "bfloat16": "float32"})
    detours: dict[Op, Rule] = {
        op: partial(_through, missing=missing) for op, missing in table.items()
    }
    brief = any(v.dtype == BRIEF for node in nodes for v in (*node.inputs, *node.outputs))
    if target.bfloat16 is None or not brief:
        return detours
    without = partial(_without_bfloat16, detours=detours, kernels=target.kernels)
    return {**detours, **dict.fromkeys(there - target.bfloat16, without)}


def _without_bfloat16(
    node: Node, editor: Editor, detours: Mapping[Op, Rule], kernels: Mapping[Op, Missing]
) -> Any:
    """Computed in a wider float and rounded once, which is what XLA does on CPUs."""
    if not any(v.dtype == BRIEF for v in (*node.inputs, *node.outputs)):
        rule = detours.get(node.op)
        return rule(node, editor) if rule else None
    wide = np.dtype(kernels.get(node.op, Missing({})).detour.get("bfloat16", "float32"))
    inputs = [widened_value(editor, v, wide, False) if v.dtype == BRIEF else v for v in node.inputs]
    types = [(v.shape, wide if v.dtype == BRIEF else v.dtype) for v in node.outputs]
    made = make_node(
        node.op, inputs, types, _in(node, wide), meaning=node.meaning, source=node.source
    )
    editor.nodes.append(made)
    pairs = zip(made.outputs, node.outputs, strict=True)
    return [editor.convert(v, old.dtype) for v, old in pairs]


def _in(node: Node, wide: np.dtype) -> dict[str, Any]:
    """The parameters; an ``iota`` has its dtype there."""
    return {k: wide if k == "dtype" and v == BRIEF else v for k, v in node.params.items()}


def _through(node: Node, editor: Editor, missing: Missing) -> list[Value] | None:
    dtype = node.inputs[missing.first].dtype
    wide = missing.detour.get(dtype.name)
    if wide is None:
        return None
    shifted = missing.order and dtype == np.uint64
    inputs = [
        widened_value(editor, v, wide, shifted) if i >= missing.first and v.dtype == dtype else v
        for i, v in enumerate(node.inputs)
    ]
    back = [missing.back and v.dtype == dtype for v in node.outputs]
    types = [
        (v.shape, np.dtype(wide) if b else v.dtype) for v, b in zip(node.outputs, back, strict=True)
    ]
    made = make_node(node.op, inputs, types, node.params, meaning=node.meaning, source=node.source)
    editor.nodes.append(made)
    pairs = zip(made.outputs, back, strict=True)
    return [narrowed_value(editor, v, dtype, shifted) if b else v for v, b in pairs]
