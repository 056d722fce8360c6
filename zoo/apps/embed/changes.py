"""Comparison of the sources with the rows of a dataset: new, changed and missing pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset

from zoo.apps.embed.dataset import quoted
from zoo.apps.embed.description import StatedSource
from zoo.apps.embed.items import Chunk
from zoo.apps.embed.sources import NO_TEXT, StampedName, file_stamp, list_names, picture_key

LISTED_AT_ONCE = 8192  # the number of pictures that are listed before they move to Arrow's memory
DELETED_AT_ONCE = 1000  # the largest number of pictures in an SQL condition

UNIT = ["source", "unit"]
STAMPED = [*UNIT, "stamp"]
"""Columns of the tables of pictures: the path of the source, the key of a picture or, in an
archive, the stamp of the archive, and the stamp. An archive with one stamp is one row."""

KNOWN_PICTURES = """
select source, case when source in ({folders}) then key else stamp end as unit, stamp,
    count(*) - count(error) as readable
from dataset group by 1, 2, 3
"""
"""Query for the pictures that have rows, and the number of their rows without an error."""


class Changes:
    """The pictures of the sources, compared with the rows of a dataset before a run.

    - `size`: the largest number of pictures of a chunk.
    - `changed`: a table of the pictures whose stamp differs from that of their row, or that have
      no row.
    - `has_new`, `has_missing`: whether there are pictures without rows, and rows without pictures.
    - `passed`: the number of files that are no pictures, by the ending of their names.
    """

    def __init__(self, table: LanceDataset, sources: Sequence[StatedSource], size: int):
        self.sources, self.size, self.passed = sources, size, Counter[str]()
        known = _read_known(table, sources)
        self.listed = _list_pictures(sources, self.passed)
        self.changed = _subtract(self.listed, known, STAMPED)
        self.has_new = len(_subtract(self.listed, known, UNIT)) > 0
        self.has_missing = len(_subtract(known, self.listed, UNIT)) > 0
        self.known_sources = {*known["source"].unique().to_pylist()}

    @property
    def chunk_count(self) -> int:
        """The number of chunks."""
        counts = self.changed["source"].value_counts().field("counts").to_pylist()
        return sum(-(-count // self.size) for count in counts)

    @property
    def picture_count(self) -> int | None:
        """The number of changed pictures; None if there are archives among them."""
        changed = {*self.changed["source"].unique().to_pylist()}
        has_archives = any(source.is_archive and source.path in changed for source in self.sources)
        return None if has_archives else len(self.changed)

    def chunks(self) -> Iterator[Chunk]:
        """Yield the changed pictures in chunks of at most `size` pictures, or of one archive."""
        for source in self.sources:
            pictures = self.changed.filter(pc.equal(self.changed["source"], source.path))
            for start in range(0, len(pictures), self.size):
                rows = pictures.slice(start, self.size).to_pylist()
                names = tuple(
                    (row["unit"].removeprefix(source.prefix), row["stamp"]) for row in rows
                )
                if source.is_archive:
                    names = ((source.path, rows[0]["stamp"]),)
                yield Chunk(source, names, has_rows=source.path in self.known_sources)

    def find_missing(self, table: LanceDataset) -> tuple[int, list[str]]:
        """Return the number of rows whose pictures are not in the sources, and SQL conditions.

        Rows with an error are not counted. Each condition selects some of the missing rows, with
        and without errors; together they select all.

        **Arguments:** `table` is the dataset after all changed pictures were embedded.
        """
        missing = _subtract(_read_known(table, self.sources), self.listed, STAMPED)
        folders = {source.path for source in self.sources if not source.is_archive}
        conditions = list[str]()
        for start in range(0, len(missing), DELETED_AT_ONCE):
            part = missing.slice(start, DELETED_AT_ONCE)
            for group in part.group_by("source").aggregate([("unit", "list")]).to_pylist():
                column = "key" if group["source"] in folders else "stamp"
                units = ", ".join(map(quoted, group["unit_list"]))
                conditions.append(f"source = {quoted(group['source'])} and {column} in ({units})")
        return pc.sum(missing["readable"]).as_py() or 0, conditions


def _read_known(table: LanceDataset, sources: Sequence[StatedSource]) -> pa.Table:
    """Return the pictures that have rows, with the number of their rows without an error."""
    folders = [quoted(source.path) for source in sources if not source.is_archive]
    query = KNOWN_PICTURES.format(folders=", ".join(folders or ["null"]))
    batches = table.sql(query).build().to_batch_records()
    schema = pa.schema([*((name, pa.string()) for name in STAMPED), ("readable", pa.int64())])
    return pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()


def _list_pictures(sources: Sequence[StatedSource], passed: Counter[str]) -> pa.Table:
    """Return the pictures of the sources; the endings of other files are counted in `passed`."""
    schema = pa.schema([(name, pa.string()) for name in STAMPED])
    batches = []
    for source in sources:
        pictures = _list_units(source, passed)
        while part := list(islice(pictures, LISTED_AT_ONCE)):
            units, stamps = zip(*part, strict=True)
            columns = [[source.path] * len(part), units, stamps]
            batches.append(pa.record_batch(list(map(pa.array, columns)), schema=schema))
    return pa.Table.from_batches(batches, schema)


def _list_units(source: StatedSource, passed: Counter[str]) -> Iterator[StampedName]:
    """Yield the key and stamp of each picture of a source, or twice the stamp of an archive."""
    if source.is_archive:
        stamp = file_stamp(source.path)
        yield stamp, stamp
        return
    for name, stamp in list_names(source, passed):
        key = picture_key(source, name)
        yield key, stamp if key == source.prefix + name else NO_TEXT


def _subtract(pictures: pa.Table, others: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return the pictures that differ from all others in at least one of the columns."""

    def join_columns(table: pa.Table) -> pa.ChunkedArray:
        return pc.binary_join_element_wise(*(table[name] for name in columns), "\0")

    return pictures.filter(pc.invert(pc.is_in(join_columns(pictures), join_columns(others))))
