"""The safetensors format: a length, a JSON table of tensors, their bytes.

Source: the format section in the README of the safetensors project.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weights.checkpoint import Checkpoint
from weights.errors import NotACheckpoint
from weights.files import FileBytes, lazy
from weights.tensors import LazyTensor

LARGEST_HEADER = 100_000_000
"""Bytes; the limit of the reference implementation."""

INDEX = "model.safetensors.index.json"
"""The table that says which file holds which tensor."""

LARGEST_INDEX = 16 << 20

DTYPES: dict[str, tuple[str, int]] = {
    "F32": ("float32", 4),
    "F16": ("float16", 2),
    "BF16": ("bfloat16", 2),
    "F64": ("float64", 8),
    "F8_E4M3": ("float8_e4m3fn", 1),
    "F8_E5M2": ("float8_e5m2", 1),
    "I64": ("int64", 8),
    "I32": ("int32", 4),
    "I16": ("int16", 2),
    "I8": ("int8", 1),
    "U64": ("uint64", 8),
    "U32": ("uint32", 4),
    "U16": ("uint16", 2),
    "U8": ("uint8", 1),
    "BOOL": ("bool", 1),
}

STORED_WHOLE = {"float32": "<f4", "uint8": "u1"}
"""What `read_arrays` reads, as numpy sees it."""


def read_safetensors(path: Path) -> Checkpoint:
    """Tensors of one file. **Raises** `NotACheckpoint` where its header does not fit it."""
    header, start = read_header(path)
    metadata = header.pop("__metadata__", {})
    room = path.stat().st_size - start
    source = FileBytes(path)
    tensors: dict[str, LazyTensor] = {}
    end = 0
    for key, entry in sorted(header.items(), key=_first_offset):
        shape, dtype, begin, stop = _entry(path, key, entry)
        if begin != end or stop > room:
            raise _damaged(path, f"the bytes of {key} do not follow those before it")
        tensors[key] = lazy(source, start + begin, shape, dtype)
        end = stop
    if end != room:
        raise _damaged(path, f"{room} bytes of tensors are there, its header tells of {end}")
    ordered = {key: tensors[key] for key in header}
    metadata = metadata if isinstance(metadata, dict) else {}
    return Checkpoint(path, "safetensors", (path,), ordered, metadata)


def read_header(path: Path) -> tuple[dict[str, Any], int]:
    """The table of tensors, and where their bytes begin."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, LARGEST_HEADER):
            raise _damaged(path, f"its header claims {length} of {size} bytes")
        text = file.read(length)
    header = parse_object(path, text)
    return header, 8 + length


def parse_object(path: Path, text: bytes) -> dict[str, Any]:
    """A JSON object without repeated names."""
    try:
        value: Any = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "its table is not JSON, or names a tensor twice") from error
    if not isinstance(value, dict):
        raise _damaged(path, "its table is no JSON object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a name is given twice")
    return table


def _first_offset(item: tuple[str, Any]) -> tuple[int, int]:
    match item[1]:
        case {"data_offsets": [int(begin), int(end)]}:
            return begin, end
        case _:
            return -1, -1


def _entry(path: Path, key: str, entry: Any) -> tuple[tuple[int, ...], str, int, int]:
    match entry:
        case {"dtype": str(code), "shape": [*shape], "data_offsets": [int(begin), int(stop)]} if (
            code in DTYPES and all(type(n) is int and 0 <= n < 1 << 48 for n in shape)
        ):
            dtype, width = DTYPES[code]
            if stop - begin == math.prod(shape) * width:
                return tuple(shape), dtype, begin, stop
    raise _damaged(path, f"its entry of {key[:80]!r} makes no sense")


def _damaged(path: Path, what: str) -> NotACheckpoint:
    return NotACheckpoint(
        f"{path} is no sound safetensors file ({what}): download it again, or give another path."
    )


def read_sharded(index: Path) -> Checkpoint:
    """Tensors of several files, by the index beside them."""
    if index.stat().st_size > LARGEST_INDEX:
        raise _damaged(index, "it is far too large for an index")
    places = _weight_map(index)
    shards = {name: _shard(index, name) for name in sorted(set(places.values()))}
    lost = [key for key, name in places.items() if key not in shards[name].tensors]
    if lost:
        raise _damaged(index, f"{places[lost[0]]} lacks {lost[0]}")
    return Checkpoint(
        index.parent,
        f"safetensors, {len(shards)} files",
        tuple(shard.path for shard in shards.values()),
        {key: shards[name].tensors[key] for key, name in places.items()},
    )


def _weight_map(index: Path) -> dict[str, str]:
    """Tensor to file. No folders, no `..`: every file lies beside the index."""
    places: Any = parse_object(index, index.read_bytes()).get("weight_map")
    if not isinstance(places, dict) or not all(
        isinstance(name, str) and re.fullmatch(r"[\w-]+(\.[\w-]+)*\.safetensors", name)
        for name in places.values()
    ):
        raise _damaged(index, "it has no `weight_map` of plain file names")
    return places


def _shard(index: Path, name: str) -> Checkpoint:
    path = index.with_name(name)
    if not path.is_file():
        raise _damaged(index, f"{name} is missing beside it")
    return read_safetensors(path)


def read_arrays(path: Path) -> dict[str, NDArray[np.generic]]:
    """All tensors of a small file at once, in their own types: float32, or bytes.

    **Raises** `NotACheckpoint` if it is damaged, or holds other types.
    """
    header, start = read_header(path)
    arrays: dict[str, NDArray[np.generic]] = {}
    with path.open("rb") as file:
        for key, tensor in read_safetensors(path).tensors.items():
            if tensor.dtype not in ("float32", "uint8"):
                raise _damaged(path, f"{key[:80]!r} is {tensor.dtype}, not float32 or uint8")
            begin, stop = header[key]["data_offsets"]
            file.seek(start + begin)
            stored = np.frombuffer(file.read(stop - begin), STORED_WHOLE[tensor.dtype])
            arrays[key] = stored.reshape(tensor.shape)
    return arrays
