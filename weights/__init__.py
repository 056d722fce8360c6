"""Read tensors from checkpoint files and map them to the array leaves of models, and back."""

from weights.containers import open_checkpoint
from weights.errors import WeightsError
from weights.files import Checkpoint
from weights.load import load_weights
from weights.random import random_weights
from weights.sources.locate import locate
from weights.tensors import LazyArrays, LazyTensor, Provenance, Weights
from weights.tree import array_leaves, bind, leaf_shapes, leaf_values

__all__ = [
    "Checkpoint",
    "LazyArrays",
    "LazyTensor",
    "Provenance",
    "Weights",
    "WeightsError",
    "array_leaves",
    "bind",
    "leaf_shapes",
    "leaf_values",
    "load_weights",
    "locate",
    "open_checkpoint",
    "random_weights",
]
