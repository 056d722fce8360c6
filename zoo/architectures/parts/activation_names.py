"""What activations are called by others: plain data without JAX."""

from dataclasses import dataclass
from typing import Literal

Activation = Literal["gelu", "gelu_tanh", "quick_gelu", "relu"]
"""By the names that configurations use: `layers.py` has the functions."""


@dataclass(frozen=True)
class Called:
    """An activation's names in transformers, the first of which is written, and in Equimo."""

    transformers: tuple[str, ...]
    equimo: str


CALLED: dict[Activation, Called] = {
    "gelu": Called(("gelu",), "exactgelu"),
    "gelu_tanh": Called(("gelu_pytorch_tanh", "gelu_new"), "gelu"),
    "quick_gelu": Called(("quick_gelu",), ""),
    "relu": Called(("relu",), "relu"),
}

OF_TRANSFORMERS: dict[str, Activation] = {
    theirs: ours for ours, called in CALLED.items() for theirs in called.transformers
}
