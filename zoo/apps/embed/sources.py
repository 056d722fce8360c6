"""Sources of pictures: folders, lists, patterns, tar files and Parquet files, local or at a URL.

The names in a source are listed first. The bytes of its pictures are read later, chunk by chunk.
"""

from __future__ import annotations

import glob
import os
import re
import stat
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, BinaryIO, cast

import fsspec
import pyarrow as pa
from pyarrow import parquet

from weights.opening import as_utf8, open_regular
from zoo.apps.embed.dataset import Kind, StatedSource
from zoo.common.errors import BadFile, BadRequest, first_line
from zoo.images.pictures import may_be_picture, name_ending, why_unread

ARCHIVES: dict[str, Kind] = {".tar": "tar", ".tgz": "tar", ".gz": "tar", ".parquet": "parquet"}
"""Endings of files that contain many pictures."""

LIST = ".txt"  # the ending of a list of paths, one a line

UNREADABLE = "!"
"""The first character of a stamp of something that cannot be read. The reason follows."""

LINKED = UNREADABLE + "is a link to a folder, which is not followed: name that folder as a source."

NO_TEXT = UNREADABLE + "is no UTF-8, as keys are: give the picture another name."

TIMES = "mtime", "LastModified", "last_modified", "updated", "ETag", "etag", "created"
"""Names of the modification time, or its substitute, in the file systems of fsspec."""

StampedName = tuple[str, str]
"""The path of a file below its source, and its stamp: size, time and mode as far as known. A stamp
that begins with `UNREADABLE` is a reason instead."""

LARGEST_PICTURE = 256 << 20  # the largest number of bytes of a picture's file
READ_AT_ONCE = 16  # the number of rows of a Parquet file that are in memory together

BROKEN = (tarfile.TarError, EOFError, zlib.error, OSError, ValueError)
"""Errors of an archive that is cut short or of another kind."""

KEY_COLUMNS = ("key", "__key__")
IMAGE_COLUMNS = ("image", "jpg", "jpeg", "png", "webp", "picture", "bytes")
"""Names of the columns with keys and pictures in a Parquet file, in the order of preference."""


def state_sources(texts: Sequence[str]) -> tuple[StatedSource, ...]:
    """Return the sources that paths, URLs and patterns stand for, each once.

    If several sources are folders, the names of the folders become the prefixes of their keys.

    **Raises** `BadRequest` for no texts, if a source does not exist, or if two folders have the
    same name.
    """
    if not texts:
        raise BadRequest("got no source of pictures: name a folder, a list, tar files or Parquet.")
    sources = dict.fromkeys(
        source for text in texts for name in expand_braces(text) for source in _resolve(name)
    )
    folders = [source.path for source in sources if source.kind == "folder"]
    if len(folders) < 2:
        return tuple(sources)
    names = [path.rstrip("/").rpartition("/")[2] for path in folders]
    if len(set(names)) < len(names):
        raise BadRequest(
            f"two of the folders are called {max(names, key=names.count)}, so that pictures of "
            "both could have one key: name the folder above them."
        )
    prefixes = dict(zip(folders, names, strict=True))
    return tuple(
        source.model_copy(update={"prefix": f"{prefixes[source.path]}/"})
        if source.kind == "folder"
        else source
        for source in sources
    )


def _resolve(text: str) -> Iterator[StatedSource]:
    """Yield the sources that a path, URL or pattern without braces stands for.

    Pictures that match a pattern are one source, archives and lists are a source each.
    **Raises** `BadRequest`.
    """
    if printable_name(text) != text:
        raise BadRequest(f"the name {printable_name(text)} is no UTF-8: give it another.")
    path = text if is_url(text) else os.path.abspath(text)
    system = file_system(path)
    if system.isdir(path):
        yield StatedSource(kind="folder", path=path)
        return
    matches = [path] if system.exists(path) else find_matches(path)
    if not matches:
        is_pattern = re.search(r"[*?\[]", path)
        raise BadRequest(
            f"{text} matches nothing: name what is there."
            if is_pattern
            else f"{text} is not there: name a folder, a list, tar files or Parquet."
        )
    files = [match for match in matches if name_ending(match) in (*ARCHIVES, LIST)]
    if len(files) < len(matches):
        yield StatedSource(kind="list", path=path)
    for file in files:
        yield StatedSource(kind=ARCHIVES.get(name_ending(file), "list"), path=file)


def expand_braces(text: str) -> list[str]:
    """Return all names that `a-{00..03}.tar` or `{a,b}.tar` stands for.

    Several pairs of braces give all combinations. Numbers may go down, as in a shell. A text
    without braces is returned alone.
    """
    match = re.search(r"\{(?:(\d+)\.\.(\d+)|([^{}]*,[^{}]*))\}", text)
    if match is None:
        return [text]
    if match[1] is None:
        values = match[3].split(",")
    else:
        first, last = int(match[1]), int(match[2])
        step = 1 if first <= last else -1
        values = [f"{i:0{len(match[1])}d}" for i in range(first, last + step, step)]
    before, after = text[: match.start()], text[match.end() :]
    return [name for value in values for name in expand_braces(before + value + after)]


def is_url(path: str) -> bool:
    """Return True if a path is a URL, which fsspec opens: it contains `://`."""
    return "://" in path


def file_system(path: str) -> Any:
    """Return fsspec's file system for a path or URL.

    **Raises** `BadRequest` if fsspec does not support the URL's protocol, or lacks a package for
    it.
    """
    try:
        return fsspec.url_to_fs(path)[0]
    except (ValueError, ImportError) as error:
        raise BadRequest(f"{path} is no URL that can be read ({error}).") from error


