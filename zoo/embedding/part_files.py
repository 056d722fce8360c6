"""The files of a dataset: one part a shard, whose bytes follow from its rows alone.

A part takes its place by a rename. Lance gets to know of the parts by one commit in the end: its
manifest, which has the time in it, is all of a dataset that differs between two runs.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.embedding.embed_request import VECTOR
from zoo.embedding.lance_parts import (
    TABLES,
    Write,
    add_column,
    check_table,
    commit_parts,
    lance_digests,
    lance_file,
    lance_rows,
)
from zoo.embedding.libraries import need_library
from zoo.embedding.placing import placing
from zoo.errors import BadRequest
from zoo.options import parameter

if TYPE_CHECKING:
    import pyarrow as pa

FULL = re.compile("No space left|File too large|os error (27|28)")
"""What Lance says where a disk is full."""


@dataclass(frozen=True)
class PartFormat:
    """A kind of dataset: what it needs, where parts lie, and how they are written, read and
    announced. `tables` are folders that say of which parts it is made."""

    suffix: str
    library: str
    folder: str
    opened: Callable[[Path, pa.Schema], AbstractContextManager[Write]]
    read: Callable[[Path, int], pa.Table]
    digests: Callable[[Path], list[tuple[str, str]]]
    check: Callable[[Path, Sequence[str], Sequence[tuple[Path, int]]], None]
    commit: Callable[[Path, pa.Schema, Sequence[tuple[Path, int]]], None]
    add: Callable[[Path, pa.Schema, Sequence[tuple[Path, int]]], None] | None = None
    mark: str = ""
    tables: tuple[str, ...] = ()

    def part(self, dataset: Path, index: int) -> Path:
        """The file of a shard."""
        return dataset / self.folder / f"part-{index:06d}{self.mark}{self.suffix}"


@contextmanager
def part_writer(how: PartFormat, path: Path, work: Path, schema: pa.Schema) -> Generator[Write]:
    """Write a part, which takes its place once the block is through: until then it is in another
    folder of the same disk. **Raises** `BadOutput`."""
    with placing(path, work) as stage:
        try:
            with how.opened(stage, schema) as write:
                yield write
        except (RuntimeError, OSError) as error:
            # Lance has no number of an error for what a disk refuses.
            if not FULL.search(str(error)):
                raise
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error


@contextmanager
def _parquet_file(path: Path, schema: pa.Schema) -> Generator[Write]:
    from pyarrow import parquet

    # Vectors are as good as random: a dictionary or statistics of them would be larger than they.
    with parquet.ParquetWriter(
        path, schema, use_dictionary=False, write_statistics=["key"], compression="zstd"
    ) as writer:
        yield writer.write_batch


def _parquet_rows(path: Path, piece: int) -> pa.Table:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        return file.read_row_group(piece)


def _parquet_digests(path: Path) -> list[tuple[str, str]]:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        table = file.read(["key", "sha256"])
    return [*zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True)]


def _check_nothing(
    dataset: Path, columns: Sequence[str], parts: Sequence[tuple[Path, int]]
) -> None:
    """Whether the files have their rows is seen where these are read."""


def _commit_nothing(dataset: Path, schema: pa.Schema, parts: Sequence[tuple[Path, int]]) -> None:
    """Parquet files are a dataset by lying beside each other."""


PART_FORMATS = {
    each.suffix: each
    for each in (
        PartFormat(
            *(".lance", "lance", "data", lance_file, lance_rows, lance_digests),
            *(check_table, commit_parts, add_column, "", TABLES),
        ),
        PartFormat(
            *(".parquet", "pyarrow", "", _parquet_file, _parquet_rows, _parquet_digests),
            *(_check_nothing, _commit_nothing),
        ),
    )
}


def part_format(dataset: Path, column: str = VECTOR) -> PartFormat:
    """The kind of dataset that a name asks for, or of a column more for one. **Raises**
    `BadRequest`, or `MissingLibrary`."""
    if dataset.suffix not in PART_FORMATS:
        raise BadRequest(
            f"{parameter('out')} {dataset} ends in neither of {' and '.join(PART_FORMATS)}: name a "
            "dataset such as vectors.lance."
        )
    how = PART_FORMATS[dataset.suffix]
    for library in ("pyarrow", how.library):
        need_library(library)
    if column == VECTOR:
        return how
    if how.add is None:
        raise BadRequest(
            f"{dataset} is of Parquet files, which take no further column: make a dataset in "
            "Lance's format, or another one for this model."
        )
    return replace(how, commit=how.add, mark=f"-{column}")
