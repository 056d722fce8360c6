"""What ONNX's operators take, where that depends on the opset (``onnx.defs``)."""

from collections.abc import Mapping

from converter.ir import ops
from converter.ir.op import Op
from converter.opsets import FUSED

SINCE: Mapping[str, int] = {
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "Mish"), 18),
    "Gelu": 20,
    "GroupNormalization": 21,  # that of 18, with a scale for each group, is deprecated
    **dict.fromkeys(("Attention", "RMSNormalization", "RotaryEmbedding"), FUSED),
    **dict.fromkeys(("Swish", "TensorScatter"), 24),
    **dict.fromkeys(("BitCast", "CumProd"), 26),
}
"""Operators that came after the oldest opset that is written."""

BFLOAT16_SINCE: Mapping[str, int] = {
    **dict.fromkeys(("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh"), 22),
    **dict.fromkeys(("Round", "Sin", "Sinh", "Tan", "LSTM", "GRU", "RNN", "MaxPool"), 22),
    **dict.fromkeys(("AveragePool", "Conv", "ConvTranspose", "GridSample"), 22),
    **dict.fromkeys(("Elu", "HardSigmoid", "HardSwish", "InstanceNormalization", "Mish"), 22),
    **dict.fromkeys(("Selu", "Softplus", "Softsign"), 22),
    "TopK": 24,
}
"""Operators that are older than their bfloat16, and the opset that brought it."""

OPERATOR_NAMES: Mapping[Op, str] = {
    **dict.fromkeys((ops.avg_pool, ops.sum_pool), "AveragePool"),
    **dict.fromkeys((ops.max_pool, ops.max_pool_scatter), "MaxPool"),
}


def operator(op: Op) -> str:
    """Name in ONNX of an operation that was recognised or arranged: ``hard_swish`` is ``HardSwish``
    there."""
    name = op.operator or OPERATOR_NAMES.get(op)
    return name or "".join(part.capitalize() for part in op.name.split("_"))
