"""ONNX Runtime on CPUs: its kernels and its quirks.

The tables describe the kernels of versions 1.31.1 and 1.32.0. The kernels that are missing in older
versions are listed in `lags.py`.

The tables do not list float16 if the runtime converts it to float32 itself and the additional
rounding does not matter. An operation on bfloat16 is computed in float32 unless it is listed as
supporting bfloat16.
"""

from converter.ir import ops
from converter.opsets import OLDEST_RUNTIME, OPSETS
from converter.targets.onnxruntime.forms import FORMS
from converter.targets.onnxruntime.lags import LAGS
from converter.targets.onnxruntime.quirks import QUIRKS
from converter.targets.standard import TARGET as STANDARD
from converter.targets.target import (
    BOOL_CONVERSIONS,
    HALF_CONVERSIONS,
    LACKED_EVERYWHERE,
    NARROW_CONVERSIONS,
    SHORT_CONVERSIONS,
    UNSIGNED_CONVERSIONS,
    MissingKernel,
    Target,
    lacks_operators,
)
from converter.targets.versions import parse_versions

EXTREME_CONVERSIONS = {**BOOL_CONVERSIONS, **SHORT_CONVERSIONS, **UNSIGNED_CONVERSIONS}
# The runtime computes sums of these integers in float64. Its sums of int64 are exact.
SUM_CONVERSIONS = dict.fromkeys((*NARROW_CONVERSIONS, "int32", "uint32"), "int64")
SORT_CONVERSIONS = {"bool": "int32", "uint16": "int32", **UNSIGNED_CONVERSIONS}

KERNELS = {
    **STANDARD.kernels,
    **dict.fromkeys(
        (ops.max, ops.min, ops.clamp, ops.cummax, ops.cummin),
        MissingKernel({**BOOL_CONVERSIONS, **SHORT_CONVERSIONS}),
    ),
    ops.pow: MissingKernel(
        {**NARROW_CONVERSIONS, "uint32": "int64", "uint64": "float64"}, first_operand=1
    ),
    ops.select_n: MissingKernel(
        {"bool": "uint8", **SHORT_CONVERSIONS, "uint64": "int64"}, first_operand=1
    ),
    ops.pad: MissingKernel(SHORT_CONVERSIONS),
    ops.cumsum: MissingKernel({**NARROW_CONVERSIONS, **UNSIGNED_CONVERSIONS}),
    ops.reduce_sum: MissingKernel(SUM_CONVERSIONS),
    **dict.fromkeys(
        (ops.reduce_max, ops.reduce_min), MissingKernel(EXTREME_CONVERSIONS, keeps_order=True)
    ),
    **dict.fromkeys(
        (ops.argmax, ops.argmin),
        MissingKernel(EXTREME_CONVERSIONS, converts_back=False, keeps_order=True),
    ),
    **dict.fromkeys(
        (ops.top_k, ops.approx_top_k), MissingKernel(SORT_CONVERSIONS, keeps_order=True)
    ),
    **dict.fromkeys(
        (ops.scatter_add, ops.scatter_mul), MissingKernel({**HALF_CONVERSIONS, **BOOL_CONVERSIONS})
    ),
    **dict.fromkeys(
        (ops.scatter_max, ops.scatter_min),
        MissingKernel({**HALF_CONVERSIONS, **BOOL_CONVERSIONS, **SHORT_CONVERSIONS}),
    ),
    ops.max_pool_scatter: MissingKernel(HALF_CONVERSIONS),
    ops.celu: MissingKernel(HALF_CONVERSIONS),
    ops.sign: MissingKernel(HALF_CONVERSIONS),  # the kernel returns 0 for NaN
}
"""Conversions by operation, in addition to those of the standard."""

BFLOAT16 = frozenset(
    {
        *(ops.bitcast_convert_type, ops.concatenate, ops.convert_element_type, ops.reshape),
        *(ops.slice, ops.transpose, ops.cond, ops.scan, ops.while_),
    }
)
"""Operations that have kernels for bfloat16: those that only move numbers, and those with
bodies."""

LACKS = (
    # GroupNormalization has no kernel. It is expanded to other operators, which takes twice the
    # time.
    *LACKED_EVERYWHERE,
    lacks_operators("Acos Acosh Asin Asinh Atan Atanh Cosh Sinh Tan Erf", "float64"),
    lacks_operators("AveragePool Conv ConvTranspose", "float64"),
    # The kernel returns numbers for rows that contain NaN.
    lacks_operators("LogSoftmax", "float64"),
    lacks_operators("GridSample", "float64", range(OPSETS.start, 20)),
    lacks_operators("Sigmoid", "float64"),  # the result of the kernel is only as precise as float32
    lacks_operators("Softplus", "float16", range(18, 22)),  # the runtime's exp(x) + 1 overflows
    # At these opsets the runtime has no kernel for this operator and does not decompose it.
    lacks_operators("Swish", opsets=range(25, OPSETS.stop)),
)
"""Operators that other operators replace."""

TARGET = Target(
    *("onnxruntime", KERNELS, LACKS, QUIRKS, BFLOAT16, "3d"),
    versions=parse_versions(">=1.18"),
    oldest=OLDEST_RUNTIME,
    lags=LAGS,
    dynamic_integers=True,
    forms=FORMS,
)
