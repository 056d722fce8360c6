"""Tensors that are drawn from their names and shapes alone. A script that computes a library's
output with them and a test that compares with it draw the same numbers."""

import math
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray


def drawn(shapes: Mapping[str, Sequence[int]]) -> dict[str, NDArray[np.float32]]:
    """Draw a tensor for each name and shape. Scales of norms are near one, and matrices keep the
    magnitude of their input, so that every tensor changes the output."""
    return {name: _tensor(name, tuple(shape)) for name, shape in shapes.items()}


def _tensor(name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    values = rng.standard_normal(shape).astype(np.float32)
    if name.endswith("running_var"):
        return np.abs(values) + np.float32(0.5)
    if len(shape) == 1:
        return 0.3 * values + (1 if name.endswith((".weight", "gamma")) else 0)
    if shape[:1] == (1,):  # tokens and positions
        return 0.5 * values
    return values / np.float32(max(math.prod(shape[1:]), 1) ** 0.5)


def picture(size: tuple[int, int]) -> NDArray[np.float32]:
    """Draw a picture `[3, height, width]`."""
    return np.random.default_rng(5).standard_normal((3, *size), np.float32)
