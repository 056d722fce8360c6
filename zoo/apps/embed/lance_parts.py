"""Parts of a dataset in Lance's format.

The table gets to know of them by one commit in the end. A model that is appended later has its
vectors in files beside the parts, which are the same fragments' to Lance: no row is written again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.apps.embed.embed_request import ROWS
from zoo.common.errors import BadFile

if TYPE_CHECKING:
    import pyarrow as pa
    from lance.schema import LanceSchema

Write = Callable[["pa.RecordBatch"], None]

INDICES = "_indices"
TABLE_FOLDERS = "_versions", "_transactions", INDICES, "_deletions"
"""Folders of a table that hold no rows."""

LANCE = 2, 1
"""The version of Lance's files."""


@contextmanager
def lance_file(path: Path, schema: pa.Schema) -> Generator[Write]:
    """Write a file of Lance's format, which no table knows of yet."""
    from lance.file import LanceFileWriter

    with LanceFileWriter(str(path), schema, version=".".join(map(str, LANCE))) as writer:
        yield writer.write_batch


def commit_parts(dataset: Path, schema: pa.Schema, parts: Sequence[tuple[Path, int]]) -> None:
    """Make a table of the parts, whatever table there was."""
    from lance import LanceDataset, LanceOperation
    from lance.fragment import FragmentMetadata

    fields = [leaf for field in _lance_schema(schema).fields() for leaf in _leaves(field)]
    fragments = list[FragmentMetadata]()
    for path, rows in parts:
        files = [_lance_part(path, fields)]
        fragment = {"id": len(fragments), "files": files, "physical_rows": rows}
        fragments.append(FragmentMetadata.from_json(json.dumps(fragment)))
    LanceDataset.commit(str(dataset), LanceOperation.Overwrite(schema, fragments))


def _lance_part(path: Path, fields: Sequence[int]) -> dict[str, object]:
    """What Lance notes of a file that has some fields."""
    major, minor = LANCE
    return {
        "path": path.name,
        "fields": fields,
        "column_indices": [*range(len(fields))],
        "file_major_version": major,
        "file_minor_version": minor,
    }


def add_column(dataset: Path, schema: pa.Schema, parts: Sequence[tuple[Path, int]]) -> None:
    """Have a column more of files that lie beside the parts, unless there is one of its name.
    **Raises** `BadFile`."""
    import lance
    from lance import LanceDataset, LanceOperation
    from lance.fragment import FragmentMetadata

    table = lance.dataset(str(dataset))
    (column,) = schema
    if column.name in table.schema.names:
        return
    whole = _lance_schema(table.schema.append(column))
    fields = _leaves(whole.field(column.name))
    fragments, before = list[FragmentMetadata](), [each.metadata for each in table.get_fragments()]
    if [_first_part(each.to_json()) for each in before] != [(_first(p), rows) for p, rows in parts]:
        raise BadFile(
            f"{dataset} was changed by another program since it was made: a model can be appended "
            "to the rows of `zoo embed` alone."
        )
    for each, (path, _) in zip(before, parts, strict=True):
        files = [*each.to_json()["files"], _lance_part(path, fields)]
        fragments.append(FragmentMetadata.from_json(json.dumps(each.to_json() | {"files": files})))
    change = LanceOperation.Merge(fragments, whole)
    LanceDataset.commit(str(dataset), change, read_version=table.version)


def _first_part(fragment: dict[str, Any]) -> tuple[str, int]:
    """The name of a fragment's first file, and its rows; -1 where some were removed."""
    rows = -1 if fragment["deletion_file"] else fragment["physical_rows"]
    return Path(fragment["files"][0]["path"]).stem, rows


def _first(path: Path) -> str:
    """The name of the part that a column more is beside."""
    return "-".join(path.stem.split("-")[:2])


def lance_digests(path: Path) -> list[tuple[str, str]]:
    """The key and the sha256 of each picture of a part, in order."""
    from lance.file import LanceFileReader

    table = LanceFileReader(str(path), columns=["key", "sha256"]).read_all().to_table()
    return [*zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True)]


def lance_rows(path: Path, piece: int) -> pa.Table:
    """Rows of a part that were written together."""
    from lance.file import LanceFileReader

    reader, first = LanceFileReader(str(path)), piece * ROWS
    count = min(ROWS, reader.num_rows() - first)
    return reader.read_range(first, count, batch_size=ROWS).to_table()


def check_table(dataset: Path, columns: Sequence[str], parts: Sequence[tuple[Path, int]]) -> None:
    """**Raises** `BadFile` where the table has other columns than these, or other rows."""
    import lance

    table = lance.dataset(str(dataset))
    fragments = [_first_part(each.metadata.to_json()) for each in table.get_fragments()]
    same_rows = fragments == [(_first(path), rows) for path, rows in parts]
    if table.schema.names != [*columns] or not same_rows:
        raise BadFile(
            f"{dataset} was changed by another program since it was made, which would be lost: "
            "keep it, and make another dataset of the pictures that there are now."
        )


def _lance_schema(schema: pa.Schema) -> LanceSchema:
    from lance.schema import LanceSchema

    return LanceSchema.from_pyarrow(schema)


def _leaves(field: Any) -> list[int]:
    """Numbers of the fields that have a column in a file: lists and structs are made of others."""
    inner = field.children()
    return [leaf for each in inner for leaf in _leaves(each)] if inner else [field.id()]
