"""A dataset of vectors in Lance's format, read block by block."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weights.parameters import parameter
from zoo.apps.embed.about import About, StatedNetwork, read_about
from zoo.apps.embed.embed_request import VECTOR
from zoo.apps.embed.libraries import need_library
from zoo.common.errors import BadFile, BadRequest, first_line
from zoo.images.pixel_values import Float32

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset

Rows = NDArray[np.int64]
"""Places of rows in a dataset, counted from 0."""

ROWS_AT_ONCE = 8192
"""Rows that are read at once: of 1,024 numbers they take 34 MB in float32."""

KEY, THUMBNAIL = "key", "thumbnail"
OFFSET = "_rowoffset"
"""What Lance calls the place of a row."""


class VectorBlock(NamedTuple):
    """Rows of a dataset: their places `[n]`, in order, and vectors `[n, dim]` at length 1."""

    rows: Rows
    vectors: Float32


@dataclass(frozen=True)
class VectorTable:
    """A dataset that was opened. `source` is Lance's, a kind of pyarrow's; `network` is the model
    whose vectors are compared."""

    path: Path
    about: About
    source: pyarrow.dataset.Dataset
    network: StatedNetwork

    @property
    def column(self) -> str:
        """Where the vectors are that are compared."""
        return self.network.column

    @cached_property
    def count(self) -> int:
        """The number of rows."""
        return int(self.source.count_rows())

    @property
    def dim(self) -> int:
        """The numbers of a vector."""
        return int(self.source.schema.field(self.column).type.list_size)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.source.schema.names)

    @property
    def plain(self) -> list[str]:
        """The columns of numbers and texts, of which a condition can speak."""
        import pyarrow.types as kinds

        fields = [self.source.schema.field(name) for name in self.columns]
        return [
            field.name
            for field in fields
            if not (kinds.is_nested(field.type) or kinds.is_binary(field.type))
        ]

    def blocks(self, rows: Rows | None = None, first: int = 0) -> Iterator[VectorBlock]:
        """All vectors from a row on, or those of some rows in order; of a model that was appended
        some rows may have none. **Raises** `BadFile`."""
        place = 0
        with readable(self.path):
            for batch in self.source.to_batches(columns=[self.column], batch_size=ROWS_AT_ONCE):
                here = np.arange(place, place + batch.num_rows)
                place += batch.num_rows
                kept = here >= first if rows is None else np.isin(here, rows, assume_unique=True)
                if batch.column(0).null_count:
                    kept &= batch.column(0).is_valid().to_numpy(zero_copy_only=False)
                if kept.all():
                    yield VectorBlock(here, unit_rows(_vectors(batch.column(0), self)))
                elif kept.any():
                    vectors = _vectors(batch.column(0).take(np.flatnonzero(kept)), self)
                    yield VectorBlock(here[kept], unit_rows(vectors))

    def vectors(self, rows: Sequence[int] | Rows) -> Float32:
        """The vectors of rows `[n, dim]`, at length 1. **Raises** `BadFile`."""
        with readable(self.path):
            taken = self.source.take(list(map(int, rows)), columns=[self.column]).combine_chunks()
            chunks = taken.column(0).chunks
            parts = [_vectors(chunk, self) for chunk in chunks]
        return unit_rows(np.concatenate(parts)) if parts else np.zeros((0, self.dim), np.float32)

    def take(self, rows: Sequence[int] | Rows, columns: Sequence[str]) -> list[dict[str, Any]]:
        """The named columns of rows, of which those are left out that there are not."""
        named = [name for name in columns if name in self.columns]
        with readable(self.path):
            table = self.source.take(list(map(int, rows)), columns=named)
            records: list[dict[str, Any]] = table.to_pylist()
            return records

    def where(self, condition: str) -> Rows:
        """The rows of which a condition in SQL is true, in order.

        **Raises** `BadRequest` for something that is no such condition.
        """
        with usable_condition(self, condition):
            rows = self.source.to_table(columns=[OFFSET], filter=condition)
        return np.sort(rows.column(0).to_numpy().astype(np.int64))

    def row_of(self, key: str) -> int:
        """The first row that has a key. **Raises** `BadRequest`."""
        place = 0
        with readable(self.path):
            for batch in self.source.to_batches(columns=[KEY], batch_size=ROWS_AT_ONCE):
                keys = batch.column(0).to_pylist()
                if key in keys:
                    return place + keys.index(key)
                place += len(keys)
        raise BadRequest(f"{self.path} has no row with the key {key!r}: name one that it has.")


def unit_rows(vectors: Float32) -> Float32:
    """Vectors at length 1, in place; one of zeros stays."""
    vectors /= np.maximum(np.sqrt(np.einsum("ij,ij->i", vectors, vectors)), 1e-12)[:, None]
    return vectors


def _vectors(column: pa.Array, table: VectorTable) -> Float32:
    """`[n, dim]` of a column of lists. **Raises** `BadFile` where one is missing."""
    values = column.flatten().to_numpy(zero_copy_only=False)
    if values.size != len(column) * table.dim:
        raise BadFile(f"{table.path} has rows without a vector: make it again with `zoo embed`.")
    return values.reshape(-1, table.dim).astype(np.float32)


def open_vectors(path: Path, column: str = VECTOR) -> VectorTable:
    """Open a dataset to compare one of its columns of vectors. **Raises** `BadFile` for what is
    none, `BadRequest` where it has no such column, `MissingLibrary` without the libraries that read
    it."""
    # What Lance tells its log is not for the user of a command.
    os.environ.setdefault("LANCE_LOG", "error")
    for library in ("pyarrow", "lance"):
        need_library(library)
    import lance

    about = read_about(path)
    networks = {each.column: each for each in about.networks}
    if column not in networks:
        raise BadRequest(f"{path} has no vectors in {column}: choose among {', '.join(networks)}.")
    with readable(path):
        source = lance.dataset(str(path))
        _check_columns(path, source.schema, column)
        return VectorTable(path, about, source, networks[column])


def _check_columns(path: Path, schema: pa.Schema, column: str) -> None:
    import pyarrow as pa

    for name in (KEY, column):
        if name not in schema.names:
            raise BadFile(
                f"{path} has no column {name} (it has {', '.join(schema.names)[:200]}): make it "
                "again with `zoo embed`."
            )
    kind = schema.field(column).type
    if not pa.types.is_fixed_size_list(kind) or not pa.types.is_floating(kind.value_type):
        raise BadFile(
            f"{path} has vectors of the type {kind}, which are no lists of numbers of one "
            "length: make it again with `zoo embed`."
        )


@contextmanager
def usable_condition(table: VectorTable, condition: str | None) -> Generator[None]:
    """Turn what Lance raises of a condition into `BadRequest`; without one, of a file `BadFile`."""
    try:
        with readable(table.path):
            yield
    except BadFile as error:
        if condition is None:
            raise
        raise BadRequest(
            f"{parameter('where')} {condition!r} cannot be used "
            f"({_said(error.__cause__ or error)}): write a condition of SQL on the columns "
            f"{', '.join(table.plain)}, such as 'width > 500'."
        ) from error


@contextmanager
def readable(path: Path) -> Generator[None]:
    """Turn what the libraries raise for files that are not what they seem into `BadFile`."""
    try:
        yield
    except (BadFile, BadRequest):
        raise
    except (ValueError, OSError, RuntimeError, KeyError, IndexError) as error:
        said = first_line(error).partition(", /")[0]
        raise BadFile(f"{path} cannot be read ({said}): make it again with `zoo embed`.") from error


def _said(error: BaseException) -> str:
    """What a library says of an error, without the line of its own program."""
    said = first_line(error).partition(", /")[0].removeprefix("Invalid user input: ")
    return said.rstrip(".")
