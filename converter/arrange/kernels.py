"""Dtypes that the target has no kernel for, computed in one that it has.

Only where the detour is exact: narrow integers in wider ones (arithmetic wraps in the conversion
back), booleans as 0 and 1, and operations of half precision in float32, rounded once. Which, says
the target's table (``converter/targets``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from converter.graph import Graph, Node, Value, const, dims, make_node, ops
from converter.graph.dtypes import is_integer
from converter.graph.op import Op
from converter.graph.origins import ancestors
from converter.graph.rewrite import Editor, Rule
from converter.targets import Target
from converter.targets.schemas import BFLOAT16_SINCE
from converter.targets.target import Missing

LOWEST = np.iinfo(np.int64).min
BRIEF = np.dtype(jnp.bfloat16)

OPERATORS = {
    **{f: f.name.capitalize() for f in (ops.acos, ops.acosh, ops.asin, ops.asinh, ops.atan)},
    **{f: f.name.capitalize() for f in (ops.atanh, ops.cos, ops.cosh, ops.round, ops.sin)},
    **{f: f.name.capitalize() for f in (ops.sinh, ops.tan)},
    **dict.fromkeys((ops.avg_pool, ops.sum_pool), "AveragePool"),
    **dict.fromkeys((ops.max_pool, ops.max_pool_scatter), "MaxPool"),
    ops.conv: "Conv",
    ops.conv_transpose: "ConvTranspose",
}
"""The operators that operations are written with, where an opset may lack them in bfloat16."""


def rules(graph: Graph, opset: int, target: Target) -> Mapping[Op, Rule]:
    """The detours of a graph's operations, for an opset and a target."""
    detours = _detours(opset, target)
    nodes = list(graph.walk())
    brief = any(v.dtype == BRIEF for node in nodes for v in (*node.inputs, *node.outputs))
    if target.bfloat16 is None or not brief:
        return detours
    without = partial(_without_bfloat16, detours=detours, kernels=target.kernels)
    return {**detours, **dict.fromkeys({node.op for node in nodes} - target.bfloat16, without)}


def _detours(opset: int, target: Target) -> dict[Op, Rule]:
    """What of it does not depend on the graph."""
    table = dict(target.kernels)
    for op, name in OPERATORS.items():
        if opset < BFLOAT16_SINCE[name]:
            missing = table.get(op, Missing({}))
            table[op] = replace(missing, detour={**missing.detour, "bfloat16": "float32"})
    detours: dict[Op, Rule] = {
        op: partial(_through, missing=missing) for op, missing in table.items()
    }
    if not target.rounds_reductions:
        return detours
    wide = {op: _either(exact, detours[op]) for op, exact in EXACT.items()}
    return {**detours, **wide, ops.reduce_prod: _product}


def _either(exact: Rule, detour: Rule) -> Rule:
    """What is exact for 64 bits, and the detour for others."""

    def rule(node: Node, editor: Editor) -> Sequence[Value] | Value | None:
        return (exact if node.out.dtype in (np.int64, np.uint64) else detour)(node, editor)

    return rule


def _without_bfloat16(
    node: Node, editor: Editor, detours: Mapping[Op, Rule], kernels: Mapping[Op, Missing]
) -> Any:
    """Computed in a wider float and rounded once, which is what XLA does on CPUs."""
    if not any(v.dtype == BRIEF for v in (*node.inputs, *node.outputs)):
        rule = detours.get(node.op)
        return rule(node, editor) if rule else None
    wide = np.dtype(kernels.get(node.op, Missing({})).detour.get("bfloat16", "float32"))
    inputs = [_widened(editor, v, wide, False) if v.dtype == BRIEF else v for v in node.inputs]
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
        _widened(editor, v, wide, shifted) if i >= missing.first and v.dtype == dtype else v
        for i, v in enumerate(node.inputs)
    ]
    back = [missing.back and v.dtype == dtype for v in node.outputs]
    types = [
        (v.shape, np.dtype(wide) if b else v.dtype) for v, b in zip(node.outputs, back, strict=True)
    ]
    made = make_node(node.op, inputs, types, node.params, meaning=node.meaning, source=node.source)
    editor.nodes.append(made)
    pairs = zip(made.outputs, back, strict=True)
    return [_narrowed(editor, v, dtype, shifted) if b else v for v, b in pairs]


