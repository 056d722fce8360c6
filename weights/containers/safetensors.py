"""The safetensors format: the length of a header, a JSON table of tensors, and their bytes.

Source: the section on the format in the README of the safetensors project.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weights.containers.bounds import (
    MAX_FILES,
    MAX_TABLE_BYTES,
    MAX_TENSORS,
    MAX_VALUES,
    check_count,
    parse_shape,
)
from weights.errors import DamagedFile
from weights.files import Checkpoint, FileBytes, lazy_tensor, stored_dtype, translate_damage
from weights.initializers import Shape
from weights.opening import as_utf8, read_at_most

TENSORS = "model.safetensors"
INDEX = "model.safetensors.index.json"  # maps the name of each tensor to the name of its file
MAX_TABLES_BYTES = 4 * MAX_TABLE_BYTES  # size of the headers of all files of an index, in bytes
KIND = "safetensors file"

DTYPES = {
    **{"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"},
    **{"F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "BOOL": "bool"},
    **{"I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8"},
    **{"U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8"},
}


@dataclass(frozen=True)
class TableEntry:
    """Entry of a tensor in the header: its shape, its dtype, and the positions in the file of its
    first byte (`begin`) and of the byte after its last one (`end`)."""

    shape: Shape
    dtype: str
    begin: int
    end: int


def read_safetensors(source: FileBytes, stream: BufferedReader) -> Checkpoint:
    """Return the checkpoint of the safetensors file `source`. `stream` starts at its beginning.
    **Raises** `NotACheckpoint` if the header is invalid."""
    entries, metadata = _read_header(source, stream)
    tensors = {
        key: lazy_tensor(source, entry.begin, entry.shape, entry.dtype)
        for key, entry in entries.items()
    }
    return Checkpoint(source.path, "safetensors", (source,), tensors, metadata)


def read_arrays(path: Path) -> tuple[dict[str, NDArray[np.generic]], Mapping[str, Any]]:
    """Read all tensors of a small file. Return the arrays by name, and the metadata of the header.

    The arrays have the dtypes of the file: float32, uint8, int32 or int64.

    **Raises** `NotACheckpoint` if the file is damaged or has other dtypes.
    """
    arrays: dict[str, NDArray[np.generic]] = {}
    source = FileBytes(path)
    with translate_damage(path, KIND):
        entries, metadata = _read_header(source, source.stream())
        for key, entry in entries.items():
            if entry.dtype not in ("float32", "uint8", "int32", "int64"):
                raise DamagedFile(
                    f"{key[:80]!r} is {entry.dtype}, not float32, uint8, int32 or int64"
                )
            arrays[key] = np.empty(entry.shape, stored_dtype(entry.dtype))
            source.read_into(entry.begin, arrays[key].reshape(-1).view(np.uint8).data)
    return arrays, metadata


def _read_header(
    source: FileBytes, stream: BufferedReader
) -> tuple[dict[str, TableEntry], Mapping[str, Any]]:
    """Return the entry of each tensor by name, and the metadata of the header. `stream` starts at
    the beginning of the file `source`.

    **Raises** `NotACheckpoint` if the header is invalid, or if the tensors do not fill the file
    without gaps.
    """
    size = source.state.size
    with translate_damage(source.path, KIND):
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > min(size - 8, MAX_TABLE_BYTES):
            raise DamagedFile(f"its header claims {length} of {size} bytes")
        header = parse_object(stream.read(length))
        metadata = header.pop("__metadata__", {})
        check_count("its table of tensors", len(header), MAX_TENSORS)
        entries = {key: _parse_entry(key, value, 8 + length) for key, value in header.items()}
        end = 8 + length
        for key, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
            if entry.begin != end or entry.end > size:
                raise DamagedFile(f"the bytes of {key} do not follow those before it")
            end = entry.end
        if end != size:
            raise DamagedFile(f"it has {size} bytes, but its header describes {end}")
    return entries, metadata if isinstance(metadata, dict) else {}


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file. **Raises** `DamagedFile` if the content is too large or not
    a JSON object."""
    return parse_object(as_utf8(read_at_most(path, MAX_TABLE_BYTES + 1)))


