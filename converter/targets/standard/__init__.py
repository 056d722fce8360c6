"""The target that follows the ONNX standard, without the quirks of any runtime.

Source: the type constraints of ``onnx.defs``, 1.22.
"""

from converter.ir import ops
from converter.targets.target import (
    BOOL_CONVERSIONS,
    FORMULAS,
    NARROW_CONVERSIONS,
    SHORT_CONVERSIONS,
    UNSIGNED_CONVERSIONS,
    MissingKernel,
    Target,
    lacks_operators,
)

KERNELS = {
    **dict.fromkeys(
        (ops.add, ops.add_any, ops.mul, ops.sub, ops.div), MissingKernel(BOOL_CONVERSIONS)
    ),
    **dict.fromkeys(
        (ops.max, ops.min, ops.clamp, ops.cummax, ops.cummin), MissingKernel(BOOL_CONVERSIONS)
    ),
    **dict.fromkeys(
        (ops.lt, ops.le, ops.gt, ops.ge), MissingKernel(BOOL_CONVERSIONS, converts_back=False)
    ),
    ops.neg: MissingKernel({**UNSIGNED_CONVERSIONS, "uint8": "int32", "uint16": "int32"}),
    **dict.fromkeys(
        (ops.cumsum, ops.cumprod, ops.reduce_sum, ops.reduce_prod),
        MissingKernel(NARROW_CONVERSIONS),
    ),
    **dict.fromkeys(
        (ops.reduce_max, ops.reduce_min), MissingKernel({**BOOL_CONVERSIONS, **SHORT_CONVERSIONS})
    ),
    **dict.fromkeys((ops.argmax, ops.argmin), MissingKernel(BOOL_CONVERSIONS, converts_back=False)),
    **dict.fromkeys(
        (ops.top_k, ops.approx_top_k),
        MissingKernel({**BOOL_CONVERSIONS, "bfloat16": "float32"}, keeps_order=True),
    ),
    ops.matmul: MissingKernel({**NARROW_CONVERSIONS, **BOOL_CONVERSIONS}),
    **dict.fromkeys(
        (ops.scatter_add, ops.scatter_mul, ops.scatter_max, ops.scatter_min),
        MissingKernel(BOOL_CONVERSIONS),
    ),
    ops.celu: MissingKernel({"float16": "float32"}),
    **FORMULAS,
}

TARGET = Target(
    "standard",
    KERNELS,
    (lacks_operators("InstanceNormalization BatchNormalization LSTM GRU RNN", "bfloat16"),),
)
