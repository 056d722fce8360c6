"""Comparison of the sources with the rows of a dataset: new, changed and missing pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset

from zoo.apps.embed.dataset import StatedSource, quoted
from zoo.apps.embed.sources import NO_TEXT, Chunk, StampedName, file_stamp, list_names, picture_key

LISTED_AT_ONCE = 8192  # the number of pictures that are listed before they move to Arrow's memory
DELETED_AT_ONCE = 1000  # the largest number of pictures in an SQL condition

UNIT = ["source", "unit"]
STAMPED = [*UNIT, "stamp"]
"""Columns of the tables of pictures: the index of the source in `Changes.paths`, the key of a
picture or, in an archive, the stamp of the archive, and the stamp. An archive is one row."""

KNOWN_PICTURES = """
select source, case when source in ({folders}) then key else stamp end as unit, stamp,
    count(*) - count(error) as readable
from dataset group by 1, 2, 3
"""
"""Query for the pictures that have rows, and the number of their rows without an error."""


class Changes:
    """The pictures of the sources, compared with the rows of a dataset before a run.

    The stamp of a picture is the size, time and mode of its file. All pictures of an archive have
    the stamp of the archive, and are compared as one.

    - `size`: the largest number of pictures of a chunk.
    - `changed`: a table (columns `STAMPED`) of the pictures whose stamp differs from that of their
      row, or that have no row.
    - `has_new`, `has_missing`: whether there are pictures without rows, and rows without pictures.
    - `skipped_files`: the number of files that are no pictures, by the ending of their names.
    """

    def __init__(self, table: LanceDataset, sources: Sequence[StatedSource], size: int):
        self.sources, self.size, self.skipped_files = sources, size, Counter[str]()
        self.paths = [source.path for source in sources]
        known = self._read_known(table)
        self.listed = self._list_pictures()
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
        changed = (self.sources[index] for index in self.changed["source"].unique().to_pylist())
        return None if any(source.is_archive for source in changed) else len(self.changed)

    def chunks(self) -> Iterator[Chunk]:
        """Yield the changed pictures in chunks of at most `size` pictures, or of one archive."""
        for index, source in enumerate(self.sources):
            pictures = self.changed.filter(pc.equal(self.changed["source"], index))
            for start in range(0, len(pictures), self.size):
                rows = pictures.slice(start, self.size).to_pylist()
                names = tuple(
                    (row["unit"].removeprefix(source.prefix), row["stamp"]) for row in rows
                )
                if source.is_archive:
                    names = ((source.path, rows[0]["stamp"]),)
                yield Chunk(source, names, has_rows=index in self.known_sources)

    def find_missing(self, table: LanceDataset) -> tuple[int, list[str]]:
        """Return the number of rows whose pictures are not in the sources, and SQL conditions.

        Rows with an error are not counted. Each condition selects some of the missing rows, with
        and without errors; together they select all.

        **Arguments:** `table` is the dataset after all changed pictures were embedded.
        """
        missing = _subtract(self._read_known(table), self.listed, STAMPED)
        folders = {source.path for source in self.sources if not source.is_archive}
        conditions = list[str]()
        for start in range(0, len(missing), DELETED_AT_ONCE):
            part = missing.slice(start, DELETED_AT_ONCE)
            for group in part.group_by("source").aggregate([("unit", "list")]).to_pylist():
                path, units = self.paths[group["source"]], map(quoted, group["unit_list"])
                column = "key" if path in folders else "stamp"
                conditions.append(f"source = {quoted(path)} and {column} in ({', '.join(units)})")
        return pc.sum(missing["readable"]).as_py() or 0, conditions

    def _read_known(self, table: LanceDataset) -> pa.Table:
        """Return a table of the pictures that have rows: `STAMPED`, and `readable`, the number of
        their rows without an error.

        Paths of archives that are no sources any more are appended to `self.paths`.
        """
        folders = [quoted(source.path) for source in self.sources if not source.is_archive]
        query = KNOWN_PICTURES.format(folders=", ".join(folders or ["null"]))
        batches = table.sql(query).build().to_batch_records()
        schema = pa.schema([*((name, pa.string()) for name in STAMPED), ("readable", pa.int64())])
        known = pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()
        paths = known["source"].unique().to_pylist()
        self.paths += [path for path in paths if path not in self.paths]
        return known.set_column(0, "source", pc.index_in(known["source"], pa.array(self.paths)))

    def _list_pictures(self) -> pa.Table:
        """Return a table of the pictures of the sources, and count other files in
        `skipped_files`."""
        schema = pa.schema([("source", pa.int32()), ("unit", pa.string()), ("stamp", pa.string())])
        batches = []
        for index, source in enumerate(self.sources):
            pictures = _list_units(source, self.skipped_files)
            while part := list(islice(pictures, LISTED_AT_ONCE)):
                units, stamps = map(pa.array, zip(*part, strict=True))
                indices = pa.array([index] * len(part), pa.int32())
                batches.append(pa.record_batch([indices, units, stamps], schema=schema))
        return pa.Table.from_batches(batches, schema)


def _list_units(source: StatedSource, skipped_files: Counter[str]) -> Iterator[StampedName]:
    """Yield the key and stamp of each picture of a source. An archive yields (stamp, stamp).

    The stamp of a picture whose name is no UTF-8 is `NO_TEXT`. Other files are counted in
    `skipped_files`.
    """
    if source.is_archive:
        stamp = file_stamp(source.path)
        yield stamp, stamp
        return
    for name, stamp in list_names(source, skipped_files):
        key = picture_key(source, name)
        yield key, stamp if key == source.prefix + name else NO_TEXT


def _subtract(pictures: pa.Table, others: pa.Table, columns: list[str]) -> pa.Table:
    """Return the rows of `pictures` that are not in `others`, in order.

    Rows are compared by these columns. Null is not equal to null.
    """
    return pictures.join(others.select(columns), columns, join_type="left anti", use_threads=False)
