"""How the vectors of images and of texts become logits, for who runs the towers alone."""

import math

from zoo.architectures.dual.dual_config import DualConfig
from zoo.checkpoints.load import Loaded
from zoo.manifest.measured import StatedSimilarity


def similarity(loaded: Loaded) -> StatedSimilarity | None:
    """Of a network with two towers; None for others."""
    if not isinstance(loaded.config, DualConfig):
        return None
    arrays, how = loaded.weights.arrays, loaded.config
    if how.temperature:
        scale = 1 / float(arrays["temperature"])
    else:
        scale = math.exp(arrays["logit_scale"][0])
    bias = float(arrays["logit_bias"][0]) if how.bias else 0.0
    return StatedSimilarity(scale=scale, bias=bias, probabilities=how.probabilities)
