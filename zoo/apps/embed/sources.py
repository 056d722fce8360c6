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

NO_TEXT = UNREADABLE + "is no UTF-8, as keys are: give the picture another name."

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
    path = text if is_url(text) else os.path.abspath(text)
    system = file_system(path)
    if system.isdir(path):
        yield StatedSource(kind="folder", path=path)
        return
    if system.exists(path):
        yield _file_source(path)
        return
    if not re.search(r"[*?\[]", path):
        raise BadRequest(f"{text} is not there: name a folder, a list, tar files or Parquet.")
    matches = find_matches(path)
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


def is_url(path: str) -> bool:
    """Return whether a path is a URL, which fsspec reads."""
    return "://" in path


def file_system(path: str) -> Any:
    """Return fsspec's file system of a path or URL. **Raises** `BadRequest` or `MissingLibrary`."""
    need_library("fsspec")
    import fsspec

    try:
        return fsspec.url_to_fs(path)[0]
    except (ValueError, ImportError) as error:
        raise BadRequest(f"{path} is no URL that can be read ({error}).") from error


def open_source(path: str) -> BinaryIO:
    """Open a file or URL to read. **Raises** `OSError`, or `BadRequest` for no URL."""
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
    """Return size, time and mode of a file; empty if it does not exist."""
    try:
        if is_url(path):
            return _remote_stamp(file_system(path).info(path))
        status = os.stat(path)
    except OSError:
        return ""
    # A file that could not be read for want of permission can be read with another mode.
    stamp = f"{status.st_size}-{status.st_mtime_ns}-{status.st_mode:o}"
    return LINKED if stat.S_ISDIR(status.st_mode) else stamp


def _remote_stamp(info: Mapping[str, Any]) -> str:
    times = (info[name] for name in TIMES if info.get(name) is not None)
    return f"{info.get('size', '')}-{next(times, '')}"


def _files_below(folder: str) -> Iterator[StampedName]:
    """Yield the files below a folder, without hidden ones if it is on this machine."""
    if is_url(folder):
        system = file_system(folder)
        root = system.unstrip_protocol(folder).rstrip("/") + "/"
        for path, info in system.find(folder, detail=True).items():
            yield system.unstrip_protocol(path).removeprefix(root), _remote_stamp(info)
        return
    unreadable = list[OSError]()
    for root, folders, names in os.walk(folder, onerror=unreadable.append):
        folders[:] = [name for name in folders if not name.startswith(".")]
        links = (name for name in folders if os.path.islink(os.path.join(root, name)))
        for name in (*names, *links):
            if not name.startswith("."):
                path = os.path.join(root, name)
                yield os.path.relpath(path, folder), file_stamp(path)
    for error in unreadable:
        name = os.path.relpath(error.filename, folder)
        yield name, f"{UNREADABLE}cannot be opened ({error.strerror})."


def source_root(source: StatedSource) -> str:
    """Return the folder that the names of a source's pictures are below."""
    if source.kind == "folder":
        return source.path
    is_file = file_system(source.path).exists(source.path)
    start = source.path if is_file else re.split(r"[*?\[]", source.path)[0]
    return start.rpartition("/")[0]


def list_names(source: StatedSource, passed: Counter[str]) -> Iterator[StampedName]:
    """Yield the names of the pictures of a folder, list or pattern, below its root.

    Names that are no pictures are counted in `passed`, by their suffix.
    """
    if source.kind == "folder":
        yield from _pictures(_files_below(source.path), passed)
        return
    root, system = source_root(source), file_system(source.path)
    if not system.exists(source.path):
        paths = (path for path in find_matches(source.path) if not system.isdir(path))
        files = (
            (path.removeprefix(f"{root}/"), file_stamp(path))
            for path in dict.fromkeys(paths)
            if name_ending(path) not in (*ARCHIVES, LIST)
        )
        yield from _pictures(files, passed)
    elif name_ending(source.path) != LIST:
        yield source.path.rpartition("/")[2], file_stamp(source.path)
    else:
        names = (line.strip() for line in read_list(source.path))
        for name in dict.fromkeys(name for name in names if name):
            path = picture_path(root, name)
            # A request for the state of each URL would take as long as reading it.
            yield name, "" if is_url(path) else file_stamp(path)


def _pictures(files: Iterator[StampedName], passed: Counter[str]) -> Iterator[StampedName]:
    for name, stamp in files:
        if may_be_picture(name) or stamp.startswith(UNREADABLE):
            yield name, stamp
        else:
            passed[printable_name(name_ending(name))] += 1


def read_list(path: str) -> list[str]:
    """Return the lines of a list in UTF-8, or in UTF-16 with its byte order mark.

    Bytes that are no UTF-8 stay, as file names have them. **Raises** `BadRequest` for a file that
    is no text.
    """
    with closing(open_source(path)) as file:
        data = file.read()
    try:
        text = (
            data.decode("utf-16")
            if data.startswith(UTF_16)
            else data.decode("utf-8-sig", "surrogateescape")
        )
    except UnicodeError as error:
        raise BadRequest(
            f"{path} begins as UTF-16 and is none: save the list as UTF-8, one name a line."
        ) from error
    if "\0" in text:
        raise BadRequest(
            f"{path} is no list of pictures, one name a line (it holds bytes of zero): give a "
            "text file in UTF-8."
        )
    return text.split("\n")


def picture_path(folder: str, name: str) -> str:
    """Return the path of a picture of a list or folder; a list may name absolute paths and URLs."""
    return name if name.startswith("/") or is_url(name) else f"{folder}/{name}"


def picture_key(source: StatedSource, name: str) -> str:
    """Return the key of a picture of a folder or list."""
    return printable_name(source.prefix + name)


def printable_name(name: str) -> str:
    """Return a name as text, with bytes that are no UTF-8 written as escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
