"""Dtypes that ONNX Runtime has no kernel for, computed in one that it has.

Only where the detour is exact: narrow integers in wider ones (arithmetic wraps in the conversion
back) and booleans as 0 and 1. Measured on ONNX Runtime 1.31.1 for the CPU, which converts float16
by itself. bfloat16 is left as it is: its kernels are on other devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from converter.graph import Node, Value, make_node
from converter.graph.rewrite import Editor, Rule

Detour = Mapping[str, str]

NARROW: Detour = dict.fromkeys(("int8", "int16", "uint8", "uint16"), "int32")
UNSIGNED: Detour = {"uint32": "int64", "uint64": "int64"}
BOOL: Detour = {"bool": "int32"}
SHORT: Detour = dict.fromkeys(("int16", "uint16"), "int32")
# Not int64: ONNX Runtime's ReduceMax compares the low halves of int64 as signed numbers.
EXTREMES: Detour = {**BOOL, **SHORT, "uint32": "float64"}
# ReduceSum saturates where JAX wraps; in int64 that is out of reach.
SUMS: Detour = {**dict.fromkeys((*NARROW, "int32"), "int64"), **UNSIGNED}


@dataclass(frozen=True)
class Missing:
    """Dtypes without a kernel; ``first`` operand that matters, and whether the result goes back."""

    detour: Detour
    first: int = 0
    back: bool = True


TABLE: dict[str, Missing] = {
    **dict.fromkeys(("add", "add_any", "mul", "sub", "div"), Missing(BOOL)),
    **dict.fromkeys(("max", "min", "clamp", "cummax", "cummin"), Missing({**BOOL, **SHORT})),
    **dict.fromkeys(("lt", "le", "gt", "ge"), Missing(BOOL, back=False)),
    "neg": Missing({**UNSIGNED, "uint8": "int32", "uint16": "int32"}),
    "select_n": Missing({"bool": "uint8", **SHORT, "uint64": "int64"}, first=1),
    "pad": Missing(SHORT),
    "cumsum": Missing({**NARROW, **UNSIGNED}),
    "cumprod": Missing(NARROW),
    "reduce_sum": Missing(SUMS),
    "reduce_prod": Missing({**NARROW, **UNSIGNED}),
    **dict.fromkeys(("reduce_max", "reduce_min"), Missing(EXTREMES)),
    **dict.fromkeys(("argmax", "argmin"), Missing(EXTREMES, back=False)),
    "top_k": Missing({"uint16": "int32", "uint32": "int64"}),
    "matmul": Missing(NARROW),
    **dict.fromkeys(
        ("scatter-add", "scatter-sub", "scatter-mul", "scatter-max", "scatter-min"),
        Missing({"float16": "float32", **BOOL}),
    ),
}


def _detour(node: Node, editor: Editor) -> list[Value] | None:
    missing = TABLE[node.op]
    dtype = node.inputs[missing.first].dtype
    wide = missing.detour.get(dtype.name)
    if wide is None:
        return None
    inputs = [
        editor.convert(v, wide) if i >= missing.first and v.dtype == dtype else v
        for i, v in enumerate(node.inputs)
    ]
    back = [missing.back and v.dtype == dtype for v in node.outputs]
    types = [
        (v.shape, np.dtype(wide) if b else v.dtype) for v, b in zip(node.outputs, back, strict=True)
    ]
    made = make_node(node.op, inputs, types, node.params, meaning=node.meaning, source=node.source)
    editor.nodes.append(made)
    pairs = zip(made.outputs, back, strict=True)
    return [editor.convert(v, dtype) if b else v for v, b in pairs]


RULES: dict[str, Rule] = dict.fromkeys(TABLE, _detour)
