"""Writes the safetensors format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weights.progress import Progress
from weights.writers.items import Item

CODES = {"float32": "F32", "bfloat16": "BF16", "uint8": "U8"}


def write_safetensors(path: Path, items: Sequence[Item], listener: Progress) -> None:
    """One file, with the note that transformers looks for."""
    head = _head([(item.key, CODES[item.dtype], item.shape, item.size) for item in items])
    with path.open("wb") as file:
        file.write(head)
        for item in items:
            file.write(item.data())
            listener.step(item.size)


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Arrays of float32 or uint8 as they are."""
    stored = {key: np.ascontiguousarray(array) for key, array in arrays.items()}
    head = _head([(k, CODES[a.dtype.name], a.shape, a.nbytes) for k, a in stored.items()])
    with path.open("wb") as file:
        file.write(head)
        for array in stored.values():
            file.write(array.data)


def _head(tensors: Sequence[tuple[str, str, Sequence[int], int]]) -> bytes:
    """What comes before the data: of each tensor its key, code, shape and bytes."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for key, code, shape, size in tensors:
        header[key] = {"dtype": code, "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text
