"""Seeded complex numbers."""

import numpy as np

RNG = np.random.default_rng(13)


def normal(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype(np.complex64)


def plane() -> np.ndarray:
    """Points of all sizes, next to the unit circle, and next to where functions are singular."""
    sizes = np.array([1e-6, 1e-2, 0.3, 1, 1.5, 3, 10, 30])[:, None] * normal(8, 100)
    circle = np.exp(1j * RNG.uniform(-np.pi, np.pi, 100))
    near = np.array([0, 1, -1, 1j, -1j])[:, None] + 1e-4 * normal(5, 50)
    return np.concatenate([sizes.ravel(), circle, near.ravel()]).astype(np.complex64)


AXES = np.array([0, 0.5, 1, 2, 100], np.float32)


def axes() -> np.ndarray:
    """Points on both axes, with zeros of both signs."""
    flat = [complex(s * a, z) for a in AXES for s in (1.0, -1.0) for z in (0.0, -0.0)]
    upright = [complex(z.imag, z.real) for z in flat]
    return np.array([*flat, *upright], np.complex64)


def joined(array: np.ndarray) -> np.ndarray:
    """Both parts on a last axis of two, as complex numbers."""
    return np.ascontiguousarray(array).view(np.dtype(f"c{2 * array.itemsize}"))[..., 0]
