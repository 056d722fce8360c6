"""Checkpoint files of random numbers, for tests of caches and hubs."""

import json

import numpy as np


def checkpoint(size: int, seed: int = 0) -> bytes:
    """Return a valid safetensors file of about `size` bytes with one tensor."""
    count = size // 4
    table = {"noise": {"dtype": "F32", "shape": [count], "data_offsets": [0, 4 * count]}}
    text = json.dumps(table).encode()
    numbers = np.random.default_rng(seed).bytes(4 * count)
    return len(text).to_bytes(8, "little") + text + numbers
