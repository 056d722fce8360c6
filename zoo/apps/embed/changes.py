"""Comparison of the sources with the rows of a dataset: new, changed and missing pictures."""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import IO, TYPE_CHECKING

import numpy as np

from zoo.apps.embed.description import StatedSource
from zoo.apps.embed.items import Chunk, picture_key
from zoo.apps.embed.sources import StampedName, file_system, list_names, source_root

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

IDENTITY = ["source", "key"]
"""Columns that identify a picture."""

ROWS_AT_ONCE = 8192


def _hash(*texts: str) -> int:
    digest = blake2b("\0".join(texts).encode("utf-8", "surrogateescape"), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


class KnownRows:
    """Stamps of the rows of a dataset, as hashes: 17 bytes a row.

    Two pictures are only confused if both the hash of their identity and that of their stamp are
    equal, 128 bits together.
    """

    def __init__(self, table: LanceDataset, sources: Sequence[StatedSource]):
        self.folders = {source.path for source in sources if not source.is_archive}
        self.archives = defaultdict[str, Counter[str]](Counter)
        identities, stamps = list[int](), list[int]()
        for source, key, stamp, _ in _rows(table):
            if source in self.folders:
                identities.append(_hash(source, key))
                stamps.append(_hash(stamp))
            else:
                self.archives[source][stamp] += 1
        order = np.argsort(np.array(identities, np.uint64), kind="stable")
        self.identities = np.array(identities, np.uint64)[order]
        self.stamps = np.array(stamps, np.uint64)[order]
        self.is_listed = np.zeros(len(order), np.bool_)

    def _index(self, source: str, key: str) -> int | None:
        identity = np.uint64(_hash(source, key))
        index = int(np.searchsorted(self.identities, identity))
        found = index < len(self.identities) and self.identities[index] == identity
        return index if found else None

    def compare(self, source: str, key: str, stamp: str) -> bool | None:
        """Return whether a picture has the stamp of its row; None if it has no row.

        Its row is not missing from the sources.
        """
        index = self._index(source, key)
        if index is None:
            return None
        self.is_listed[index] = True
        return bool(self.stamps[index] == np.uint64(_hash(stamp)))

    def has_missing(self, archives: dict[str, str]) -> bool:
        """Return whether rows may be of pictures that are not in the sources any more.

        **Arguments:** `archives` are the stamps of the archives among the sources.
        """
        stale = ({*stamps} != {archives.get(path)} for path, stamps in self.archives.items())
        return not self.is_listed.all() or any(stale)

    def missing(
        self, table: LanceDataset, archives: dict[str, str]
    ) -> Iterator[tuple[str, str, bool]]:
        """Yield source and key of rows whose pictures are missing, and whether they are errors.

        Rows of an archive that this run has read have its new stamp.
        """
        for source, key, stamp, error in _rows(table):
            if source in self.folders:
                index = self._index(source, key)
                is_missing = index is not None and not self.is_listed[index]
            else:
                is_missing = archives.get(source) != stamp
            if is_missing:
                yield source, key, error is not None


def _rows(table: LanceDataset) -> Iterator[tuple[str, str, str, str | None]]:
    columns = [*IDENTITY, "stamp", "error"]
    for batch in table.to_batches(columns=columns, batch_size=ROWS_AT_ONCE):
        yield from zip(*(batch[name].to_pylist() for name in columns), strict=True)


def identity_table(pictures: Sequence[tuple[str, str]]) -> pa.Table:
    """Return sources and keys as a table."""
    import pyarrow as pa

    sources, keys = zip(*pictures, strict=True)
    return pa.table({"source": pa.array(sources, pa.string()), "key": pa.array(keys, pa.string())})


@dataclass
class Changes:
    """Pictures that a run has to embed, as chunks in a temporary file.

    `pictures` counts those of folders and lists, `new` those without a row, `passed` files that
    are no pictures by their suffix, and `archives` are the stamps of all archives.
    """

    file: IO[str]
    chunks: int = 0
    pictures: int = 0
    new: int = 0
    has_archives: bool = False
    passed: Counter[str] = field(default_factory=Counter)
    archives: dict[str, str] = field(default_factory=dict)

    def write(self, chunk: Chunk) -> None:
        """Append a chunk."""
        fields = vars(chunk) | {"source": chunk.source.model_dump()}
        self.file.write(json.dumps(fields) + "\n")
        self.chunks += 1

    def read(self) -> Iterator[Chunk]:
        """Yield the chunks."""
        self.file.seek(0)
        for line in self.file:
            fields = json.loads(line)
            names = tuple((name, stamp) for name, stamp in fields["names"])
            source = StatedSource.model_validate(fields["source"])
            yield Chunk(source, fields["root"], names, fields["has_rows"])


@contextmanager
def find_changes(
    sources: Sequence[StatedSource], known: KnownRows, size: int
) -> Generator[Changes]:
    """List the sources and yield what is new or changed, in chunks of at most `size` pictures."""
    with tempfile.TemporaryFile("w+", encoding="ascii") as file:
        changes = Changes(file)
        for source in sources:
            _list_changes(source, known, size, changes)
        yield changes


def _list_changes(source: StatedSource, known: KnownRows, size: int, changes: Changes) -> None:
    if source.is_archive:
        _compare_archive(source, known, changes)
        return
    root, names = source_root(source), list_names(source, changes.passed)
    changed = _changed_names(source, names, known, changes)
    while piece := list(islice(changed, size)):
        changes.pictures += len(piece)
        stamped = tuple(name for name, _ in piece)
        changes.write(Chunk(source, root, stamped, any(has_row for _, has_row in piece)))


def _compare_archive(source: StatedSource, known: KnownRows, changes: Changes) -> None:
    stamp = file_system(source.path).stamp(source.path)
    changes.archives[source.path] = stamp
    rows = known.archives.get(source.path)
    if rows is None or not rows[stamp]:
        changes.new += rows is None
        changes.has_archives = True
        changes.write(Chunk(source, "", ((source.path, stamp),), rows is not None))


def _changed_names(
    source: StatedSource, names: Iterator[StampedName], known: KnownRows, changes: Changes
) -> Iterator[tuple[StampedName, bool]]:
    """Yield the pictures that are new or changed, and whether they have a row."""
    for name, stamp in names:
        same = known.compare(source.path, picture_key(source, name), stamp)
        changes.new += same is None
        if not same:
            yield (name, stamp), same is not None
