"""The pictures of a chunk, as the bytes of their files."""

from __future__ import annotations

import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO

import pyarrow as pa
from pyarrow import parquet

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

LARGEST_PICTURE = 256 << 20  # the largest number of bytes of a picture's file
READ_AT_ONCE = 16  # the number of rows of a Parquet file that are in memory together

BROKEN = (tarfile.TarError, EOFError, zlib.error, OSError, ValueError)
"""Errors of an archive that is cut short or of another kind."""

KEY_COLUMNS = ("key", "__key__")
IMAGE_COLUMNS = ("image", "jpg", "jpeg", "png", "webp", "picture", "bytes")
"""Names of the columns with keys and pictures in a Parquet file, in the order of preference."""


@dataclass(frozen=True)
class Chunk:
    """Pictures of one source that one worker embeds. One commit adds their rows.

    - `names`: pictures of a folder or list, or the path and the stamp of an archive. All pictures
      of an archive belong to one chunk.
    - `has_rows`: whether the dataset may have rows of pictures of this source.
    """

    source: StatedSource
    names: tuple[StampedName, ...]
    has_rows: bool = False


@dataclass(frozen=True)
class Item:
    """A picture whose bytes are at a path, in memory, or cannot be read because of an error.

    - `key`: the key of its row.
    - `stamp`: the stamp of its file or of the archive that contains it (`StampedName`).
    - `path`: the path or URL of its file; empty for a picture in an archive.
    - `data`: the bytes of a picture in an archive; None for others.
    - `error`: the reason why it cannot be read, or None.
    """

    key: str
    stamp: str = ""
    path: str = ""
    data: bytes | None = None
    error: str | None = None

    def read(self) -> bytes:
        """Return the bytes of the picture's file.

        **Raises** `OSError`, or `BadRequest` for an item with an error, and for more than
        `LARGEST_PICTURE` bytes.
        """
        if self.error:
            raise BadRequest(self.error)
        data = self.data
        if data is None:
            with closing(open_source(self.path)) as file:
                data = file.read(LARGEST_PICTURE + 1)
        if len(data) > LARGEST_PICTURE:
            raise BadRequest(
                f"{self.path or self.key} has more than {LARGEST_PICTURE >> 20} MB: give a smaller "
                "picture."
            )
        return data


def chunk_items(chunk: Chunk) -> Iterator[Item]:
    """Yield the pictures of a chunk in order. Files of a folder or list are not read yet.

    A picture that is known to be unreadable is yielded with its `error`. **Raises** `BadFile` if a
    Parquet file has no column of pictures.
    """
    if chunk.source.is_archive:
        yield from _archive_items(chunk.source, chunk.names[0][1])
        return
    root = source_root(chunk.source)
    for name, stamp in chunk.names:
        key, error = picture_key(chunk.source, name), None
        if stamp.startswith(UNREADABLE):
            error = f"{key} {stamp.removeprefix(UNREADABLE)}"
        elif chunk.source.kind == "folder":
            error = why_unread(key)
        yield Item(key, stamp, picture_path(root, name), error=error)


def _archive_items(source: StatedSource, stamp: str) -> Iterator[Item]:
    """Yield the pictures of an archive with its stamp.

    The second picture of one name has the key `name#2`. An archive that cannot be read to its end
    yields an error under its own name.
    """
    name, counts = PurePosixPath(source.path).name, Counter[str]()
    read_members = _tar_members if source.kind == "tar" else _parquet_cells
    try:
        with closing(open_source(source.path)) as file:
            for member in read_members(file, name):
                counts[member.key] += 1
                key = printable_name(member.key)
                error = member.error
                if key != member.key:
                    error = f"{key} {NO_TEXT.removeprefix(UNREADABLE)}"
                if counts[member.key] > 1:
                    key += f"#{counts[member.key]}"
                yield Item(key, stamp, data=member.data, error=error)
    except (*BROKEN, pa.ArrowException) as error:
        reason = f"{name} cannot be read any further ({first_line(error)}): give a whole file."
        yield Item(name, stamp, error=reason)


def _tar_members(file: BinaryIO, archive_name: str) -> Iterator[Item]:
    """Yield the pictures in a tar file, which is read once from its beginning to its end.

    Members whose names are not those of pictures are left out. Their keys are their names.
    """
    # By default a stream is read in pieces of 10 KB.
    with tarfile.open(fileobj=file, mode="r|*", bufsize=1 << 20) as archive:
        for member in archive:
            # Otherwise tarfile keeps all members in memory.
            archive.members = []  # type: ignore[attr-defined]
            name = member.name
            if not may_be_picture(name) or member.isdir():
                continue
            data, error = b"", why_unread(printable_name(name))
            if error is None and not member.isreg():
                error = f"{printable_name(name)} is a link in {archive_name}, which has no bytes."
            if error is None and (content := archive.extractfile(member)):
                data = content.read(LARGEST_PICTURE + 1)
                if len(data) < min(member.size, LARGEST_PICTURE + 1):
                    error = f"{archive_name} ends in the middle of it: give a whole file."
            yield Item(name, data=data, error=error)


def _parquet_cells(file: BinaryIO, archive_name: str) -> Iterator[Item]:
    """Yield the pictures in a column of a Parquet file.

    The column has bytes, or structs with a field `bytes`. Rows without a key have the key
    `FILE/ROW`. **Raises** `BadFile` if there is no such column.
    """
    with parquet.ParquetFile(file) as table:
        schema, row = table.schema_arrow, 0
        columns = [
            column.name
            for column in schema
            if pa.types.is_binary(column.type)
            or pa.types.is_large_binary(column.type)
            or (pa.types.is_struct(column.type) and column.type.get_field_index("bytes") >= 0)
        ]
        named = [name for name in IMAGE_COLUMNS if name in columns] + columns
        if not named:
            names = ", ".join(schema.names)[:200]
            raise BadFile(f"{archive_name} has no column of pictures, but {names}.")
        keys = [name for name in KEY_COLUMNS if name in schema.names][:1]
        for batch in table.iter_batches(READ_AT_ONCE, columns=[named[0], *keys]):
            for record in batch.to_pylist():
                cell, given_key = record[named[0]], record[keys[0]] if keys else None
                key = f"{archive_name}/{row:07d}" if given_key is None else str(given_key)
                data = cell["bytes"] if isinstance(cell, dict) else cell
                error = f"{key} holds no picture." if data is None else None
                yield Item(key, data=data, error=error)
                row += 1
