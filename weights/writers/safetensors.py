"""Writes the safetensors format."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weights.containers.safetensors import DTYPES
from weights.progress import Progress, Quiet
from weights.tensors import LazyTensor
from weights.writers.items import Item

CODES = {dtype: code for code, dtype in DTYPES.items()}


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Arrays of float32 or uint8 as they are."""
    tensors = {
        key: LazyTensor(array.shape, array.dtype.name, partial(np.asarray, array))
        for key, array in arrays.items()
    }
    items = [Item(key, tensor, tensor.dtype) for key, tensor in tensors.items()]
    write_safetensors(path, items, Quiet())


def write_safetensors(path: Path, items: Sequence[Item], listener: Progress) -> None:
    """One file, with the note that transformers looks for."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for item in items:
        begin, end = end, end + item.size
        described = {"dtype": CODES[item.dtype], "shape": list(item.shape)}
        header[item.key] = described | {"data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for item in items:
            file.write(item.data())
            listener.step(item.size)