def parse_object(text: bytes) -> dict[str, Any]:
    """Return the JSON object that a text describes. **Raises** `DamagedFile` if it is too large, is
    not valid JSON, or has the same name twice."""
    check_count("its table (in bytes)", len(text), MAX_TABLE_BYTES)
    check_count("its table (in values)", sum(map(text.count, (b",", b"[", b"{"))), MAX_VALUES)
    try:
        value: Any = json.loads(text.decode(), object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise DamagedFile("its table is not JSON, or names a tensor twice") from error
    if not isinstance(value, dict):
        raise DamagedFile("its table is not a JSON object")
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a dictionary. **Raises** `ValueError` if two of them
    have the same key."""
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("two entries have the same name")
    return table


def _parse_entry(key: str, entry: Any, start: int) -> TableEntry:
    """Return the entry of one tensor in the header. `start` is the position of the first tensor in
    the file.

    **Raises** `DamagedFile` if the entry is not valid, or if its number of bytes does not match its
    shape.
    """
    match entry:
        case {"dtype": str(code), "shape": [*sizes], "data_offsets": [int(begin), int(end)]} if (
            code in DTYPES
        ):
            shape = parse_shape(sizes)
            if end - begin == math.prod(shape) * stored_dtype(DTYPES[code]).itemsize:
                return TableEntry(shape, DTYPES[code], start + begin, start + end)
    raise DamagedFile(f"its entry of {key[:80]!r} is not valid")


def read_sharded(
    source: FileBytes,
    stream: BufferedReader,
    read: Callable[[FileBytes, BufferedReader], Checkpoint],
) -> Checkpoint:
    """Return the checkpoint of several files in one folder, from the index in that folder.

    Its path is the folder. It contains the tensors that the index names, without those that only
    the files name and without metadata.

    **Arguments:**

    - `source`, `stream`: the index, and a stream at its beginning.
    - `read`: a function that reads one file of any format.

    **Raises** `NotACheckpoint` if the index is invalid, or if a file or tensor that it names is
    missing.
    """
    index = source.path
    with translate_damage(index, "index of several files"):
        file_of_tensor = _weight_map(as_utf8(stream.read(MAX_TABLE_BYTES + 1)))
        files = {name: index.with_name(name) for name in sorted(set(file_of_tensor.values()))}
        check_count("its files (in number)", len(files), MAX_FILES)
        if missing := [name for name, path in files.items() if not path.is_file()]:
            raise DamagedFile(f"{missing[0]} is missing in its folder")
        shards: dict[str, Checkpoint] = {}
        tables, ending = 0, "safetensors"
        for name, path in files.items():
            ending = name.rpartition(".")[2]
            file = FileBytes(path)
            beginning = file.stream()
            if ending == "safetensors":
                tables += int.from_bytes(beginning.peek(8)[:8], "little")
                check_count("its files' tables (in bytes)", tables, MAX_TABLES_BYTES)
            shards[name] = read(file, beginning)
            check_count(
                "its files", sum(len(shard.tensors) for shard in shards.values()), MAX_TENSORS
            )
        if missing_keys := [
            key for key, name in file_of_tensor.items() if key not in shards[name].tensors
        ]:
            raise DamagedFile(f"{file_of_tensor[missing_keys[0]]} lacks {missing_keys[0]}")
    return Checkpoint(
        index.parent,
        f"{ending if ending == 'safetensors' else 'PyTorch archive'}, {len(shards)} files",
        tuple(file for shard in shards.values() for file in shard.files),
        {key: shards[name].tensors[key] for key, name in file_of_tensor.items()},
    )


def shard_names(index: Path) -> list[str]:
    """Return the names of the files that an index lists, sorted and without duplicates. **Raises**
    `NotACheckpoint` if the index is invalid."""
    with translate_damage(index, "index of several files"):
        return sorted(set(_weight_map(as_utf8(read_at_most(index, MAX_TABLE_BYTES + 1))).values()))


def _weight_map(index: bytes) -> dict[str, str]:
    """Return the name of the file that contains each tensor, by the name of the tensor. `index` is
    the content of an index.

    **Raises** `DamagedFile` unless all names are plain file names without folders, which end in
    `.safetensors` or `.bin`. The files lie next to the index.
    """
    file_of_tensor: Any = parse_object(index).get("weight_map")
    if not isinstance(file_of_tensor, dict) or not all(
        isinstance(name, str) and re.fullmatch(r"[\w-]+(\.[\w-]+)*\.(safetensors|bin)", name)
        for name in file_of_tensor.values()
    ):
        raise DamagedFile("it has no `weight_map` of plain file names")
    return file_of_tensor
