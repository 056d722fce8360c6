"""Sources of pictures: folders, lists, patterns, tar files and Parquet files, local or at a URL."""

from __future__ import annotations

import codecs
import glob
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from importlib.util import find_spec
from itertools import chain
from typing import Any, BinaryIO, cast

from weights.opening import open_regular
from zoo.apps.embed.description import Kind, StatedSource
from zoo.common.errors import BadRequest, MissingLibrary
from zoo.images.pictures import may_be_picture, name_ending

ARCHIVES: dict[str, Kind] = {".tar": "tar", ".tgz": "tar", ".gz": "tar", ".parquet": "parquet"}
"""Suffixes of files that hold many pictures."""

LIST = ".txt"

UNREADABLE = "!"
"""First character of a stamp that stands for an entry that cannot be read; the reason follows."""

LINKED = UNREADABLE + "is a link to a folder, which is not followed: name that folder as a source."

TIMES = "mtime", "LastModified", "last_modified", "updated", "ETag", "etag", "created"
"""Names of the modification time, or its substitute, in file systems of fsspec."""

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""Byte order marks of UTF-16, in which Windows PowerShell's `>` writes."""

StampedName = tuple[str, str]
"""Name of a file below its source, and its stamp: size, time and mode as far as they are known."""


def need_library(library: str) -> None:
    """**Raises** `MissingLibrary` if a library of the extra `[embed]` is not installed."""
    if find_spec(library) is None:
        raise MissingLibrary(f"{library} is not installed: `pip install fsspec pyarrow pylance`.")


def state_sources(texts: Sequence[str]) -> tuple[StatedSource, ...]:
    """Return the sources that a request names, with braces and patterns expanded.

    **Raises** `BadRequest`.
    """
    if not texts:
        raise BadRequest("got no source of pictures: name a folder, a list, tar files or Parquet.")
    sources = dict.fromkeys(
        source for text in texts for name in expand_braces(str(text)) for source in _resolve(name)
    )
    folders = [source for source in sources if source.kind == "folder"]
    if len(folders) < 2:
        return tuple(sources)
    names = [source.path.rstrip("/").rpartition("/")[2] for source in folders]
    if len(set(names)) < len(names):
        raise BadRequest(
            f"two of the folders are called {max(names, key=names.count)}, so that pictures of "
            "both could have one key: name the folder above them."
        )
    prefixes = {source.path: f"{name}/" for source, name in zip(folders, names, strict=True)}
    return tuple(
        source.model_copy(update={"prefix": prefixes.get(source.path, "")}) for source in sources
    )


def _resolve(text: str) -> Iterator[StatedSource]:
    """Yield the sources that one name or pattern stands for. **Raises** `BadRequest`."""
    if printable_name(text) != text:
        raise BadRequest(f"the name {printable_name(text)} is no UTF-8: give it another.")
    system = file_system(text)
    path = text if system.is_remote else os.path.abspath(text)
    if system.is_folder(path):
        yield StatedSource(kind="folder", path=path)
        return
    if not re.search(r"[*?\[]", path) or system.is_file(path):
        if not system.is_file(path):
            raise BadRequest(f"{text} is not there: name a folder, a list, tar files or Parquet.")
        yield _file_source(path)
        return
    matches = system.matches(path)
    if not matches:
        raise BadRequest(f"{text} matches nothing: name what is there.")
    files = [match for match in matches if name_ending(match) in (*ARCHIVES, LIST)]
    if len(files) < len(matches):
        yield StatedSource(kind="list", path=path)
    yield from map(_file_source, files)


def _file_source(path: str) -> StatedSource:
    return StatedSource(kind=ARCHIVES.get(name_ending(path), "list"), path=path)


def expand_braces(text: str) -> list[str]:
    """Return all names that `a-{00..03}.tar` or `{a,b}.tar` stands for."""
    match = re.search(r"\{(?:(\d+)\.\.(\d+)|([^{}]*,[^{}]*))\}", text)
    if match is None:
        return [text]
    if match[1] is None:
        inner = match[3].split(",")
    else:
        inner = [f"{i:0{len(match[1])}d}" for i in range(int(match[1]), int(match[2]) + 1)]
    before, after = text[: match.start()], text[match.end() :]
    return [name for item in inner for name in expand_braces(before + item + after)]


class FileSystem:
    """Files of this machine."""

    is_remote = False

    def is_folder(self, path: str) -> bool:
        """Return whether the path is a folder."""
        return os.path.isdir(path)

    def is_file(self, path: str) -> bool:
        """Return whether the path exists and is no folder."""
        return os.path.exists(path) and not os.path.isdir(path)

    def matches(self, pattern: str) -> list[str]:
        """Return the paths that match a pattern, sorted."""
        return sorted(glob.iglob(pattern, recursive=True))

    def stamp(self, path: str) -> str:
        """Return size and time of a file; empty if it does not exist."""
        try:
            return _local_stamp(os.stat(path))
        except OSError:
            return ""

    def files_below(self, folder: str) -> Iterator[StampedName]:
        """Yield the files below a folder, in the order of their paths."""
        return _walk(folder, "")

    def open(self, path: str) -> BinaryIO:
        """Open a file to read. **Raises** `OSError`."""
        return open_regular(path)


