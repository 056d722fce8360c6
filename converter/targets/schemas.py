"""What ONNX's operators take, where that depends on the opset (``onnx.defs``)."""

from __future__ import annotations

from collections.abc import Mapping

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
