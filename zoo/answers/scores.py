"""From logits to numbers between 0 and 1."""

import numpy as np

from zoo.images.pixel_values import Float32


def softmax(logits: Float32) -> Float32:
    """Probabilities of classes that exclude each other, along the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def sigmoid(logits: Float32) -> Float32:
    """The probability of each by itself."""
    found: Float32 = np.exp(-np.logaddexp(np.float32(0), -logits))
    return found
