"""Search in one column of vectors of a dataset: by condition, by key and by similarity."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from lance import LanceDataset
from numpy.typing import NDArray

from weights.parameters import parameter
from zoo.apps.embed.dataset import (
    LANCE_ERRORS,
    Description,
    StatedNetwork,
    lance_reading,
    lance_reason,
    open_table,
    quoted,
)
from zoo.apps.embed.requests import KEY, VECTOR
from zoo.common.errors import BadFile, BadRequest
from zoo.images.pixel_values import Float32

Rows = NDArray[np.int64]
"""Offsets of rows in a dataset, counted from 0 in the order of its fragments."""

ROWS_AT_ONCE = 2048
"""The number of rows that are read together. With 1,024 numbers a vector they take 8 MB."""

REFINED = 10
"""For each row that is requested, an index finds this many candidates, which are then compared
exactly."""

OFFSET = "_rowoffset"  # the name of the virtual column in which Lance returns the offset of a row


class Nearest(NamedTuple):
    """Offsets `[count]` of the rows nearest to a query, best first, and their cosines."""

    rows: Rows
    cosines: Float32


@dataclass(frozen=True)
class VectorTable:
    """A dataset and the column of vectors that a search compares.

    `network` describes the model that computed the vectors of this column.
    """

    path: Path
    description: Description
    table: LanceDataset
    network: StatedNetwork

    @property
    def column(self) -> str:
        """The name of the column of vectors."""
        return self.network.column

    @property
    def dim(self) -> int:
        """The number of elements of a vector."""
        return self.network.dim

    @property
    def columns(self) -> list[str]:
        """The names of all columns of the dataset."""
        return list(self.table.schema.names)

    @cached_property
    def count(self) -> int:
        """The number of rows that have a vector."""
        return int(self.table.count_rows(f"{self.column} is not null"))

    def blocks(self, condition: str | None = None) -> Iterator[tuple[Rows, Float32]]:
        """Yield the offsets `[n]` of a block of rows and their vectors `[n, dim]`, of length 1.

        The blocks are in the order of the rows. Rows without a vector are left out.

        **Arguments:** `condition` is an SQL expression on the columns; rows for which it is not
        true are left out. **Raises** `BadRequest` if Lance rejects it, or `BadFile`.
        """
        has_vector = f"{self.column} is not null"
        row_filter = has_vector if condition is None else f"({condition}) and {has_vector}"
        with self._checking(condition):
            for batch in self.table.to_batches(
                columns=[self.column, OFFSET], filter=row_filter, batch_size=ROWS_AT_ONCE
            ):
                rows = batch[OFFSET].to_numpy().astype(np.int64)
                yield rows, self._to_unit_vectors(batch[self.column])

    def vectors(self, rows: Sequence[int] | Rows) -> Float32:
        """Return the vectors `[n, dim]` of rows, scaled to length 1.

        `rows` are offsets of rows with a vector. **Raises** `BadFile`.
        """
        with lance_reading(self.path):
            taken = self.table.take(list(map(int, rows)), columns=[self.column])
        return self._to_unit_vectors(taken[self.column])

    def nearest(
        self, query: Float32, count: int, probes: int | None = None, where: str | None = None
    ) -> Nearest:
        """Return the rows whose vectors have the largest cosines with a query.

        The cosines are computed in float32 from the vectors in the dataset, also with an index.

        **Arguments:**

        - `query`: a vector `[dim]` of length 1.
        - `count`: the largest number of rows to return.
        - `probes`: the number of partitions of the index that are searched; rows that were added
          after the index was built are all compared. None compares all rows without the index.
        - `where`: an SQL condition on the rows, which is evaluated before the search.

        **Raises** `BadRequest` if Lance rejects the condition, or `BadFile`.
        """
        options = {"column": self.column, "q": query, "k": count, "metric": "cosine"}
        options["use_index"] = probes is not None
        if probes is not None:
            options |= {"minimum_nprobes": probes, "refine_factor": REFINED}
        columns = [OFFSET, self.column, "_distance"]
        with self._checking(where):
            found = self.table.to_table(
                columns=columns, nearest=options, filter=where, prefilter=True
            )
        cosines = self._to_unit_vectors(found[self.column]) @ query
        order = np.argsort(-cosines, kind="stable")
        return Nearest(found[OFFSET].to_numpy().astype(np.int64)[order], cosines[order])

    def take(self, rows: Sequence[int] | Rows, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Return a dict from column names to values for each row, in the order of `rows`.

        `rows` are offsets. Columns that the dataset does not have are left out. **Raises**
        `BadFile`.
        """
        names = [name for name in columns if name in self.columns]
        with lance_reading(self.path):
            records: list[dict[str, Any]] = self.table.take(
                list(map(int, rows)), columns=names
            ).to_pylist()
        return records

    def row_of(self, key: str) -> int:
        """Return the offset of the first row that has this key and a vector.

        **Raises** `BadRequest` if there is none.
        """
        condition = f"{KEY} = {quoted(key)} and {self.column} is not null"
        with lance_reading(self.path):
            found = self.table.to_table(columns=[OFFSET], filter=condition, limit=1)
        if not len(found):
            raise BadRequest(f"{self.path} has no row with the key {key!r}: name one that it has.")
        return int(found[OFFSET][0].as_py())

    def _to_unit_vectors(self, column: pa.Array | pa.ChunkedArray) -> Float32:
        """Return a column of vectors without nulls as an array `[n, dim]`, scaled to length 1."""
        numbers = pc.list_flatten(column).to_numpy().astype(np.float32)
        return unit_rows(numbers.reshape(-1, self.dim))

    @contextmanager
    def _checking(self, condition: str | None) -> Generator[None]:
        """Translate errors of Lance in a block that reads rows with an SQL condition.

        Lance has no class of errors for conditions, so that every error counts as one of the
        condition if there is one. **Raises** `BadRequest` then, and `BadFile` for None.
        """
        if condition is None:
            with lance_reading(self.path):
                yield
            return
        try:
            yield
        except LANCE_ERRORS as error:
            reason = lance_reason(error).removeprefix("Invalid user input: ").rstrip(".")
            names = ", ".join(
                field.name
                for field in self.table.schema
                if not (kinds.is_nested(field.type) or kinds.is_binary(field.type))
            )
            raise BadRequest(
                f"{parameter('where')} {condition!r} cannot be used ({reason}): write a condition "
                f"of SQL on the columns {names}, such as 'width > 500'."
            ) from error


def unit_rows(vectors: Float32) -> Float32:
    """Scale vectors `[n, dim]` to length 1, in place, and return them. Zero vectors stay zero."""
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return vectors


def open_vectors(path: Path, column: str = VECTOR) -> VectorTable:
    """Open a dataset to search in one of its columns of vectors.

    **Raises** `BadFile` if the path is no dataset of `zoo embed`, `BadRequest` if the dataset has
    no such column of vectors.
    """
    if not path.is_dir():
        raise BadFile(f"{path} is no dataset of `zoo embed`: make one with `zoo embed … --out`.")
    table, description = open_table(path)
    networks = {network.column: network for network in description.networks}
    if column not in networks:
        raise BadRequest(f"{path} has no vectors in {column}: choose among {', '.join(networks)}.")
    for name in {KEY, column} - {*table.schema.names}:
        raise BadFile(f"{path} has no column {name} any more: make it again with `zoo embed`.")
    return VectorTable(path, description, table, networks[column])