def _widened(editor: Editor, x: Value, dtype: Any, shifted: bool) -> Value:
    """In the wider dtype; uint64 is moved down, so that its order stays."""
    wide = editor.convert(x, dtype)
    return editor.binary(ops.add, wide, const(LOWEST, np.int64)) if shifted else wide


def _narrowed(editor: Editor, x: Value, dtype: np.dtype, shifted: bool) -> Value:
    whole = editor.binary(ops.sub, x, const(LOWEST, np.int64)) if shifted else x
    return editor.convert(whole, dtype)


# ------------------------------------------------------------------------ reductions of integers


def _lines(node: Node, editor: Editor) -> Value:
    """The operand as [axes that stay…, all that is reduced]."""
    x, axes = node.inputs[0], node.params["axes"]
    kept = [i for i in range(x.rank) if i not in axes]
    size = dims.product([x.shape[i] for i in axes])
    return editor.reshape(editor.transpose(x, (*kept, *axes)), (*node.out.shape, size))


def _sum(node: Node, editor: Editor) -> Value | None:
    return None if _is_of_sizes(node.inputs[0]) else _sum_by_product(node, editor)


def _is_of_sizes(x: Value) -> bool:
    """Made of constants and sizes alone: no sum of such coordinates comes near 2**53."""
    return x.dtype == np.int64 and all(v.kind in ("const", "node") for v in ancestors(x))


def _sum_by_product(node: Node, editor: Editor) -> Value:
    """64 bits wrap in a product with ones, which is the one sum that ONNX Runtime adds exactly."""
    x = _lines(node, editor)
    ones = editor.broadcast(const(1, x.dtype), (x.shape[-1], 1), ())
    total = editor.add(ops.matmul, [x, ones], (*x.shape[:-1], 1), x.dtype)
    return editor.reshape(total, node.out.shape)


def _product(node: Node, editor: Editor) -> Value | None:
    """Halves times halves; ``ReduceProd`` multiplies in float64."""
    if not is_integer(node.out.dtype):
        return None
    x = _lines(node, editor)
    axis, size = x.rank - 1, x.shape[-1]
    if not dims.is_static(size):
        return _product_in_turn(x, node.out, editor)
    if size == 0:
        return None
    while size > 1:
        half = size // 2
        low, high, rest = (
            editor.slice(x, axis, *cut) for cut in ((0, half), (half, 2 * half), (2 * half, size))
        )
        x = editor.binary(ops.mul, low, high)
        x = editor.concatenate([x, rest], axis) if size % 2 else x
        size = half + size % 2
    return editor.reshape(x, node.out.shape)


def _product_in_turn(x: Value, out: Value, editor: Editor) -> Value:
    """One factor after the other along the last axis, whose length only the caller knows."""
    last = x.rank - 1
    start = editor.broadcast(const(1, out.dtype), out.shape, ())
    lines = editor.transpose(x, (last, *range(last)))
    carry, factor = (Value(out.shape, out.dtype, kind="input") for _ in range(2))
    times = make_node(ops.mul, [carry, factor], [(out.shape, out.dtype)])
    params = {"num_carry": 1, "length": x.shape[last], "reverse": False}
    scan = make_node(ops.scan, [start, lines], [(out.shape, out.dtype)], params)
    scan.bodies = {"body": Graph([carry, factor], times.outputs, [times])}
    editor.nodes.append(scan)
    return scan.out


def _extreme(node: Node, editor: Editor) -> Value:
    """The first of 64 bits sorted; the least is the complement of the complements' greatest."""
    dtype = node.out.dtype
    x = _widened(editor, _lines(node, editor), "int64", shifted=dtype == np.uint64)
    x = _complement(editor, x) if node.op is ops.reduce_min else x
    shape = (*x.shape[:-1], 1)
    types = [(shape, x.dtype), (shape, np.dtype(np.int32))]
    params = {"k": 1, "axis": x.rank - 1}
    top = editor.reshape(editor.add_many(ops.top_k, [x], types, params)[0], node.out.shape)
    top = _complement(editor, top) if node.op is ops.reduce_min else top
    return _narrowed(editor, top, dtype, shifted=dtype == np.uint64)


def _complement(editor: Editor, x: Value) -> Value:
    """-1 - x, which turns the order of all integers round."""
    return editor.binary(ops.sub, const(-1, x.dtype), x)


EXACT: dict[Op, Rule] = {ops.reduce_sum: _sum, ops.reduce_max: _extreme, ops.reduce_min: _extreme}
"""For 64 bits, in a runtime that rounds them."""
