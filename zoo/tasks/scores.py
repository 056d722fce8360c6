"""From logits to numbers between 0 and 1."""

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from weights.initializers import Float32

Scores = Literal["softmax", "sigmoid", "none"]
"""What makes answers of logits: classes exclude each other, or each is by itself, or is a number as
it is."""


def softmax(logits: Float32) -> Float32:
    """Probabilities of classes that exclude each other, along the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def sigmoid(logits: Float32) -> Float32:
    """The probability of each by itself."""
    shares: Float32 = np.exp(-np.logaddexp(np.float32(0), -logits))
    return shares


SCORES: Mapping[Scores, Callable[[Float32], Float32]] = {
    "softmax": softmax,
    "sigmoid": sigmoid,
    "none": lambda logits: logits,
}
