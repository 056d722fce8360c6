"""The files of a dataset: one part a shard, whose bytes follow from its rows alone.

A part takes its place by a rename. Lance gets to know of the parts by one commit in the end: its
manifest, which has the time in it, is all of a dataset that differs between two runs.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.embedding.libraries import need_library
from zoo.embedding.placing import placing
from zoo.errors import BadRequest

if TYPE_CHECKING:
    import pyarrow as pa

Write = Callable[["pa.RecordBatch"], None]

LANCE = 2, 1
"""The version of Lance's files."""

FULL = re.compile("No space left|File too large|os error (27|28)")
"""What Lance says where a disk is full."""


@dataclass(frozen=True)
class PartFormat:
    """A kind of dataset: what it needs, where parts lie, and how they are written and announced."""

    suffix: str
    library: str
    folder: str
    opened: Callable[[Path, pa.Schema], AbstractContextManager[Write]]
    commit: Callable[[Path, pa.Schema, Sequence[tuple[Path, int]]], None]

    def part(self, dataset: Path, index: int) -> Path:
        """The file of a shard."""
        return dataset / self.folder / f"part-{index:06d}{self.suffix}"


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
def _lance_file(path: Path, schema: pa.Schema) -> Generator[Write]:
    from lance.file import LanceFileWriter

    with LanceFileWriter(str(path), schema, version=".".join(map(str, LANCE))) as writer:
        yield writer.write_batch


def _commit_lance(dataset: Path, schema: pa.Schema, parts: Sequence[tuple[Path, int]]) -> None:
    """Make a table of the parts, whatever table there was."""
    from lance import LanceDataset, LanceOperation
    from lance.fragment import FragmentMetadata

    fields, (major, minor) = _field_ids(schema), LANCE
    fragments = list[FragmentMetadata]()
    for path, rows in parts:
        file = {
            "path": path.name,
            "fields": fields,
            "column_indices": [*range(len(fields))],
            "file_major_version": major,
            "file_minor_version": minor,
        }
        told = {"id": len(fragments), "files": [file], "physical_rows": rows}
        fragments.append(FragmentMetadata.from_json(json.dumps(told)))
    LanceDataset.commit(str(dataset), LanceOperation.Overwrite(schema, fragments))


@contextmanager
def _parquet_file(path: Path, schema: pa.Schema) -> Generator[Write]:
    from pyarrow import parquet

    # Vectors are as good as random: a dictionary or statistics of them would be larger than they.
    with parquet.ParquetWriter(
        path, schema, use_dictionary=False, write_statistics=["key"], compression="zstd"
    ) as writer:
        yield writer.write_batch


def _commit_nothing(dataset: Path, schema: pa.Schema, parts: Sequence[tuple[Path, int]]) -> None:
    """Parquet files are a dataset by lying beside each other."""


PART_FORMATS = {
    each.suffix: each
    for each in (
        PartFormat(".lance", "lance", "data", _lance_file, _commit_lance),
        PartFormat(".parquet", "pyarrow", "", _parquet_file, _commit_nothing),
    )
}


def part_format(dataset: Path) -> PartFormat:
    """The kind of dataset that a name asks for. **Raises** `BadRequest`, or `MissingLibrary`."""
    if dataset.suffix not in PART_FORMATS:
        raise BadRequest(
            f"--out {dataset} ends in neither of {' and '.join(PART_FORMATS)}: name a dataset such "
            "as vectors.lance."
        )
    how = PART_FORMATS[dataset.suffix]
    for library in ("pyarrow", how.library):
        need_library(library)
    return how


def _field_ids(schema: pa.Schema) -> list[int]:
    """Numbers of the fields that have a column in Lance's files, where all are counted in the order
    in which they are written: lists and structs are made of others."""
    found, count = [], 0

    def visit(kind: pa.DataType) -> None:
        nonlocal count
        own, count = count, count + 1
        inner = [kind.field(i).type for i in range(kind.num_fields)]
        if not inner or isinstance(kind, pa.FixedSizeListType):
            found.append(own)
        else:
            for each in inner:
                visit(each)

    import pyarrow as pa

    for field in schema:
        visit(field.type)
    return found
