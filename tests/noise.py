"""Files of checkpoints that hold noise: what caches and hubs are asked for in tests."""

import json

import numpy as np


def checkpoint(size: int, seed: int = 0) -> bytes:
    """A sound safetensors file of about so many bytes, of one tensor."""
    count = size // 4
    table = {"noise": {"dtype": "F32", "shape": [count], "data_offsets": [0, 4 * count]}}
    text = json.dumps(table).encode()
    numbers = np.random.default_rng(seed).bytes(4 * count)
    return len(text).to_bytes(8, "little") + text + numbers
