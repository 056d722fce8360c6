"""Seeded checkpoints and images, and a digest that detects other random numbers."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from weights.initializers import DRAWS, Float32, Shape
from weights.synthetic import stream_state


def make_state(
    shapes: Mapping[str, Shape], seed: int, copies: Mapping[str, str] = {}
) -> dict[str, Float32]:
    """Draw a value for every key of a checkpoint, as `stream_state` does."""
    return dict(stream_state(shapes, seed, DRAWS, copies))


def make_image(seed: int, height: int, width: int) -> Float32:
    """Draw a standard normal `[3, height, width]` image, which needs no preprocessing."""
    rng = np.random.Generator(np.random.PCG64(seed))
    return rng.standard_normal((3, height, width), dtype=np.float32)


def digest(arrays: Mapping[str, Float32]) -> str:
    """Return the sha256 over name, shape and little-endian bytes of the arrays, sorted by name."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name], "<f4")
        total.update(f"{name}|{array.shape}|".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def save_pth(path: Path, state: Mapping[str, Float32]) -> None:
    """Write a checkpoint as PyTorch does: in float32, with the rotary periods in bfloat16."""
    import torch

    tensors = {key: torch.from_numpy(value.copy()) for key, value in state.items()}
    periods = "rope_embed.periods"
    if periods in tensors:
        tensors[periods] = tensors[periods].to(torch.bfloat16)
    torch.save(tensors, path)