def open_source(path: str) -> BinaryIO:
    """Open a file or URL for reading bytes.

    A text that contains `://` is a URL. **Raises** `OSError` if it cannot be opened, and
    `BadRequest` if fsspec does not support the URL's protocol.
    """
    if is_url(path):
        return cast(BinaryIO, file_system(path).open(path, "rb"))
    return open_regular(path)


def find_matches(pattern: str) -> list[str]:
    """Return the paths or URLs that match a pattern, sorted."""
    if is_url(pattern):
        system = file_system(pattern)
        return sorted(map(system.unstrip_protocol, system.glob(pattern)))
    return sorted(glob.iglob(pattern, recursive=True))


def file_stamp(path: str) -> str:
    """Return the stamp of a file or URL: its size, time and mode as far as known.

    It is empty if the file does not exist, and `LINKED` for a local folder.
    """
    try:
        if is_url(path):
            return _info_stamp(file_system(path).info(path))
        status = os.stat(path)
    except OSError:
        return ""
    if stat.S_ISDIR(status.st_mode):
        return LINKED
    # The mode counts because a file that could not be read may get other permissions.
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_mode:o}"


def _info_stamp(info: dict[str, Any]) -> str:
    """Return the stamp of a file, its size and time, from the description that fsspec has of it."""
    times = (info[name] for name in TIMES if info.get(name) is not None)
    return f"{info.get('size', '')}-{next(times, '')}"


def source_root(source: StatedSource) -> str:
    """Return the folder that the names of a source's pictures are relative to."""
    if source.kind == "folder":
        return source.path
    is_file = file_system(source.path).exists(source.path)
    start = source.path if is_file else re.split(r"[*?\[]", source.path)[0]
    return start.rpartition("/")[0]


def list_names(source: StatedSource, skipped_files: Counter[str]) -> Iterator[StampedName]:
    """Yield the name and stamp of each picture of a folder, list or pattern.

    Names are relative to `source_root`. Entries of a folder or pattern that cannot be read are
    yielded too. Other files of a folder or pattern are counted in `skipped_files` by the ending of
    their names.
    """
    if source.kind == "list" and file_system(source.path).exists(source.path):
        yield from _listed_names(source.path)
        return
    files = _files_below(source.path) if source.kind == "folder" else _matching_files(source)
    for name, stamp in files:
        if may_be_picture(name) or stamp.startswith(UNREADABLE):
            yield name, stamp
        else:
            skipped_files[printable_name(name_ending(name))] += 1


def _listed_names(path: str) -> Iterator[StampedName]:
    """Yield the names and stamps of the pictures in a list, or those of a single picture.

    Each name is yielded once. Empty lines are left out. The stamp of a URL in a list is empty.
    """
    root, _, name = path.rpartition("/")
    names = read_list(path) if name_ending(path) == LIST else [name]
    for name in dict.fromkeys(name.strip() for name in names):
        picture = picture_path(root, name)
        # A request for the state of each URL would take as long as reading it.
        if name:
            yield name, "" if is_url(name) else file_stamp(picture)


def _matching_files(source: StatedSource) -> Iterator[StampedName]:
    """Yield the names and stamps of files that match a pattern, without folders, archives and
    lists."""
    root, system = source_root(source), file_system(source.path)
    for path in dict.fromkeys(find_matches(source.path)):
        if name_ending(path) not in (*ARCHIVES, LIST) and not system.isdir(path):
            yield path.removeprefix(f"{root}/"), file_stamp(path)


def _files_below(folder: str) -> Iterator[StampedName]:
    """Yield the names and stamps of the files below a folder. Local names that begin with a dot are
    left out.

    Links to folders, and folders that cannot be opened, are yielded too. Their stamp is
    `UNREADABLE` with the reason.
    """
    if is_url(folder):
        system = file_system(folder)
        root = system.unstrip_protocol(folder).rstrip("/") + "/"
        for path, info in system.find(folder, detail=True).items():
            yield system.unstrip_protocol(path).removeprefix(root), _info_stamp(info)
        return
    errors = list[OSError]()
    for root, folders, names in os.walk(folder, onerror=errors.append):
        folders[:] = [name for name in folders if not name.startswith(".")]
        links = [name for name in folders if os.path.islink(os.path.join(root, name))]
        for name in names + links:
            if not name.startswith("."):
                path = os.path.join(root, name)
                yield os.path.relpath(path, folder), file_stamp(path)
    for error in errors:
        name = os.path.relpath(error.filename, folder)
        yield name, f"{UNREADABLE}cannot be opened ({error.strerror})."


def read_list(path: str) -> list[str]:
    """Return the lines of a list in UTF-8, or in UTF-16 with a byte order mark.

    Bytes that are no UTF-8 become surrogates, as in the names of files that Python lists.
    **Raises** `BadRequest` if the file is no text.
    """
    with closing(open_source(path)) as file:
        text = as_utf8(file.read()).decode("utf-8", "surrogateescape")
    if "\0" in text:
        raise BadRequest(
            f"{path} is no list of pictures, one name a line (it holds bytes of zero): give a "
            "text file in UTF-8."
        )
    return text.split("\n")


def picture_path(root: str, name: str) -> str:
    """Return the path of the picture `name`, which is relative to `root`.

    A name in a list may also be an absolute path or a URL, which is returned unchanged.
    """
    return name if name.startswith("/") or is_url(name) else f"{root}/{name}"


def picture_key(source: StatedSource, name: str) -> str:
    """Return the key of a picture of a folder or list."""
    return printable_name(source.prefix + name)


def printable_name(name: str) -> str:
    """Return a name of a file as text, in which bytes that are no UTF-8 are escaped."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


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
