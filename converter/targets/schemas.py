"""Facts about ONNX's operators that depend on the opset (``onnx.defs``)."""

from collections.abc import Mapping

from converter.ir import ops
from converter.ir.op import Op
from converter.opsets import FIRST_FUSED_OPSET

SINCE: Mapping[str, int] = {
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "Mish"), 18),
    "Gelu": 20,
    "GroupNormalization": 21,  # the version of opset 18, with one scale per group, is deprecated
    **dict.fromkeys(("Attention", "RMSNormalization", "RotaryEmbedding"), FIRST_FUSED_OPSET),
    **dict.fromkeys(("Swish", "TensorScatter"), 24),
    **dict.fromkeys(("BitCast", "CumProd"), 26),
}
"""Operators that are newer than the oldest supported opset, with the opset that added them."""

BFLOAT16_SINCE: Mapping[str, int] = {
    **dict.fromkeys(("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh"), 22),
    **dict.fromkeys(("Round", "Sin", "Sinh", "Tan", "LSTM", "GRU", "RNN", "MaxPool"), 22),
    **dict.fromkeys(("AveragePool", "Conv", "ConvTranspose", "GridSample"), 22),
    **dict.fromkeys(("Elu", "HardSigmoid", "HardSwish", "InstanceNormalization", "Mish"), 22),
    **dict.fromkeys(("Selu", "Softplus", "Softsign"), 22),
    "TopK": 24,
}
"""Operators that got bfloat16 in a later version, with the opset that added it."""

OPERATOR_NAMES: Mapping[Op, str] = {
    **dict.fromkeys((ops.avg_pool, ops.sum_pool), "AveragePool"),
    **dict.fromkeys((ops.max_pool, ops.max_pool_scatter), "MaxPool"),
}


def operator_name(op: Op) -> str:
    """Return the name of the ONNX operator that an operation of the graph is lowered to.

    It is the operation's ``operator``, an entry in ``OPERATOR_NAMES``, or the operation's name in
    camel case: ``HardSwish`` for ``hard_swish``.
    """
    name = op.operator or OPERATOR_NAMES.get(op)
    return name or "".join(part.capitalize() for part in op.name.split("_"))
