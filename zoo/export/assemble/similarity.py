"""How the vectors of images and of texts become logits, for who runs the towers alone."""

from zoo.architectures.kinds import architecture_of
from zoo.artifacts.measured import StatedSimilarity
from zoo.checkpoints.load import Loaded


def similarity(loaded: Loaded) -> StatedSimilarity | None:
    """Similarity of a network with two towers; None for others."""
    how = architecture_of(loaded.config).similarity
    if how is None:
        return None
    scale, bias = how(loaded.config, loaded.weights.arrays)
    alone = loaded.config.scores == "sigmoid"
    return StatedSimilarity(scale=scale, bias=bias, probabilities="sigmoid" if alone else "softmax")
