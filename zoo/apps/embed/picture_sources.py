"""Where pictures are: folders, lists, patterns, tar files and Parquet, here or behind a URL.

A source is cut into shards in an order that follows from its names alone: pictures of a folder or a
list by their number, files that hold pictures one by one.
"""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO, cast

from weights.opening import open_regular
from zoo.apps.embed.about import StatedSource
from zoo.apps.embed.libraries import need_library
from zoo.apps.embed.list_lines import list_lines
from zoo.common.errors import BadRequest
from zoo.images.pictures import may_be_picture, name_ending

HOLDERS = {".tar": "tar", ".tgz": "tar", ".gz": "tar", ".parquet": "parquet"}
"""How files that hold many pictures end."""

LIST = ".txt"

GONE = "gone"
"""The kind of a shard of rows whose pictures are not there any more."""

NO_PICTURE = "!"
"""How the stamp of what is in a folder and is no file begins; a reason follows."""

LINKED = NO_PICTURE + "is a link to a folder, which is not followed: name that folder as a source."

TIMES = "mtime", "LastModified", "last_modified", "updated", "ETag", "etag", "created"
"""How file systems of fsspec call what changes with a file."""

Stamped = tuple[str, str]  # the name of a picture's file, and its stamp


@dataclass(frozen=True)
class Shard:
    """A piece of the work: some pictures of a folder or a list, or a file that holds many.

    A stamp is the size and time of a picture's file, or of the file that holds many, as far as its
    file system says them: where these are the same, so is the picture.
    """

    index: int
    kind: str
    place: str
    prefix: str
    names: tuple[str, ...]
    stamps: tuple[str, ...]


def state_sources(texts: Sequence[str]) -> tuple[StatedSource, ...]:
    """Sources that were named, one by one, with braces and patterns expanded. **Raises**
    `BadRequest`."""
    if not texts:
        raise BadRequest("got no source of pictures: name a folder, a list, tar files or Parquet.")
    stated = [
        source for text in texts for each in expand_braces(str(text)) for source in _sources(each)
    ]
    folders = [each for each in stated if each.kind == "folder"]
    if len(folders) < 2:
        return tuple(stated)
    names = [each.place.rstrip("/").rpartition("/")[2] for each in folders]
    if len(set(names)) < len(names):
        raise BadRequest(
            f"two of the folders are called {max(names, key=names.count)}, so that pictures of "
            "both could have one key: name the folder above them."
        )
    prefixes = {each.place: f"{name}/" for each, name in zip(folders, names, strict=True)}
    return tuple(
        each.model_copy(update={"prefix": prefixes.get(each.place, "")}) for each in stated
    )


def _sources(text: str) -> Iterator[StatedSource]:
    """What one name or pattern stands for. **Raises** `BadRequest`."""
    if printable_name(text) != text:
        raise BadRequest(f"the name {printable_name(text)} is no UTF-8: give it another.")
    system = file_system(text)
    place = text if system.is_remote else os.path.abspath(text)
    if system.is_folder(place):
        yield StatedSource(kind="folder", place=place)
        return
    if not re.search(r"[*?\[]", place) or system.is_file(place):
        if not system.is_file(place):
            raise BadRequest(f"{text} is not there: name a folder, a list, tar files or Parquet.")
        yield _file_source(place)
        return
    matches = system.matches(place)
    if not matches:
        raise BadRequest(f"{text} matches nothing: name what is there.")
    held = [each for each in matches if name_ending(each) in (*HOLDERS, LIST)]
    if len(held) < len(matches):
        yield StatedSource(kind="list", place=place)
    yield from map(_file_source, held)


def _file_source(place: str) -> StatedSource:
    kind = HOLDERS.get(name_ending(place), "list")
    return StatedSource(kind=cast(Any, kind), place=place)


def expand_braces(text: str) -> list[str]:
    """`a-{00..03}.tar` and `{a,b}.tar` as all that they stand for."""
    match = re.search(r"\{(?:(\d+)\.\.(\d+)|([^{}]*,[^{}]*))\}", text)
    if match is None:
        return [text]
    if match[1] is None:
        inner = match[3].split(",")
    else:
        inner = [f"{i:0{len(match[1])}d}" for i in range(int(match[1]), int(match[2]) + 1)]
    before, after = text[: match.start()], text[match.end() :]
    return [whole for each in inner for whole in expand_braces(before + each + after)]


class FileSystem:
    """Files of this machine."""

    is_remote = False

    def is_folder(self, place: str) -> bool:
        """Whether a folder is there."""
        return os.path.isdir(place)

    def is_file(self, place: str) -> bool:
        """Whether something else is there."""
        return os.path.exists(place) and not os.path.isdir(place)

    def matches(self, pattern: str) -> list[str]:
        """Paths that a pattern stands for, sorted."""
        return sorted(glob.iglob(pattern, recursive=True))

    def stamp(self, place: str) -> str:
        """The size and time of a file; empty where it is not there."""
        try:
            return _local_stamp(os.stat(place))
        except OSError:
            return ""

    def below(self, folder: str) -> Iterator[Stamped]:
        """Names of the files below a folder, relative to it, folder by folder, in order."""
        return _walk(folder, "")

    def open(self, place: str) -> BinaryIO:
        """A file to read. **Raises** `OSError`."""
        return open_regular(place)


