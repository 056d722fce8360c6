"""Pictures of a chunk, as bytes that are read when they are needed."""

from __future__ import annotations

import tarfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from zoo.apps.embed.description import StatedSource
from zoo.apps.embed.sources import (
    NO_TEXT,
    UNREADABLE,
    StampedName,
    open_source,
    picture_key,
    picture_path,
    printable_name,
    source_root,
)
from zoo.common.errors import BadFile, BadRequest, first_line
from zoo.images.pictures import may_be_picture, why_unread

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST_PICTURE = 256 << 20
"""Most bytes of a picture's file."""

READ_AT_ONCE = 16
"""Rows of Parquet that are in memory together."""

BROKEN = (tarfile.TarError, EOFError, zlib.error, OSError, ValueError)
"""Errors of a file of many pictures that is cut short or of another kind."""

KEY_COLUMNS, IMAGE_COLUMNS = (
    ("key", "__key__"),
    ("image", "jpg", "jpeg", "png", "webp", "picture", "bytes"),
)
"""Names of the columns of Parquet that hold keys and pictures."""


@dataclass(frozen=True)
class Chunk:
    """Pictures that one worker embeds and whose rows one commit adds: some of a folder or list
    (`names` with stamps), or all of an archive (`names` holds its own stamp). `has_rows` tells
    whether the dataset may have rows of these pictures already."""

    source: StatedSource
    names: tuple[StampedName, ...]
    has_rows: bool = False


@dataclass(frozen=True)
class Item:
    """Picture with its key, its stamp, and a function that reads the bytes of its file.

    `read` **raises** `OSError` or `BadRequest`.
    """

    key: str
    stamp: str
    read: Callable[[], bytes]


def chunk_items(chunk: Chunk) -> Iterator[Item]:
    """Yield the pictures of a chunk in order; those that cannot be read raise when read."""
    if not chunk.source.is_archive:
        root = source_root(chunk.source)
        for name, stamp in chunk.names:
            key = picture_key(chunk.source, name)
            yield Item(key, stamp, _named_reader(chunk, key, picture_path(root, name), stamp))
        return
    ((_, stamp),) = chunk.names
    members = _tar_members if chunk.source.kind == "tar" else _parquet_cells
    counts = Counter[str]()
    for name, read in members(chunk.source.path):
        counts[name] += 1
        key = printable_name(name)
        if key != name:
            read = _failing(f"{key} {NO_TEXT[len(UNREADABLE) :]}")
        # An archive may hold several pictures of one name, of which each has a row.
        yield Item(key if counts[name] == 1 else f"{key}#{counts[name]}", stamp, read)


def _named_reader(chunk: Chunk, key: str, path: str, stamp: str) -> Callable[[], bytes]:
    if stamp.startswith(UNREADABLE):
        return _failing(f"{key} {stamp[len(UNREADABLE) :]}")
    if chunk.source.kind == "folder" and (reason := why_unread(key)):
        return _failing(reason)
    return partial(_read_file, path)


def _read_file(path: str) -> bytes:
    with closing(open_source(path)) as file:
        return _checked(file.read(LARGEST_PICTURE + 1), path)


def _checked(data: bytes, path: str) -> bytes:
    if len(data) > LARGEST_PICTURE:
        raise BadRequest(
            f"{path} has more than {LARGEST_PICTURE >> 20} MB: give a smaller picture."
        )
    return data


Members = Iterator[tuple[str, Callable[[], bytes]]]


def _tar_members(path: str) -> Members:
    """Yield the pictures in a tar file, read from its beginning to its end."""
    name = PurePosixPath(path).name
    try:
        # Without a buffer size of its own a reader of streams asks for 10 KB at once.
        with (
            closing(open_source(path)) as file,
            tarfile.open(fileobj=file, mode="r|*", bufsize=1 << 20) as archive,
        ):
            for member in archive:
                # Without this it keeps all members in memory.
                archive.members = []  # type: ignore[attr-defined]
                if may_be_picture(member.name) and not member.isdir():
                    yield member.name, _member_reader(archive, member, name)
    except BROKEN as error:
        yield name, _cut_short(name, error)


def _member_reader(
    archive: tarfile.TarFile, member: tarfile.TarInfo, name: str
) -> Callable[[], bytes]:
    if reason := why_unread(printable_name(member.name)):
        return _failing(reason)
    if not member.isreg():
        return _failing(f"{printable_name(member.name)} is a link in {name}, which has no bytes.")
    content = archive.extractfile(member)
    data = b"" if content is None else content.read(LARGEST_PICTURE + 1)
    if len(data) < min(member.size, LARGEST_PICTURE + 1):
        return _failing(f"{name} ends in the middle of it: give a whole file.")
    return partial(_checked, data, member.name)


def _parquet_cells(path: str) -> Members:
    """Yield the pictures in a column of a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    name = PurePosixPath(path).name
    try:
        with closing(open_source(path)) as file, parquet.ParquetFile(file) as table:
            column = _picture_column(table.schema_arrow, name)
            key = next((each for each in KEY_COLUMNS if each in table.schema_arrow.names), None)
            row, columns = 0, [column, *([key] if key else [])]
            for batch in table.iter_batches(READ_AT_ONCE, columns=columns):
                keys = batch[key].to_pylist() if key else [None] * len(batch)
                for given, value in zip(keys, batch[column].to_pylist(), strict=True):
                    own = f"{name}/{row:07d}" if given is None else str(given)
                    yield own, partial(_cell_bytes, value, own)
                    row += 1
    except (*BROKEN, pa.ArrowException) as error:
        yield name, _cut_short(name, error)


def _picture_column(schema: pa.Schema, name: str) -> str:
    """**Raises** `BadFile` if no column holds bytes."""
    import pyarrow as pa

    def has_bytes(kind: Any) -> bool:
        if isinstance(kind, pa.StructType):
            return kind.get_field_index("bytes") >= 0
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))

    columns = [field.name for field in schema if has_bytes(field.type)]
    for column in (*IMAGE_COLUMNS, *columns[:1]):
        if column in columns:
            return column
    raise BadFile(f"{name} has no column of pictures, but {', '.join(schema.names)[:200]}.")


def _cell_bytes(value: Any, key: str) -> bytes:
    data = value["bytes"] if isinstance(value, dict) else value
    if data is None:
        raise BadRequest(f"{key} holds no picture.")
    return _checked(data, key)


def _cut_short(name: str, error: Exception) -> Callable[[], bytes]:
    return _failing(f"{name} cannot be read any further ({first_line(error)}): give a whole file.")


def _failing(reason: str) -> Callable[[], bytes]:
    def fail() -> bytes:
        raise BadRequest(reason)

    return fail
