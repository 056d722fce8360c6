"""Random weights: every tensor from a generator of its own, seeded by (seed, name).

Any tensor can be drawn alone and in any order, so a model larger than memory can be written
out, and nothing runs the model's own initialisation.
"""

import hashlib
from collections.abc import Mapping
from functools import partial

import numpy as np

from weights.initializers import DRAWS, Float32, Shape, kind_of
from weights.tensors import LazyArrays, LazyTensor, Provenance, Weights


def random_weights(shapes: Mapping[str, Shape], seed: int = 0) -> Weights:
    """Weights for a model whose leaves have these paths and shapes."""
    tensors = {
        path: LazyTensor(shape, "float32", partial(draw_one, seed, path, shape))
        for path, shape in shapes.items()
    }
    return Weights(LazyArrays(tensors), Provenance(kind="random", seed=seed))


def draw_one(seed: int, path: str, shape: Shape) -> Float32:
    """The values of the leaf at `path`: the same for the same arguments, everywhere."""
    digest = hashlib.sha256(f"{seed}|{path}".encode()).digest()
    rng = np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))
    return DRAWS[kind_of(path)](shape, rng)
