"""The safetensors format: a length, a JSON table of tensors, their bytes.

Source: the format section in the README of the safetensors project.
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
    LARGEST_TABLE,
    MOST_FILES,
    MOST_TENSORS,
    MOST_VALUES,
    shape_of,
    within,
)
from weights.errors import DamagedFile
from weights.files import Checkpoint, FileBytes, lazy, sound, stored
from weights.initializers import Shape
from weights.opening import as_utf8, read_at_most

TENSORS = "model.safetensors"
INDEX = "model.safetensors.index.json"  # the table that says which file holds which tensor
MOST_TABLES = 4 * LARGEST_TABLE  # bytes of the headers of all files of an index
KIND = "safetensors file"

DTYPES = {
    **{"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"},
    **{"F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "BOOL": "bool"},
    **{"I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8"},
    **{"U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8"},
}


@dataclass(frozen=True)
class TableEntry:
    """A tensor, and where its bytes begin and end in the file."""

    shape: Shape
    dtype: str
    begin: int
    end: int


def read_safetensors(source: FileBytes, stream: BufferedReader) -> Checkpoint:
    """Tensors of one file. **Raises** `NotACheckpoint` where its header does not fit it."""
    entries, metadata = _header(source, stream)
    tensors = {key: lazy(source, e.begin, e.shape, e.dtype) for key, e in entries.items()}
    return Checkpoint(source.path, "safetensors", (source,), tensors, metadata)


def read_arrays(path: Path) -> tuple[dict[str, NDArray[np.generic]], Mapping[str, Any]]:
    """All tensors of a small file at once, in their own types: float32, bytes, int32 or
    int64; its metadata.
    **Raises** `NotACheckpoint` if it is damaged, or holds other types."""
    arrays: dict[str, NDArray[np.generic]] = {}
    source = FileBytes(path)
    with sound(path, KIND):
        entries, metadata = _header(source, source.stream())
        for key, entry in entries.items():
            if entry.dtype not in ("float32", "uint8", "int32", "int64"):
                raise DamagedFile(
                    f"{key[:80]!r} is {entry.dtype}, not float32, uint8, int32 or int64"
                )
            arrays[key] = np.empty(entry.shape, stored(entry.dtype))
            source.read_into(entry.begin, arrays[key].reshape(-1).view(np.uint8).data)
    return arrays, metadata


def _header(
    source: FileBytes, stream: BufferedReader
) -> tuple[dict[str, TableEntry], Mapping[str, Any]]:
    """The tensors that are there, and what else the header says. **Raises** `NotACheckpoint`."""
    size = source.state.size
    with sound(source.path, KIND):
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > min(size - 8, LARGEST_TABLE):
            raise DamagedFile(f"its header claims {length} of {size} bytes")
        header = parse_object(stream.read(length))
        metadata = header.pop("__metadata__", {})
        within("its table of tensors", len(header), MOST_TENSORS)
        entries = {key: _entry(key, value, 8 + length) for key, value in header.items()}
        end = 8 + length
        for key, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
            if entry.begin != end or entry.end > size:
                raise DamagedFile(f"the bytes of {key} do not follow those before it")
            end = entry.end
        if end != size:
            raise DamagedFile(f"{size} bytes are there, its header tells of {end}")
    return entries, metadata if isinstance(metadata, dict) else {}


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file of its own. **Raises** `DamagedFile`."""
    return parse_object(as_utf8(read_at_most(path, LARGEST_TABLE + 1)))


def parse_object(text: bytes) -> dict[str, Any]:
    """A JSON object without repeated names. **Raises** `DamagedFile`."""
    within("its table (in bytes)", len(text), LARGEST_TABLE)
    within("its table (in values)", sum(map(text.count, (b",", b"[", b"{"))), MOST_VALUES)
    try:
        value: Any = json.loads(text.decode(), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise DamagedFile("its table is not JSON, or names a tensor twice") from error
    if not isinstance(value, dict):
        raise DamagedFile("its table is no JSON object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a name is given twice")
    return table


def _entry(key: str, entry: Any, start: int) -> TableEntry:
    match entry:
        case {"dtype": str(code), "shape": [*sizes], "data_offsets": [int(begin), int(end)]} if (
            code in DTYPES
        ):
            shape = shape_of(sizes)
            if end - begin == math.prod(shape) * stored(DTYPES[code]).itemsize:
                return TableEntry(shape, DTYPES[code], start + begin, start + end)
    raise DamagedFile(f"its entry of {key[:80]!r} makes no sense")


def read_sharded(
    source: FileBytes,
    stream: BufferedReader,
    read: Callable[[FileBytes, BufferedReader], Checkpoint],
) -> Checkpoint:
    """Tensors of several files, by the index beside them; `read` reads one of any container.
    **Raises** `NotACheckpoint`."""
    index = source.path
    with sound(index, "index of several files"):
        places = _weight_map(as_utf8(stream.read(LARGEST_TABLE + 1)))
        files = {name: index.with_name(name) for name in sorted(set(places.values()))}
        within("its files (in number)", len(files), MOST_FILES)
        if missing := [name for name, path in files.items() if not path.is_file()]:
            raise DamagedFile(f"{missing[0]} is missing beside it")
        shards: dict[str, Checkpoint] = {}
        tables, ending = 0, "safetensors"
        for name, path in files.items():
            ending = name.rpartition(".")[2]
            file = FileBytes(path)
            beginning = file.stream()
            if ending == "safetensors":
                tables += int.from_bytes(beginning.peek(8)[:8], "little")
                within("its files' tables (in bytes)", tables, MOST_TABLES)
            shards[name] = read(file, beginning)
            within("its files", sum(len(shard.tensors) for shard in shards.values()), MOST_TENSORS)
        if lost := [key for key, name in places.items() if key not in shards[name].tensors]:
            raise DamagedFile(f"{places[lost[0]]} lacks {lost[0]}")
    return Checkpoint(
        index.parent,
        f"{ending if ending == 'safetensors' else 'PyTorch archive'}, {len(shards)} files",
        tuple(file for shard in shards.values() for file in shard.files),
        {key: shards[name].tensors[key] for key, name in places.items()},
    )


def shards(index: Path) -> list[str]:
    """The files that an index names. **Raises** `NotACheckpoint`."""
    with sound(index, "index of several files"):
        return sorted(set(_weight_map(as_utf8(read_at_most(index, LARGEST_TABLE + 1))).values()))


def _weight_map(index: bytes) -> dict[str, str]:
    """Tensor to file. No folders, no `..`: every file lies beside the index."""
    places: Any = parse_object(index).get("weight_map")
    if not isinstance(places, dict) or not all(
        isinstance(name, str) and re.fullmatch(r"[\w-]+(\.[\w-]+)*\.(safetensors|bin)", name)
        for name in places.values()
    ):
        raise DamagedFile("it has no `weight_map` of plain file names")
    return places
