"""The leaves of a model, as checkpoints are mapped onto them."""

from functools import cache

from weights import leaf_shapes
from weights.distributions import Shape
from zoo.models.build import abstract
from zoo.models.config import Config


@cache
def shapes(config: Config) -> dict[str, Shape]:
    """Path (`blocks.0.attn.qkv.weight`) and shape of every array leaf of a model."""
    return leaf_shapes(abstract(config))
