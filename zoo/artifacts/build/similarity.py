"""How the vectors of images and of texts become logits, for who runs the towers alone."""

import math

from zoo.checkpoints.load import Loaded
from zoo.manifest.measured import StatedSimilarity
from zoo.models.config import DualConfig


def similarity(loaded: Loaded) -> StatedSimilarity | None:
    """Of a network with two towers; None for others."""
    if not isinstance(loaded.config, DualConfig):
        return None
    (scale,), (bias,) = (loaded.weights.arrays[name] for name in ("logit_scale", "logit_bias"))
    return StatedSimilarity(scale=math.exp(scale), bias=float(bias))
