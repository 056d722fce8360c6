"""Checkpoints of others as values for our models."""

from weights.bind import bind, leaf_shapes
from weights.errors import WeightsError
from weights.load import meta_weights
from weights.locate import locate
from weights.random import random_weights
from weights.readers import read_pth
from weights.tensors import LazyArrays, LazyTensor, Provenance, Weights

__all__ = [
    "LazyArrays",
    "LazyTensor",
    "Provenance",
    "Weights",
    "WeightsError",
    "bind",
    "leaf_shapes",
    "locate",
    "meta_weights",
    "random_weights",
    "read_pth",
]
