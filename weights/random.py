"""Random weights. Each tensor has its own generator, seeded by the seed and the name.

Tensors can be drawn one at a time and in any order, so that models larger than memory can be
written. The initialization code of a model is not run.
"""

import hashlib
from collections.abc import Mapping
from functools import partial

import numpy as np

from weights.initializers import DRAWS, Float32, Shape, kind_of
from weights.tensors import LazyArrays, LazyTensor, Provenance, Weights


def random_weights(shapes: Mapping[str, Shape], seed: int = 0) -> Weights:
    """Return random weights for a model whose leaves have these shapes, by path. The same seed
    gives the same weights."""
    tensors = {
        path: LazyTensor(shape, "float32", partial(draw_leaf, seed, path, shape))
        for path, shape in shapes.items()
    }
    return Weights(LazyArrays(tensors), Provenance(kind="random", seed=seed))


def draw_leaf(seed: int, path: str, shape: Shape) -> Float32:
    """Return the random values of the leaf at `path`. They depend on the seed, the path and the
    shape alone. The kind of parameter, which its name determines, chooses the distribution."""
    digest = hashlib.sha256(f"{seed}|{path}".encode()).digest()
    rng = np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))
    return DRAWS[kind_of(path)](shape, rng)
