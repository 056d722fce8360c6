"""Dataset of vectors that is opened for searching."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weights.parameters import parameter
from zoo.apps.embed.dataset import prepare_lance, readable
from zoo.apps.embed.description import Description, StatedNetwork, read_description
from zoo.apps.embed.embed_call import VECTOR
from zoo.common.errors import BadFile, BadRequest, first_line
from zoo.images.pixel_values import Float32

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

Rows = NDArray[np.int64]
"""Offsets of rows in a dataset."""

ROWS_AT_ONCE = 2048
"""Rows that are read at once: of 1,024 numbers they take 8 MB in float32."""

REFINED = 10
"""Candidates of an index that are compared exactly, per row that is asked for."""

KEY, THUMBNAIL = "key", "thumbnail"
OFFSET = "_rowoffset"
"""Lance's name of a row's offset."""


class VectorBlock(NamedTuple):
    """Offsets of rows `[n]`, in order, and their vectors `[n, dim]` at length 1."""

    rows: Rows
    vectors: Float32


class Nearest(NamedTuple):
    """Offsets `[count]` of the rows nearest to a query, best first, and their cosines."""

    rows: Rows
    cosines: Float32


@dataclass(frozen=True)
class VectorTable:
    """Dataset of which one column of vectors is compared, and the model of that column."""

    path: Path
    about: Description
    source: LanceDataset
    network: StatedNetwork

    @property
    def column(self) -> str:
        """The column of the vectors."""
        return self.network.column

    @cached_property
    def count(self) -> int:
        """The number of rows that have a vector."""
        return int(self.source.count_rows(f"{self.column} is not null"))

    @cached_property
    def all_rows(self) -> int:
        """The number of rows, with those of pictures that could not be read."""
        return int(self.source.count_rows())

    @property
    def dim(self) -> int:
        """The numbers of a vector."""
        return self.network.dim

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.source.schema.names)

    @property
    def plain(self) -> list[str]:
        """The columns of numbers and texts, which a condition can name."""
        import pyarrow.types as kinds

        return [
            field.name
            for field in self.source.schema
            if not (kinds.is_nested(field.type) or kinds.is_binary(field.type))
        ]

    def blocks(self, condition: str | None = None) -> Iterator[VectorBlock]:
        """Yield the vectors of all rows, or of those that a condition in SQL is true of.

        **Raises** `BadFile`, or `BadRequest` for something that is no condition.
        """
        wanted = f"{self.column} is not null"
        if condition is not None:
            wanted = f"({condition}) and {wanted}"
        with usable_condition(self, condition):
            for batch in self.source.to_batches(
                columns=[self.column, OFFSET], filter=wanted, batch_size=ROWS_AT_ONCE
            ):
                rows = batch.column(1).to_numpy().astype(np.int64)
                yield VectorBlock(rows, unit_rows(_vectors(batch.column(0), self)))

    def vectors(self, rows: Sequence[int] | Rows) -> Float32:
        """Return the vectors of rows `[n, dim]`, at length 1. **Raises** `BadFile`."""
        with readable(self.path):
            taken = self.source.take(list(map(int, rows)), columns=[self.column])
            parts = [_vectors(chunk, self) for chunk in taken.column(0).chunks]
        return unit_rows(np.concatenate(parts)) if parts else np.zeros((0, self.dim), np.float32)

    def nearest(
        self, query: Float32, count: int, probes: int | None = None, where: str | None = None
    ) -> Nearest:
        """Return the nearest rows, with cosines that are computed from the rows' own vectors.

        **Arguments:** `query` `[dim]` at length 1; `probes` is the number of partitions of the
        index that are searched, None to compare every row; `where` is a condition in SQL. Rows that
        the index does not have yet are compared one by one. **Raises** `BadFile`, or `BadRequest`
        for something that is no condition.
        """
        options = {"column": self.column, "q": query, "k": count, "metric": "cosine"}
        options["use_index"] = probes is not None
        if probes is not None:
            options |= {"minimum_nprobes": probes, "refine_factor": REFINED}
        with usable_condition(self, where):
            found = self.source.to_table(
                columns=[OFFSET, "_distance"], nearest=options, filter=where, prefilter=True
            )
        rows = found.column(0).to_numpy().astype(np.int64)
        cosines = self.vectors(rows) @ query
        order = np.argsort(-cosines, kind="stable")
        return Nearest(rows[order], cosines[order])

    def take(self, rows: Sequence[int] | Rows, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Return columns of rows, without those that the dataset lacks."""
        names = [name for name in columns if name in self.columns]
        with readable(self.path):
            table = self.source.take(list(map(int, rows)), columns=names)
            records: list[dict[str, Any]] = table.to_pylist()
            return records

    def row_of(self, key: str) -> int:
        """Return the first row that has a key and a vector. **Raises** `BadRequest`."""
        quoted = key.replace("'", "''")
        condition = f"{KEY} = '{quoted}' and {self.column} is not null"
        with readable(self.path):
            found = self.source.to_table(columns=[OFFSET], filter=condition, limit=1)
        if not len(found):
            raise BadRequest(f"{self.path} has no row with the key {key!r}: name one that it has.")
        return int(found.column(0)[0].as_py())


def unit_rows(vectors: Float32) -> Float32:
    """Scale vectors to length 1, in place; a vector of zeros stays."""
    vectors /= np.maximum(np.sqrt(np.einsum("ij,ij->i", vectors, vectors)), 1e-12)[:, None]
    return vectors


def _vectors(column: pa.Array, table: VectorTable) -> Float32:
    """Return a column of lists as `[n, dim]`."""
    values = column.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(-1, table.dim).astype(np.float32)


def open_vectors(path: Path, column: str = VECTOR) -> VectorTable:
    """Open a dataset to compare one of its columns of vectors.

    **Raises** `BadFile` for something else, `BadRequest` if it has no such column, and
    `MissingLibrary` if Lance is not installed.
    """
    prepare_lance()
    import lance

    if not path.is_dir():
        raise BadFile(f"{path} is no dataset of `zoo embed`: make one with `zoo embed … --out`.")
    with readable(path):
        source = lance.dataset(str(path))
        about = read_description(path, source.schema.metadata)
        networks = {network.column: network for network in about.networks}
        if column not in networks:
            named = ", ".join(networks)
            raise BadRequest(f"{path} has no vectors in {column}: choose among {named}.")
        for name in {KEY, column} - {*source.schema.names}:
            raise BadFile(f"{path} has no column {name} any more: make it again with `zoo embed`.")
        return VectorTable(path, about, source, networks[column])


@contextmanager
def usable_condition(table: VectorTable, condition: str | None) -> Generator[None]:
    """Raise `BadRequest` in place of Lance's errors for a condition, `BadFile` without one."""
    try:
        with readable(table.path):
            yield
    except BadFile as error:
        if condition is None:
            raise
        raise BadRequest(
            f"{parameter('where')} {condition!r} cannot be used "
            f"({_reason(error.__cause__ or error)}): write a condition of SQL on the columns "
            f"{', '.join(table.plain)}, such as 'width > 500'."
        ) from error


def _reason(error: BaseException) -> str:
    """Return the text of a library's error, without the line of its own program."""
    text = first_line(error).partition(", /")[0].removeprefix("Invalid user input: ")
    return text.rstrip(".")
