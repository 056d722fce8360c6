"""ONNX Runtime's kernels for CPUs, measured on 1.31.1: what they lack, and what they get wrong.

float16 is not listed where ONNX Runtime converts it to float32 by itself and one rounding more does
not matter. bfloat16 is computed in float32 where nothing else is said.
"""

from __future__ import annotations

from collections.abc import Mapping

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

# int64 goes another way: ReduceMax compares the low halves of its numbers, as signed ones.
EXTREMES: Detour = {**BOOL, **SHORT, "uint32": "float64"}
# ReduceSum adds in float64 and saturates where JAX wraps; what is left exact of it is in int64.
SUMS: Detour = dict.fromkeys((*NARROW, "int32", "uint32"), "int64")
SORTED: Detour = {"bool": "int32", "uint16": "int32", **UNSIGNED}

KERNELS: Mapping[str, Missing] = {
    **dict.fromkeys(("add", "add_any", "mul", "sub", "div"), Missing(BOOL)),
    **dict.fromkeys(("max", "min", "clamp", "cummax", "cummin"), Missing({**BOOL, **SHORT})),
    **dict.fromkeys(("lt", "le", "gt", "ge"), Missing(BOOL, back=False)),
    "neg": Missing({**UNSIGNED, "uint8": "int32", "uint16": "int32"}),
    "pow": Missing({**NARROW, "uint32": "int64", "uint64": "float64"}, first=1),
    "select_n": Missing({"bool": "uint8", **SHORT, "uint64": "int64"}, first=1),
    "pad": Missing(SHORT),
    "cumsum": Missing({**NARROW, **UNSIGNED}),
    "cumprod": Missing(NARROW),
    "reduce_sum": Missing(SUMS),
    **dict.fromkeys(("reduce_max", "reduce_min"), Missing(EXTREMES)),
    **dict.fromkeys(
        ("argmax", "argmin"), Missing({**EXTREMES, "uint64": "int64"}, back=False, order=True)
    ),
    **dict.fromkeys(("top_k", "approx_top_k"), Missing(SORTED, order=True)),
    "matmul": Missing({**NARROW, **BOOL}),
    **dict.fromkeys(("scatter-add", "scatter-mul"), Missing({**HALF, **BOOL})),
    **dict.fromkeys(("scatter-max", "scatter-min"), Missing({**HALF, **BOOL, **SHORT})),
    "max_pool_scatter": Missing(HALF),
    "celu": Missing(HALF),
    **FORMULAS,
    "sign": Missing(HALF),  # of NaN it makes 0
}
"""By operation of the graph."""

BFLOAT16 = frozenset(
    {
        *("bitcast_convert_type", "concatenate", "convert_element_type", "reshape", "slice"),
        *("transpose", "cond", "scan", "while"),
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
    "onnxruntime", KERNELS, WITHOUT_FLOAT64, BFLOAT16, rounds_reductions=True, rewrites=True
)


UNMOVED_ZERO = -0.0
"""ONNX Runtime moves a Pad whose filler is zero into the pooling behind it: that pads a MaxPool
with -inf, and an AveragePool with more than it takes. It leaves a filler of -0.0 where it is."""

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
