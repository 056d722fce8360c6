"""Sources of pictures: folders, lists, patterns, tar files and Parquet files, local or at a URL."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, BinaryIO, cast

import fsspec

from weights.opening import as_utf8, open_regular
from zoo.apps.embed.description import Kind, StatedSource
from zoo.common.errors import BadRequest
from zoo.images.pictures import may_be_picture, name_ending

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
