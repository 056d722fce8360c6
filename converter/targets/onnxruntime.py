"""ONNX Runtime's kernels for CPUs, measured on 1.31.1: what they lack, and what they get wrong.

What 1.32.0 has mended stays in the tables, for a file has to be right in both.

float16 is not listed where ONNX Runtime converts it to float32 by itself and one rounding more does
not matter. bfloat16 is computed in float32 where nothing else is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from converter.graph import ops
from converter.graph.op import Op
from converter.targets.target import (
    BOOL,
    FORMULAS,
    HALF,
    NARROW,
    SHORT,
    UNSIGNED,
    Detour,
    Missing,
    Target,
)

# int64 goes another way: ReduceMax compares the low halves of its numbers, as signed ones (before
# 1.32).
EXTREMES: Detour = {**BOOL, **SHORT, "uint32": "float64"}
# ReduceSum adds in float64 and saturates where JAX wraps; what is left exact of it is in int64.
SUMS: Detour = dict.fromkeys((*NARROW, "int32", "uint32"), "int64")
SORTED: Detour = {"bool": "int32", "uint16": "int32", **UNSIGNED}

KERNELS: Mapping[Op, Missing] = {
    **dict.fromkeys((ops.add, ops.add_any, ops.mul, ops.sub, ops.div), Missing(BOOL)),
    **dict.fromkeys(
        (ops.max, ops.min, ops.clamp, ops.cummax, ops.cummin), Missing({**BOOL, **SHORT})
    ),
    **dict.fromkeys((ops.lt, ops.le, ops.gt, ops.ge), Missing(BOOL, back=False)),
    ops.neg: Missing({**UNSIGNED, "uint8": "int32", "uint16": "int32"}),
    ops.pow: Missing({**NARROW, "uint32": "int64", "uint64": "float64"}, first=1),
    ops.select_n: Missing({"bool": "uint8", **SHORT, "uint64": "int64"}, first=1),
    ops.pad: Missing(SHORT),
    ops.cumsum: Missing({**NARROW, **UNSIGNED}),
    ops.cumprod: Missing(NARROW),
    ops.reduce_sum: Missing(SUMS),
    **dict.fromkeys((ops.reduce_max, ops.reduce_min), Missing(EXTREMES)),
    **dict.fromkeys(
        (ops.argmax, ops.argmin), Missing({**EXTREMES, "uint64": "int64"}, back=False, order=True)
    ),
    **dict.fromkeys((ops.top_k, ops.approx_top_k), Missing(SORTED, order=True)),
    ops.matmul: Missing({**NARROW, **BOOL}),
    **dict.fromkeys((ops.scatter_add, ops.scatter_mul), Missing({**HALF, **BOOL})),
    **dict.fromkeys((ops.scatter_max, ops.scatter_min), Missing({**HALF, **BOOL, **SHORT})),
    ops.max_pool_scatter: Missing(HALF),
    ops.celu: Missing(HALF),
    **FORMULAS,
    ops.sign: Missing(HALF),  # of NaN it makes 0
}
"""By operation of the graph."""

BFLOAT16 = frozenset(
    {
        *(
            ops.bitcast_convert_type,
            ops.concatenate,
            ops.convert_element_type,
            ops.reshape,
            ops.slice,
        ),
        *(ops.transpose, ops.cond, ops.scan, ops.while_),
    }
)
"""Operations that have kernels of bfloat16: what only moves it, and what has bodies."""

WITHOUT_FLOAT64 = frozenset(
    {
        *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh", "Tan", "Erf"),
        *("AveragePool", "Conv", "ConvTranspose"),
        "Sigmoid",  # there is one, whose errors are those of float32
    }
)
"""Operators without a float64 kernel."""


HALF_OR_SINGLE = frozenset({"float32", "float16", "bfloat16"})
"""What the kernels of Attention and RotaryEmbedding take; bfloat16 those that are not for CPUs."""


ONNXRUNTIME = Target(
    "onnxruntime",
    KERNELS,
    WITHOUT_FLOAT64,
    BFLOAT16,
    rounds_reductions=True,
    rewrites=True,
    attention_layout="3d",
)

WEB = replace(ONNXRUNTIME, name="web", attention_layout="4d")
"""onnxruntime-web: the same kernels as WebAssembly, 1.30.0 of which runs ViT-S/16 in either layout
and at opset 18 in the same time (313, 316 and 316 ms on one thread: ``benchmarks/web.py``). It gets
four dimensions, as most other importers of files want them."""


UNMOVED_ZERO = -0.0
"""Before 1.32 ONNX Runtime moves a Pad whose filler is zero into the pooling behind it: that pads
a MaxPool with -inf, and an AveragePool with more than it takes. It leaves a filler of -0.0 where it
is."""

MOVES_TRANSPOSITIONS = frozenset(
    {
        *("Abs", "Add", "And", "ArgMax", "ArgMin", "Cast", "CastLike", "Ceil", "Celu", "Clip"),
        *("Concat", "Cos", "CumSum", "Div", "Dropout", "Elu", "Equal", "Erf", "Exp", "Expand"),
        *("Flatten", "Floor", "Gather", "Gelu", "Greater", "GreaterOrEqual", "HardSigmoid"),
        *("HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log"),
        *("LogSoftmax", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu"),
        *("Pad", "Pow", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp"),
        *("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
        *("Relu", "Reshape", "Resize", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Slice"),
        *("Softmax", "Softplus", "Softsign", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Swish"),
        *("Tanh", "Tile", "TopK", "Transpose", "Unsqueeze", "Where", "Xor"),
    }
)
"""Operators behind which ONNX Runtime's optimiser may move a transposition that is before them; a
Reshape only where it adds or removes axes of one."""


FORMS: Mapping[str, tuple[float, float, float, float]] = {
    "as written": (1.0, 1.0, 1.0, 1.0),
    "Gemm": (0.989, 1.031, 0.961, 1.007),
    "three products": (0.999, 0.981, 0.980, 1.005),
    "Gemm, three products": (0.988, 0.995, 0.958, 1.009),
    "no BiasGelu": (0.988, 0.991, 0.991, 1.006),
    "4-D": (1.021, 1.045, 0.973, 1.006),
    "4-D, one by one": (1.009, 1.010, 0.984, 1.024),
    "opset 18": (1.021, 1.049, 1.001, 1.062),
    "opset 18, x * 0.707": (1.032, 1.107, 1.031, 1.109),
    "last block": (1.054, 1.065, 1.036, 1.040),
    "last block, Gemm": (1.011, 1.021, 0.947, 1.026),
}
"""The time of a vision transformer's block by how it is written, over what the converter writes, on
1 and on 2 threads of an AMD EPYC, and on 1 and 2 of an Intel Xeon, with AVX-512 (1.31.1, DINOv3
ViT-S/16, batch 1; two per cent are noise).

GELU below opset 20 is divided by the root of two since that is what the optimiser knows. Gemm and
three products for queries, keys and values gain nothing that is seen on all, and whoever quantises
a file looks for MatMul by its name and for the matrices of the checkpoint. The optimiser's own
SkipLayerNormalization, which it makes of a sum that only a norm reads, as behind the last block,
takes three times as long as the two; so it is no loss that it does not see the other sums, which
the next sum reads too. BiasGelu takes as long as a sum and Gelu.

Measured by ``benchmarks/block_forms.py``.
"""
