"""ONNX Runtime on CPUs, measured on 1.31.1 and 1.32.0: its kernels, and what it gets wrong.

float16 is not listed where it converts to float32 by itself and one rounding more does not matter.
bfloat16 is computed in float32 where nothing else is said.
"""

from converter.targets.onnxruntime.quirks import QUIRKS
from converter.targets.opsets import OPSETS
from converter.targets.target import (
    BOOL,
    FORMULAS,
    HALF,
    NARROW,
    SHORT,
    UNSIGNED,
    Missing,
    Target,
    lack,
)
from converter.targets.versions import versions

EXTREMES = {**BOOL, **SHORT, **UNSIGNED}
# It adds in float64: what is left exact of it is in int64.
SUMS = dict.fromkeys((*NARROW, "int32", "uint32"), "int64")
SORTED = {"bool": "int32", "uint16": "int32", **UNSIGNED}

KERNELS = {
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
    **dict.fromkeys(("reduce_max", "reduce_min"), Missing(EXTREMES, order=True)),
    **dict.fromkeys(("argmax", "argmin"), Missing(EXTREMES, back=False, order=True)),
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

INTEGERS = "int8 int16 int32 int64 uint8 uint16 uint32 uint64"

LACKS = (
    lack("Acos Acosh Asin Asinh Atan Atanh Cosh Sinh Tan Erf", "float64"),
    lack("AveragePool Conv ConvTranspose Attention RotaryEmbedding Gelu", "float64"),
    lack("Sigmoid", "float64"),  # there is one, whose errors are those of float32
    lack("InstanceNormalization LSTM GRU RNN", "bfloat16 float64"),
    lack("Resize", "bfloat16 float64 int16 int64 uint16 uint32 uint64 bool"),
    lack("GroupNormalization"),  # what it runs in its place takes twice the time
    lack("Swish", opsets=range(25, OPSETS.stop)),  # nor does it take it apart there
    lack("Pow", INTEGERS),  # in double precision, which neither wraps nor is exact
)
"""Operators for which something else can stand in."""

TARGET = Target("onnxruntime", KERNELS, LACKS, QUIRKS, BFLOAT16, "3d", versions=versions(">=1.31"))
