"""``LSTM``, ``GRU`` and ``RNN``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from converter.graph import ops
from converter.lower.build import Builder
from converter.lower.registry import rule

NAMES = {"logistic": "Sigmoid", "tanh": "Tanh", "relu": "Relu", "hard_sigmoid": "HardSigmoid"}
USUAL = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
SLOPE, SHIFT = 1 / 6, 0.5
"""Of JAX's hard sigmoid; ONNX's other activations here have no numbers."""


@rule(ops.lstm)
def _(b: Builder, *xs: ir.Value, reverse: bool, activations: Sequence[str]) -> Any:
    return _written(b, "LSTM", xs, reverse, activations)


@rule(ops.gru)
def _(
    b: Builder, *xs: ir.Value, reverse: bool, activations: Sequence[str], reset_last: bool
) -> Any:
    return _written(b, "GRU", xs, reverse, activations, 1 if reset_last else None)


@rule(ops.rnn)
def _(b: Builder, *xs: ir.Value, reverse: bool, activations: Sequence[str]) -> Any:
    return _written(b, "RNN", xs, reverse, activations)


def _written(
    b: Builder,
    op: str,
    xs: Sequence[ir.Value],
    reverse: bool,
    activations: Sequence[str],
    reset_last: int | None = None,
) -> Any:
    x, w, r, bias, *first = xs
    names = [NAMES[name] for name in activations]
    hard = names.count("HardSigmoid")
    return b.ops(
        op,
        [x, w, r, bias, None, *first],
        len(b.node.outputs),
        hidden_size=b.node.outputs[-1].shape[-1],
        direction="reverse" if reverse else None,
        activations=None if names == USUAL[op] else names,
        activation_alpha=[SLOPE] * hard or None,
        activation_beta=[SHIFT] * hard or None,
        linear_before_reset=reset_last,
    )