class RemoteFiles(FileSystem):
    """Files behind a URL, as fsspec reads them."""

    is_remote = True

    def __init__(self, url: str):
        import fsspec

        try:
            self.system, _ = fsspec.url_to_fs(url)
        except (ValueError, ImportError) as error:
            raise BadRequest(f"{url} is no URL that can be read ({error}).") from error

    def is_folder(self, place: str) -> bool:
        return bool(self.system.isdir(place))

    def is_file(self, place: str) -> bool:
        return bool(self.system.isfile(place))

    def matches(self, pattern: str) -> list[str]:
        return sorted(map(self.system.unstrip_protocol, self.system.glob(pattern)))

    def stamp(self, place: str) -> str:
        try:
            return _remote_stamp(self.system.info(place))
        except OSError:
            return ""

    def below(self, folder: str) -> Iterator[Stamped]:
        root = self.system.unstrip_protocol(folder).rstrip("/") + "/"
        files = self.system.find(folder, detail=True)
        stamps = {self.system.unstrip_protocol(each): _remote_stamp(files[each]) for each in files}
        for each in sorted(stamps):
            yield each.removeprefix(root), stamps[each]

    def open(self, place: str) -> BinaryIO:
        return cast(BinaryIO, self.system.open(place, "rb"))


def file_system(place: str) -> FileSystem:
    """File system that reads a path or a URL. **Raises** `BadRequest`, or `MissingLibrary`."""
    if "://" not in place:
        return FileSystem()
    need_library("fsspec")
    return RemoteFiles(place)


def _local_stamp(status: os.stat_result) -> str:
    # What could not be read for want of a right can be read with another mode.
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_mode:o}"


def _remote_stamp(info: Mapping[str, Any]) -> str:
    times = (info[name] for name in TIMES if info.get(name) is not None)
    return f"{info.get('size', '')}-{next(times, '')}"


def _walk(folder: str, prefix: str) -> Iterator[Stamped]:
    try:
        with os.scandir(os.path.join(folder, prefix)) as entries:
            # A folder sorts among the files as its name with a slash does, so that whole paths do.
            by_name = {
                entry.name + "/" * entry.is_dir(follow_symlinks=False): entry
                for entry in entries
                if not entry.name.startswith(".")
            }
    except OSError as error:
        yield prefix.rstrip("/"), f"{NO_PICTURE}cannot be opened ({error.strerror})."
        return
    for name in sorted(by_name):
        if name.endswith("/"):
            yield from _walk(folder, prefix + name)
        else:
            yield prefix + name, _entry_stamp(by_name[name])


def _entry_stamp(entry: os.DirEntry[str]) -> str:
    try:
        return LINKED if entry.is_dir() else _local_stamp(entry.stat())
    except OSError:
        return ""


def cut_shards(
    sources: Sequence[StatedSource], shard: int, passed: Counter[str]
) -> Iterator[Shard]:
    """All shards of the sources, numbered from 0. Files that are no pictures by their names are
    counted in `passed`, by how they end."""
    index = 0
    for source in sources:
        if source.kind in HOLDERS.values():
            stamp = file_system(source.place).stamp(source.place)
            yield Shard(index, source.kind, source.place, source.prefix, (), (stamp,))
            index += 1
            continue
        place, named = _named(source, passed)
        while piece := tuple(islice(named, shard)):
            names, stamps = zip(*piece, strict=True)
            yield Shard(index, source.kind, place, source.prefix, names, stamps)
            index += 1


def _named(source: StatedSource, passed: Counter[str]) -> tuple[str, Iterator[Stamped]]:
    """The folder that names of pictures are below, and the names."""
    system = file_system(source.place)
    if source.kind == "folder":
        return source.place, _pictures(system.below(source.place), passed)
    folder = source.place.rpartition("/")[0]
    if name_ending(source.place) == LIST:
        return folder, _lines(system, source.place)
    if system.is_file(source.place):
        name = source.place.rpartition("/")[2]
        return folder, iter([(name, system.stamp(source.place))])
    root = re.split(r"[*?\[]", source.place)[0].rpartition("/")[0]
    files = (
        (each.removeprefix(f"{root}/"), system.stamp(each))
        for each in system.matches(source.place)
        if name_ending(each) not in (*HOLDERS, LIST) and system.is_file(each)
    )
    return root, _pictures(files, passed)


def _pictures(files: Iterator[Stamped], passed: Counter[str]) -> Iterator[Stamped]:
    for name, stamp in files:
        if may_be_picture(name) or stamp.startswith(NO_PICTURE):
            yield name, stamp
        else:
            passed[printable_name(name_ending(name))] += 1


def _lines(system: FileSystem, place: str) -> Iterator[Stamped]:
    folder = place.rpartition("/")[0]
    with closing(system.open(place)) as file:
        for line in list_lines(file, place):
            if name := line.strip():
                # To ask what is behind each URL would take as long as to read it.
                remote = system.is_remote or "://" in name
                yield name, "" if remote else system.stamp(picture_place(folder, name))


def picture_place(folder: str, name: str) -> str:
    """The place of a picture that a list or a folder names; a list may name any."""
    return name if name.startswith("/") or "://" in name else f"{folder}/{name}"


def held_origin(place: str, key: str) -> str:
    """Where a picture is that a file holds."""
    return f"{place}#{key}"


def printable_name(name: str) -> str:
    """A name as a text, in which bytes that are no UTF-8 are written out."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
