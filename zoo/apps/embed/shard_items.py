"""The pictures of a shard, one after the other, as bytes that are read when they are needed."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from zoo.apps.embed.picture_sources import (
    GONE,
    NO_PICTURE,
    FileSystem,
    Shard,
    file_system,
    held_origin,
    picture_place,
    printable_name,
)
from zoo.common.errors import BadFile, BadRequest, first_line
from zoo.images.pictures import may_be_picture, why_unread

if TYPE_CHECKING:
    import pyarrow as pa

    from zoo.apps.embed.earlier_rows import EarlierRow

LARGEST_PICTURE = 256 << 20
"""More bytes than the file of a picture may have."""

READ_AT_ONCE = 16
"""Rows of Parquet that are in memory together."""

BROKEN = (tarfile.TarError, EOFError, zlib.error, OSError, ValueError)
"""What reading a file of many pictures raises where it is cut short or is something else."""

KEY_COLUMNS, IMAGE_COLUMNS = (
    ("key", "__key__"),
    ("image", "jpg", "jpeg", "png", "webp", "picture", "bytes"),
)
"""How the columns of Parquet are called that hold keys and pictures."""


@dataclass(frozen=True)
class Item:
    """A picture: its key, what reads the bytes of its file, and where that is.

    `read` **raises** `OSError`, or `BadRequest`. `stamp` is empty where only the bytes say whether
    it is the picture that it was.
    """

    key: str
    read: Callable[[], bytes]
    origin: str = ""
    stamp: str = ""
    is_gone: bool = False
    known: EarlierRow | None = None

    @property
    def is_known(self) -> bool:
        """Whether the picture, by size and time of its file, is the one that it was."""
        if self.known is None or self.is_gone:
            return self.is_gone
        return bool(self.stamp) and self.stamp == self.known.stamp


def items(shard: Shard) -> Iterator[Item]:
    """The pictures of a shard in their order; what cannot be read raises when it is read."""
    return READERS[shard.kind](shard, file_system(shard.place))


def _of_names(shard: Shard, system: FileSystem) -> Iterator[Item]:
    is_folder = shard.kind == "folder"
    for name, stamp in zip(shard.names, shard.stamps, strict=True):
        key, place = shard.prefix + name, picture_place(shard.place, name)
        read: Callable[[], bytes] = partial(_whole, system, place)
        if stamp.startswith(NO_PICTURE):
            read = _failing(f"{printable_name(key)} {stamp[len(NO_PICTURE) :]}")
        elif is_folder and (reason := why_unread(printable_name(key))):
            read = _failing(reason)
        yield _named_item(key, read, place, stamp)


def _named_item(key: str, read: Callable[[], bytes], origin: str, stamp: str = "") -> Item:
    """A picture by a name that may be no UTF-8, as which keys are written."""
    if (shown := printable_name(key)) != key:
        read = _failing(f"the name {shown} is no UTF-8, as keys are: give the picture another.")
    return Item(shown, read, origin, stamp)


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
    name = PurePosixPath(shard.place).name
    try:
        # Without a block of its own a reader of streams asks for 10 KB at once.
        with (
            closing(system.open(shard.place)) as file,
            tarfile.open(fileobj=file, mode="r|*", bufsize=1 << 20) as archive,
        ):
            for member in archive:
                # Else it keeps all that it has seen.
                archive.members = []  # type: ignore[attr-defined]
                if may_be_picture(member.name) and not member.isdir():
                    read = _of_member(archive, member, name)
                    yield _named_item(member.name, read, held_origin(shard.place, member.name))
    except BROKEN as error:
        yield Item(name, _cut_short(name, error))


def _of_member(archive: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> Callable[[], bytes]:
    if reason := why_unread(printable_name(member.name)):
        return _failing(reason)
    if not member.isreg():
        return _failing(f"{printable_name(member.name)} is a link in {name}, which has no bytes.")
    content = archive.extractfile(member)
    data = b"" if content is None else content.read(LARGEST_PICTURE + 1)
    if len(data) < min(member.size, LARGEST_PICTURE + 1):
        return _failing(f"{name} ends in the middle of it: give a whole file.")
    return partial(_checked, data, member.name)


def _of_parquet(shard: Shard, system: FileSystem) -> Iterator[Item]:
    """The pictures in a column of a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    name = PurePosixPath(shard.place).name
    try:
        with closing(system.open(shard.place)) as file, parquet.ParquetFile(file) as table:
            column, key = _picture_column(table.schema_arrow, name), None
            key = next((each for each in KEY_COLUMNS if each in table.schema_arrow.names), None)
            row, columns = 0, [column, *([key] if key else [])]
            for batch in table.iter_batches(READ_AT_ONCE, columns=columns):
                keys = batch[key].to_pylist() if key else [None] * len(batch)
                for own, value in zip(keys, batch[column].to_pylist(), strict=True):
                    origin = f"{name}/{row:07d}" if own is None else str(own)
                    read = partial(_cell, value, origin)
                    yield Item(origin, read, held_origin(shard.place, origin))
                    row += 1
    except (*BROKEN, pa.ArrowException) as error:
        yield Item(name, _cut_short(name, error))


def _picture_column(schema: pa.Schema, name: str) -> str:
    """**Raises** `BadFile` where no column holds bytes."""
    import pyarrow as pa

    def has_bytes(kind: Any) -> bool:
        if isinstance(kind, pa.StructType):
            return kind.get_field_index("bytes") >= 0
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))

    columns = [field.name for field in schema if has_bytes(field.type)]
    for each in (*IMAGE_COLUMNS, *columns[:1]):
        if each in columns:
            return each
    raise BadFile(f"{name} has no column of pictures, but {', '.join(schema.names)[:200]}.")


def _cell(value: Any, name: str) -> bytes:
    data = value["bytes"] if isinstance(value, dict) else value
    if data is None:
        raise BadRequest(f"{name} holds no picture.")
    return _checked(data, name)


def _cut_short(name: str, error: Exception) -> Callable[[], bytes]:
    return _failing(f"{name} cannot be read any further ({first_line(error)}): give a whole file.")


def _failing(reason: str) -> Callable[[], bytes]:
    def fail() -> bytes:
        raise BadRequest(reason)

    return fail


def _of_nothing(shard: Shard, system: FileSystem) -> Iterator[Item]:
    for origin, stamp in zip(shard.names, shard.stamps, strict=True):
        key = printable_name(origin)
        yield Item(key, _failing(f"{key} is gone."), origin, stamp, is_gone=True)


READERS: dict[str, Callable[[Shard, FileSystem], Iterator[Item]]] = {
    "folder": _of_names,
    "list": _of_names,
    "tar": _of_tar,
    "parquet": _of_parquet,
    GONE: _of_nothing,
}
