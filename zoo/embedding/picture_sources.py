"""Where pictures are: folders, lists, patterns, tar files and Parquet, here or behind a URL.

A source is cut into shards in an order that follows from its names alone: pictures of a folder or a
list by their number, files that hold pictures one by one.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from weights.opening import open_regular
from zoo.embedding.about import StatedSource
from zoo.embedding.libraries import need_library
from zoo.errors import BadRequest
from zoo.images.pictures import extensions

HOLDERS = {".tar": "tar", ".tgz": "tar", ".gz": "tar", ".parquet": "parquet"}
"""How files that hold many pictures end."""

LIST = ".txt"


@dataclass(frozen=True)
class Shard:
    """A piece of the work: some pictures of a folder or a list, or a file that holds many."""

    index: int
    kind: str
    place: str
    prefix: str
    names: tuple[str, ...]

    @property
    def record(self) -> dict[str, Any]:
        """What is kept of it in the list of shards."""
        return vars(self)


def state_sources(given: Sequence[str]) -> tuple[StatedSource, ...]:
    """What was named, one by one, with braces and patterns expanded. **Raises** `BadRequest`."""
    if not given:
        raise BadRequest("got no source of pictures: name a folder, a list, tar files or Parquet.")
    found = [
        source for text in given for each in expand_braces(str(text)) for source in _sources(each)
    ]
    folders = [each for each in found if each.kind == "folder"]
    if len(folders) < 2:
        return tuple(found)
    names = [each.place.rstrip("/").rpartition("/")[2] for each in folders]
    if len(set(names)) < len(names):
        raise BadRequest(
            f"two of the folders are called {max(names, key=names.count)}, so that pictures of "
            "both could have one key: name the folder above them."
        )
    prefixes = {each.place: f"{name}/" for each, name in zip(folders, names, strict=True)}
    return tuple(each.model_copy(update={"prefix": prefixes.get(each.place, "")}) for each in found)


def _sources(text: str) -> Iterator[StatedSource]:
    """What one name or pattern stands for. **Raises** `BadRequest`."""
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
    known = extensions()
    pictures = [each for each in matches if Path(each).suffix.lower() in known]
    if pictures:
        yield StatedSource(kind="list", place=place)
    for each in matches:
        if Path(each).suffix in (*HOLDERS, LIST):
            yield _file_source(each)


def _file_source(place: str) -> StatedSource:
    kind = HOLDERS.get(Path(place).suffix, "list")
    return StatedSource(kind=cast(Any, kind), place=place)


def expand_braces(text: str) -> list[str]:
    """`a-{00..03}.tar` and `{a,b}.tar` as all that they stand for."""
    found = re.search(r"\{(?:(\d+)\.\.(\d+)|([^{}]*,[^{}]*))\}", text)
    if found is None:
        return [text]
    if found[1] is None:
        inner = found[3].split(",")
    else:
        inner = [f"{i:0{len(found[1])}d}" for i in range(int(found[1]), int(found[2]) + 1)]
    before, after = text[: found.start()], text[found.end() :]
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
        """What a pattern stands for, sorted."""
        return sorted(glob.iglob(pattern, recursive=True))

    def below(self, folder: str) -> Iterator[str]:
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

    def below(self, folder: str) -> Iterator[str]:
        root = self.system.unstrip_protocol(folder).rstrip("/") + "/"
        for each in sorted(map(self.system.unstrip_protocol, self.system.find(folder))):
            yield each.removeprefix(root)

    def open(self, place: str) -> BinaryIO:
        return cast(BinaryIO, self.system.open(place, "rb"))


def file_system(place: str) -> FileSystem:
    """What reads a path or a URL. **Raises** `BadRequest`, or `MissingLibrary`."""
    if "://" not in place:
        return FileSystem()
    need_library("fsspec")
    return RemoteFiles(place)


def _walk(folder: str, prefix: str) -> Iterator[str]:
    with os.scandir(os.path.join(folder, prefix)) as entries:
        # A folder sorts among the files as its name with a slash does, so that whole paths sort.
        found = sorted(
            (entry.name + "/" * entry.is_dir(follow_symlinks=False))
            for entry in entries
            if not entry.name.startswith(".")
        )
    for name in found:
        if name.endswith("/"):
            yield from _walk(folder, prefix + name)
        else:
            yield prefix + name


def cut_shards(sources: Sequence[StatedSource], shard: int) -> Iterator[Shard]:
    """All shards of the sources, numbered from 0."""
    index = 0
    for source in sources:
        if source.kind in HOLDERS.values():
            yield Shard(index, source.kind, source.place, source.prefix, ())
            index += 1
            continue
        place, names = _named(source)
        while piece := tuple(islice(names, shard)):
            yield Shard(index, source.kind, place, source.prefix, piece)
            index += 1


def _named(source: StatedSource) -> tuple[str, Iterator[str]]:
    """The folder that names of pictures are below, and the names."""
    system, known = file_system(source.place), extensions()
    if source.kind == "folder":
        below = system.below(source.place)
        return source.place, (each for each in below if Path(each).suffix.lower() in known)
    folder = source.place.rpartition("/")[0]
    if Path(source.place).suffix.lower() == LIST:
        return folder, _lines(system, source.place)
    if Path(source.place).suffix.lower() in known and system.is_file(source.place):
        return folder, iter([source.place.rpartition("/")[2]])
    root = re.split(r"[*?\[]", source.place)[0].rpartition("/")[0]
    found = (each for each in system.matches(source.place) if Path(each).suffix.lower() in known)
    return root, (each.removeprefix(f"{root}/") for each in found)


def _lines(system: FileSystem, place: str) -> Iterator[str]:
    with closing(system.open(place)) as file:
        for line in file:
            if name := os.fsdecode(line).strip():
                yield name


def picture_place(folder: str, name: str) -> str:
    """The place of a picture that a list or a folder names; a list may name any."""
    return name if name.startswith("/") or "://" in name else f"{folder}/{name}"
