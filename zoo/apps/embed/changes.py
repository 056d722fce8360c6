"""Comparison of the sources with the rows of a dataset: new, changed and missing pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from zoo.apps.embed.dataset import IDENTITY, quoted
from zoo.apps.embed.description import StatedSource
from zoo.apps.embed.items import Chunk
from zoo.apps.embed.sources import NO_TEXT, file_stamp, list_names, picture_key

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

ROWS_AT_ONCE = 8192
"""Pictures that are compared or listed together."""

DELETED_AT_ONCE = 1000
"""Pictures that one condition names."""


@dataclass
class PictureTable:
    """Identities and stamps of pictures, in Arrow's memory.

    The columns are `source` (an index into `paths`), `unit` (the key of a picture, or the stamp of
    the archive that it is in), `stamp`, and `readable` (the number of rows without an error).
    """

    paths: list[str]
    batches: list[pa.Table] = field(default_factory=list)

    def add(self, sources: pa.Array, units: pa.Array, stamps: pa.Array, readable: pa.Array) -> None:
        """Add pictures; those of one archive become one row.

        **Arguments:** `sources` are paths.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        self.paths += [path for path in pc.unique(sources).to_pylist() if path not in self.paths]
        columns = {"source": pc.index_in(sources, pa.array(self.paths)), "unit": units}
        table = pa.table(columns | {"stamp": stamps, "readable": readable})
        grouped = table.group_by(["source", "unit", "stamp"], use_threads=False)
        self.batches.append(grouped.aggregate([("readable", "sum")]))

    @property
    def table(self) -> pa.Table:
        """All pictures."""
        import pyarrow as pa

        columns = [("source", pa.int32()), ("unit", pa.string()), ("stamp", pa.string())]
        empty = pa.schema([*columns, ("readable_sum", pa.uint64())]).empty_table()
        return pa.concat_tables([empty, *self.batches], promote_options="permissive")

    def absent_from(self, other: PictureTable, *columns: str) -> pa.Table:
        """Return the pictures that differ from all of another table in these columns."""
        import pyarrow.compute as pc

        return self.table.filter(pc.invert(pc.is_in(self._texts(columns), other._texts(columns))))

    def _texts(self, columns: Sequence[str]) -> Any:
        """Return the values of columns as one text for each picture."""
        import pyarrow as pa
        import pyarrow.compute as pc

        values = [pc.cast(self.table[name], pa.string()) for name in columns]
        return pc.binary_join_element_wise(*values, "\0")


def known_pictures(table: LanceDataset, sources: Sequence[StatedSource]) -> PictureTable:
    """Return the pictures that have rows in a dataset."""
    import pyarrow as pa
    import pyarrow.compute as pc

    known = PictureTable([source.path for source in sources])
    folders = [source.path for source in sources if not source.is_archive]
    names = [*IDENTITY, "stamp", "error"]
    for batch in table.to_batches(columns=names, batch_size=ROWS_AT_ONCE):
        source, key, stamp, error = (batch[name] for name in names)
        is_single = pc.is_in(source, pa.array(folders, pa.string()))
        units = pc.if_else(is_single, key, stamp)
        known.add(source, units, stamp, pc.cast(pc.is_null(error), pa.uint64()))
    return known


def listed_pictures(sources: Sequence[StatedSource], passed: Counter[str]) -> PictureTable:
    """Return the pictures of the sources; files that are none are counted in `passed`."""
    import pyarrow as pa

    listed = PictureTable([source.path for source in sources])
    for source in sources:
        pictures = _stamped_keys(source, passed)
        while piece := list(islice(pictures, ROWS_AT_ONCE)):
            units, stamps = (pa.array(column) for column in zip(*piece, strict=True))
            paths = pa.array([source.path] * len(piece))
            listed.add(paths, units, stamps, pa.array([1] * len(piece), pa.uint64()))
    return listed


def _stamped_keys(source: StatedSource, passed: Counter[str]) -> Iterator[tuple[str, str]]:
    if source.is_archive:
        stamp = file_stamp(source.path)
        yield stamp, stamp
        return
    for name, stamp in list_names(source, passed):
        key = picture_key(source, name)
        yield key, stamp if key == source.prefix + name else NO_TEXT


class Changes:
    """Pictures of the sources, and those of them that a run has to embed."""

    def __init__(self, table: LanceDataset, sources: Sequence[StatedSource], size: int):
        self.sources, self.size, self.passed = sources, size, Counter[str]()
        self.known = known_pictures(table, sources)
        self.listed = listed_pictures(sources, self.passed)
        self.changed = self.listed.absent_from(self.known, "source", "unit", "stamp")
        self.has_new = len(self.listed.absent_from(self.known, "source", "unit")) > 0
        self.has_missing = len(self.known.absent_from(self.listed, "source", "unit")) > 0

    @property
    def chunk_count(self) -> int:
        """The number of chunks."""
        counts = self.changed["source"].value_counts().field("counts").to_pylist()
        return sum(-(-count // self.size) for count in counts)

    @property
    def picture_count(self) -> int | None:
        """The number of pictures of these chunks; None if there are archives among them."""
        changed = (self.sources[number] for number in self.changed["source"].unique().to_pylist())
        return None if any(source.is_archive for source in changed) else len(self.changed)

    def chunks(self) -> Iterator[Chunk]:
        """Yield what has to be embedded, in chunks of at most `size` pictures."""
        import pyarrow.compute as pc

        known = {*self.known.table["source"].unique().to_pylist()}
        for number, source in enumerate(self.sources):
            pictures = self.changed.filter(pc.equal(self.changed["source"], number))
            for start in range(0, len(pictures), self.size):
                rows = pictures.slice(start, self.size).to_pylist()
                keys = ((row["unit"].removeprefix(source.prefix), row["stamp"]) for row in rows)
                names = ((source.path, rows[0]["stamp"]),) if source.is_archive else tuple(keys)
                yield Chunk(source, names, has_rows=number in known)

    def missing(self, table: LanceDataset) -> tuple[int, list[str]]:
        """Return the number of rows whose pictures are missing from the sources, without those of
        errors, and conditions in SQL that together select all of them.

        **Arguments:** `table` is the dataset after all changed pictures were embedded.
        """
        known = known_pictures(table, self.sources)
        rows = known.absent_from(self.listed, "source", "unit", "stamp")
        folders = {source.path for source in self.sources if not source.is_archive}
        conditions = list[str]()
        for start in range(0, len(rows), DELETED_AT_ONCE):
            by_source = dict[str, list[str]]()
            for row in rows.slice(start, DELETED_AT_ONCE).to_pylist():
                by_source.setdefault(known.paths[row["source"]], []).append(quoted(row["unit"]))
            for path, units in by_source.items():
                column = "key" if path in folders else "stamp"
                conditions.append(f"source = {quoted(path)} and {column} in ({', '.join(units)})")
        return sum(rows["readable_sum"].to_pylist()), conditions
