"""The pictures of a shard, one after the other, as bytes that are read when they are needed."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from zoo.embedding.picture_sources import FileSystem, Shard, file_system, picture_place
from zoo.errors import BadFile, BadRequest, first_line
from zoo.images.pictures import extensions

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST_PICTURE = 256 << 20
"""More bytes than the file of a picture may have."""

READ_AT_ONCE = 16
"""Rows of Parquet that are in memory together."""

BROKEN = (tarfile.TarError, EOFError, zlib.error, OSError, ValueError)
"""What reading a file of many pictures raises where it is cut short or is something else."""

KEYS, IMAGES = ("key", "__key__"), ("image", "jpg", "jpeg", "png", "webp", "picture", "bytes")
"""How the columns of Parquet are called that hold keys and pictures."""


@dataclass(frozen=True)
class Item:
    """A picture: its key, and what reads the bytes of its file. **Raises** `OSError`, or
    `BadRequest`."""

    key: str
    read: Callable[[], bytes]


def items(shard: Shard) -> Iterator[Item]:
    """The pictures of a shard in their order; what cannot be read raises when it is read."""
    return READERS[shard.kind](shard, file_system(shard.place))


def _of_names(shard: Shard, system: FileSystem) -> Iterator[Item]:
    for name in shard.names:
        place = picture_place(shard.place, name)
        yield Item(shard.prefix + name, partial(_whole, system, place))


def _whole(system: FileSystem, place: str) -> bytes:
    with closing(system.open(place)) as file:
        return _checked(file.read(LARGEST_PICTURE + 1), place)


def _checked(data: bytes, place: str) -> bytes:
    if len(data) > LARGEST_PICTURE:
        raise BadRequest(
            f"{place} has more than {LARGEST_PICTURE >> 20} MB: give a smaller picture."
        )
    return data


def _of_tar(shard: Shard, system: FileSystem) -> Iterator[Item]:
    """The pictures in a tar file, read from its beginning to its end."""
    known, name = extensions(), PurePosixPath(shard.place).name
    try:
        # Without a block of its own a reader of streams asks for 10 KB at once.
        with (
            closing(system.open(shard.place)) as file,
            tarfile.open(fileobj=file, mode="r|*", bufsize=1 << 20) as archive,
        ):
            for member in archive:
                # Else it keeps all that it has seen.
                archive.members = []  # type: ignore[attr-defined]
                if member.isreg() and Path(member.name).suffix.lower() in known:
                    yield Item(member.name, _of_member(archive, member, name))
    except BROKEN as error:
        yield _failing(name, f"{name} cannot be read any further ({first_line(error)})")


def _of_member(archive: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> Callable[[], bytes]:
    content = archive.extractfile(member)
    data = b"" if content is None else content.read(LARGEST_PICTURE + 1)
    if len(data) < min(member.size, LARGEST_PICTURE + 1):
        return _failing(member.name, f"{name} ends in the middle of it").read
    return partial(_checked, data, member.name)


def _of_parquet(shard: Shard, system: FileSystem) -> Iterator[Item]:
    """The pictures in a column of a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    name = PurePosixPath(shard.place).name
    try:
        with closing(system.open(shard.place)) as file, parquet.ParquetFile(file) as table:
            column, key = _picture_column(table.schema_arrow, name), None
            key = next((each for each in KEYS if each in table.schema_arrow.names), None)
            row, wanted = 0, [column, *([key] if key else [])]
            for batch in table.iter_batches(READ_AT_ONCE, columns=wanted):
                keys = batch[key].to_pylist() if key else [None] * len(batch)
                for own, value in zip(keys, batch[column].to_pylist(), strict=True):
                    told = f"{name}/{row:07d}" if own is None else str(own)
                    yield Item(told, partial(_cell, value, told))
                    row += 1
    except (*BROKEN, pa.ArrowException) as error:
        yield _failing(name, f"{name} cannot be read any further ({first_line(error)})")


def _picture_column(schema: pa.Schema, name: str) -> str:
    """**Raises** `BadFile` where no column holds bytes."""
    import pyarrow as pa

    def has_bytes(kind: Any) -> bool:
        if isinstance(kind, pa.StructType):
            return kind.get_field_index("bytes") >= 0
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))

    found = [field.name for field in schema if has_bytes(field.type)]
    for each in (*IMAGES, *found[:1]):
        if each in found:
            return each
    raise BadFile(f"{name} has no column of pictures, but {', '.join(schema.names)[:200]}.")


def _cell(value: Any, name: str) -> bytes:
    data = value["bytes"] if isinstance(value, dict) else value
    if data is None:
        raise BadRequest(f"{name} holds no picture.")
    return _checked(data, name)


def _failing(key: str, reason: str) -> Item:
    def fail() -> bytes:
        raise BadRequest(f"{reason}: give a whole file.")

    return Item(key, fail)


READERS: dict[str, Callable[[Shard, FileSystem], Iterator[Item]]] = {
    "folder": _of_names,
    "list": _of_names,
    "tar": _of_tar,
    "parquet": _of_parquet,
}
