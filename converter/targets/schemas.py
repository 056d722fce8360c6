"""What ONNX's operators take, where that depends on the opset (``onnx.defs``)."""

from __future__ import annotations

from collections.abc import Mapping

SINCE: Mapping[str, int] = {
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "Mish"), 18),
    "Gelu": 20,
    "GroupNormalization": 21,  # that of 18, with a scale for each group, is deprecated
    **dict.fromkeys(("Attention", "RMSNormalization", "RotaryEmbedding"), 23),
    **dict.fromkeys(("Swish", "TensorScatter"), 24),
    **dict.fromkeys(("BitCast", "CumProd"), 26),
}
"""Operators that came after opset 17."""

BFLOAT16_SINCE: Mapping[str, int] = {
    **dict.fromkeys(("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh"), 22),
    **dict.fromkeys(("Round", "Sin", "Sinh", "Tan"), 22),
    **dict.fromkeys(("AveragePool", "Conv", "ConvTranspose", "InstanceNormalization"), 22),
    **dict.fromkeys(
        ("Elu", "HardSigmoid", "HardSwish", "Mish", "Selu", "Softplus", "Softsign"), 22
    ),
    **dict.fromkeys(("LSTM", "GRU", "RNN", "MaxPool"), 22),
    "TopK": 24,
}
"""Operators that are older than their bfloat16, and the opset that brought it."""

NAMES: Mapping[str, str] = {
    **{name: name.upper() for name in ("lstm", "gru", "rnn")},
    **dict.fromkeys(("avg_pool", "sum_pool"), "AveragePool"),
    **dict.fromkeys(("max_pool", "max_pool_scatter"), "MaxPool"),
    "batch_norm": "BatchNormalization",
    "group_norm": "InstanceNormalization",  # with which it can be written
    "layer_norm": "LayerNormalization",
    "rms_norm": "RMSNormalization",
    "rotary": "RotaryEmbedding",
    "soft_sign": "Softsign",
}


def operator(op: str) -> str:
    """What an operation that was recognised or arranged is called in ONNX: ``hard_swish`` is
    ``HardSwish`` there."""
    return NAMES.get(op) or "".join(part.capitalize() for part in op.split("_"))
