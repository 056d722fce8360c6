"""Seeded checkpoints and images, and a digest that guards them.

A checkpoint is one PCG64 stream, one draw per key in sorted order, so that the same seed gives the
same values everywhere and no weights need to be stored.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from weights.initializers import DRAWS, Float32, Shape, kind_of

NO_COPIES: Mapping[str, str] = {}


def make_state(
    shapes: Mapping[str, Shape],
    seed: int,
    copies: Mapping[str, str] = NO_COPIES,
) -> dict[str, Float32]:
    """Values for every key of a checkpoint.

    `mapping.source_shapes` gives keys and shapes. `copies` are further keys and what they repeat,
    as `Naming.repeated` gives them; nothing is drawn for those.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    state: dict[str, Float32] = {}
    for key in sorted({*shapes, *copies}):
        # A copy's name sorts behind its original's.
        drawn = copies.get(key)
        state[key] = state[drawn] if drawn else DRAWS[kind_of(key)](shapes[key], rng)
    return state


def make_image(seed: int, height: int, width: int) -> Float32:
    """A standard normal `[3, height, width]`: an input that needs no preprocessing."""
    rng = np.random.Generator(np.random.PCG64(seed))
    return rng.standard_normal((3, height, width), dtype=np.float32)


def digest(arrays: Mapping[str, Float32]) -> str:
    """sha256 over name, shape and little-endian bytes, by sorted names."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name], "<f4")
        total.update(f"{name}|{array.shape}|".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def save_pth(path: Path, state: Mapping[str, Float32]) -> None:
    """Write a checkpoint as PyTorch does: float32, but the rotary periods in bfloat16."""
    import torch

    tensors = {key: torch.from_numpy(value.copy()) for key, value in state.items()}
    periods = "rope_embed.periods"
    if periods in tensors:
        tensors[periods] = tensors[periods].to(torch.bfloat16)
    torch.save(tensors, path)
