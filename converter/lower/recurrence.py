"""``LSTM``, ``GRU`` and ``RNN``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from converter.ir import ops
from converter.lower.builder import Builder
from converter.lower.lowerings import lowers

NAMES = {"logistic": "Sigmoid", "tanh": "Tanh", "relu": "Relu", "hard_sigmoid": "HardSigmoid"}
USUAL = {
    ops.lstm: ("LSTM", ["Sigmoid", "Tanh", "Tanh"]),
    ops.gru: ("GRU", ["Sigmoid", "Tanh"]),
    ops.rnn: ("RNN", ["Tanh"]),
}
"""The operators, and their activations if nothing is said."""
SLOPE, SHIFT = 1 / 6, 0.5
"""Of JAX's hard sigmoid; ONNX's other activations here have no numbers."""


@lowers(*USUAL)
def _(
    b: Builder,
    x: ir.Value,
    w: ir.Value,
    r: ir.Value,
    bias: ir.Value,
    *first: ir.Value,
    reverse: bool,
    activations: Sequence[str],
    reset_last: bool = False,
) -> Any:
    operator, usual = USUAL[b.node.op]
    names = [NAMES[name] for name in activations]
    hard = names.count("HardSigmoid")
    return b.ops(
        operator,
        [x, w, r, bias, None, *first],
        len(b.node.outputs),
        hidden_size=b.node.outputs[-1].shape[-1],
        direction="reverse" if reverse else None,
        activations=None if names == usual else names,
        activation_alpha=[SLOPE] * hard or None,
        activation_beta=[SHIFT] * hard or None,
        linear_before_reset=1 if reset_last else None,
    )