class RemoteFiles(FileSystem):
    """Files behind a URL, as fsspec reads them."""

    is_remote = True

    def __init__(self, url: str):
        import fsspec

        try:
            self.system, _ = fsspec.url_to_fs(url)
        except (ValueError, ImportError) as error:
            raise BadRequest(f"{url} is no URL that can be read ({error}).") from error

    def is_folder(self, path: str) -> bool:
        return bool(self.system.isdir(path))

    def is_file(self, path: str) -> bool:
        return bool(self.system.isfile(path))

    def matches(self, pattern: str) -> list[str]:
        return sorted(map(self.system.unstrip_protocol, self.system.glob(pattern)))

    def stamp(self, path: str) -> str:
        try:
            return _remote_stamp(self.system.info(path))
        except OSError:
            return ""

    def files_below(self, folder: str) -> Iterator[StampedName]:
        root = self.system.unstrip_protocol(folder).rstrip("/") + "/"
        files = self.system.find(folder, detail=True)
        stamps = {self.system.unstrip_protocol(name): _remote_stamp(files[name]) for name in files}
        for url in sorted(stamps):
            yield url.removeprefix(root), stamps[url]

    def open(self, path: str) -> BinaryIO:
        return cast(BinaryIO, self.system.open(path, "rb"))


def file_system(path: str) -> FileSystem:
    """Return the file system of a path or URL. **Raises** `BadRequest` or `MissingLibrary`."""
    if "://" not in path:
        return FileSystem()
    need_library("fsspec")
    return RemoteFiles(path)


def _local_stamp(status: os.stat_result) -> str:
    # A file that could not be read for want of permission can be read with another mode.
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_mode:o}"


def _remote_stamp(info: Mapping[str, Any]) -> str:
    times = (info[name] for name in TIMES if info.get(name) is not None)
    return f"{info.get('size', '')}-{next(times, '')}"


def _walk(folder: str, prefix: str) -> Iterator[StampedName]:
    try:
        with os.scandir(os.path.join(folder, prefix)) as entries:
            # A folder sorts as its name with a slash does, so that paths are sorted.
            names = sorted(
                entry.name + "/" * entry.is_dir(follow_symlinks=False)
                for entry in entries
                if not entry.name.startswith(".")
            )
    except OSError as error:
        yield prefix.rstrip("/"), f"{UNREADABLE}cannot be opened ({error.strerror})."
        return
    for name in names:
        if name.endswith("/"):
            yield from _walk(folder, prefix + name)
        else:
            yield prefix + name, _entry_stamp(os.path.join(folder, prefix + name))


def _entry_stamp(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return LINKED if stat.S_ISDIR(status.st_mode) else _local_stamp(status)


def source_root(source: StatedSource) -> str:
    """Return the folder that the names of a source's pictures are below."""
    if source.kind == "folder":
        return source.path
    is_pattern = source.kind == "list" and not file_system(source.path).is_file(source.path)
    start = re.split(r"[*?\[]", source.path)[0] if is_pattern else source.path
    return start.rpartition("/")[0]


def list_names(source: StatedSource, passed: Counter[str]) -> Iterator[StampedName]:
    """Yield the names of the pictures of a folder, list or pattern, below its root.

    Names that are no pictures are counted in `passed`, by their suffix.
    """
    system, root = file_system(source.path), source_root(source)
    if source.kind == "folder":
        return _pictures(system.files_below(source.path), passed)
    if not system.is_file(source.path):
        files = (
            (path.removeprefix(f"{root}/"), system.stamp(path))
            for path in dict.fromkeys(system.matches(source.path))
            if name_ending(path) not in (*ARCHIVES, LIST) and system.is_file(path)
        )
        return _pictures(files, passed)
    if name_ending(source.path) == LIST:
        return _listed_names(system, source.path)
    return iter([(source.path.rpartition("/")[2], system.stamp(source.path))])


def _pictures(files: Iterator[StampedName], passed: Counter[str]) -> Iterator[StampedName]:
    for name, stamp in files:
        if may_be_picture(name) or stamp.startswith(UNREADABLE):
            yield name, stamp
        else:
            passed[printable_name(name_ending(name))] += 1


def _listed_names(system: FileSystem, path: str) -> Iterator[StampedName]:
    """Yield the names of a list, each once."""
    folder, visited = path.rpartition("/")[0], set[str]()
    with closing(system.open(path)) as file:
        for line in list_lines(file, path):
            if (name := line.strip()) and name not in visited:
                visited.add(name)
                # A request for the state of each URL would take as long as reading it.
                remote = system.is_remote or "://" in name
                yield name, "" if remote else system.stamp(picture_path(folder, name))


def list_lines(file: BinaryIO, path: str) -> Iterator[str]:
    """Yield the lines of a list: bytes that are file names, or UTF-16 with its byte order mark.

    A byte order mark is no part of the first line. **Raises** `BadRequest` for a file that is no
    text.
    """
    for line in _decoded_lines(file.readline(), file, path):
        if "\0" in line:
            raise BadRequest(
                f"{path} is no list of pictures, one name a line (it holds bytes of zero): give a "
                "text file in UTF-8."
            )
        yield line


def _decoded_lines(first: bytes, file: BinaryIO, path: str) -> Iterator[str]:
    if not first.startswith(UTF_16):
        yield from map(os.fsdecode, chain([first.removeprefix(codecs.BOM_UTF8)], file))
        return
    try:
        text = (first + file.read()).decode("utf-16")
    except UnicodeError as error:
        raise BadRequest(
            f"{path} begins as UTF-16 and is none: save the list as UTF-8, one name a line."
        ) from error
    yield from text.split("\n")


def picture_path(folder: str, name: str) -> str:
    """Return the path of a picture of a list or folder; a list may name absolute paths and URLs."""
    return name if name.startswith("/") or "://" in name else f"{folder}/{name}"


def printable_name(name: str) -> str:
    """Return a name as text, with bytes that are no UTF-8 written as escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
