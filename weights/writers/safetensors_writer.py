"""Write the safetensors format."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weights.containers.safetensors import DTYPES
from weights.progress import Progress, Quiet
from weights.tensors import LazyTensor
from weights.writers.items import Items, byte_size, tensor_bytes

CODES = {dtype: code for code, dtype in DTYPES.items()}


def write_arrays(
    path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]
) -> None:
    """Write arrays, by name, into one file in their own dtypes, float32 or uint8. `metadata` is the
    metadata of its header."""
    items = {
        key: LazyTensor(array.shape, array.dtype.name, partial(np.asarray, array))
        for key, array in arrays.items()
    }
    write_safetensors(path, items, Quiet(), metadata)


DEFAULT_METADATA = {"format": "pt"}  # transformers requires it


def write_safetensors(
    path: Path, items: Items, listener: Progress, metadata: Mapping[str, str] = DEFAULT_METADATA
) -> None:
    """Write the tensors `items` into one file. `metadata` is the metadata of its header;
    transformers requires a format in it."""
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    end = 0
    for key, tensor in items.items():
        begin, end = end, end + byte_size(tensor)
        entry = {"dtype": CODES[tensor.dtype], "shape": list(tensor.shape)}
        header[key] = entry | {"data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in items.values():
            file.write(tensor_bytes(tensor))
            listener.step(byte_size(tensor))
