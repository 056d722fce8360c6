"""Seeded matrices, in float64."""

import numpy as np

RNG = np.random.default_rng(11)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def positive(*shape: int) -> np.ndarray:
    x = normal(*shape)
    return x @ x.mT + np.eye(shape[-1])


def hilbert(size: int) -> np.ndarray:
    return 1 / (1 + np.arange(size)[:, None] + np.arange(size))


def low_rank(height: int, width: int, rank: int) -> np.ndarray:
    return normal(height, rank) @ normal(rank, width)


def typed(args, dtype):
    return [x.astype(dtype) if x.dtype.kind == "f" else x for x in args]
