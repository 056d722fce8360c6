"""Dataset of a run: opened or created, committed to, and cleaned up, all with Lance's API."""

from __future__ import annotations

import errno
import os
import re
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weights.parameters import parameter
from zoo.apps.embed.description import METADATA_KEY, Description, read_description
from zoo.apps.embed.sources import need_library
from zoo.common.errors import BadFile, BadOutput, BadRequest, first_line
from zoo.common.staging import report_write_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset
    from lance.fragment import FragmentMetadata

IDENTITY = ["source", "key"]
"""Columns that identify a picture."""

SUFFIX = ".lance"

CONTROL = re.compile(r"[\x00-\x1f\x7f]")
"""Characters that Lance does not take in a path: line feeds, tabs and the like."""

FULL = re.compile("No space left|File too large|os error (27|28)")
"""Messages of Lance for a full disk."""

FOLDERS = {"data", "_versions", "_transactions", "_deletions", "_indices"}
"""Folders that Lance makes."""

CLEANED_EVERY = 100
"""Commits after which old versions are removed, of which each lists all fragments."""

KEPT_TIME = timedelta(days=1)
"""Age of versions that are removed during a run: a worker may still read a younger one."""


@dataclass
class ChunkResult:
    """Fragments that a worker wrote for a chunk, and its counts.

    `replaced` are the identities of older rows of the same pictures. Fragments of `updated` exist,
    and got values in the column with the numbers `fields`. `counts` are pictures, and those that
    were computed, added or computed again; `seconds` are processor seconds of threads by stage.
    """

    fragments: list[FragmentMetadata] = field(default_factory=list)
    replaced: list[tuple[str, str]] = field(default_factory=list)
    updated: Sequence[FragmentMetadata] = ()
    fields: Sequence[int] = ()
    counts: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)


def check_path(path: Path) -> None:
    """**Raises** `BadRequest` for a path that no dataset can have, or `MissingLibrary`."""
    if path.suffix != SUFFIX:
        raise BadRequest(
            f"{parameter('out')} {path} does not end in {SUFFIX}: name a dataset such as "
            "vectors.lance."
        )
    if CONTROL.search(os.path.abspath(path)):
        raise BadRequest(
            f"{parameter('out')} has characters in its path that control a terminal ({path}), "
            "which Lance does not take: name another place."
        )
    prepare_lance()


def prepare_lance() -> None:
    """Keep Lance's log to errors. **Raises** `MissingLibrary`."""
    os.environ.setdefault("LANCE_LOG", "error")
    for library in ("pyarrow", "lance"):
        need_library(library)


@contextmanager
def readable(path: Path) -> Generator[None]:
    """Raise `BadFile` in place of the errors of libraries for a dataset that cannot be read."""
    try:
        yield
    except (BadFile, BadRequest):
        raise
    except (ValueError, OSError, RuntimeError, KeyError, IndexError) as error:
        said = first_line(error).partition(", /")[0]
        raise BadFile(f"{path} cannot be read ({said}): make it again with `zoo embed`.") from error


@contextmanager
def lance_writing(path: Path) -> Generator[None]:
    """Raise `BadOutput` in place of the errors of Lance while it writes."""
    with report_write_errors(path):
        try:
            yield
        except (RuntimeError, OSError) as error:
            if FULL.search(str(error)):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
            # The operating system's errors have a number, Lance's are text.
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise OSError(first_line(error).partition(", /")[0]) from error


def open_table(path: Path) -> LanceDataset | None:
    """Return the table at a path; None if nothing was committed there yet.

    **Raises** `BadOutput` if something else is there, or `BadFile`.
    """
    import lance

    if path.is_dir() and any((path / "_versions").glob("*.manifest")):
        with readable(path):
            return lance.dataset(str(path))
    if os.path.lexists(path) and (not path.is_dir() or {*os.listdir(path)} - FOLDERS):
        raise BadOutput(f"{path} is no dataset that was begun here: choose another place.")
    return None


class Dataset:
    """Dataset of a run, which one process at a time commits to."""

    def __init__(self, path: Path, table: LanceDataset, description: Description):
        self.path, self.table, self.description = path, table, description
        self.commits = 0

    @classmethod
    def create(cls, path: Path, schema: pa.Schema, description: Description) -> Dataset:
        """Make a dataset without rows, in place of the one that is there."""
        from lance import LanceDataset, LanceOperation

        metadata = {METADATA_KEY: description.model_dump_json().encode()}
        empty = LanceOperation.Overwrite(schema.with_metadata(metadata), [])
        with lance_writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            return cls(path, LanceDataset.commit(str(path), empty), description)

    @classmethod
    def open(cls, path: Path) -> Dataset | None:
        """Open a dataset; None if there is none. **Raises** `BadOutput` or `BadFile`."""
        table = open_table(path)
        if table is None:
            return None
        if METADATA_KEY not in (table.schema.metadata or {}):
            raise BadOutput(f"{path} is no dataset that was begun here: choose another place.")
        return cls(path, table, read_description(path, table.schema.metadata))

    def check_columns(self, pending: str | None = None) -> None:
        """**Raises** `BadFile` if another program has added or removed columns."""
        names = [name for name in self.table.schema.names if name != pending]
        if names != [name for name in self.description.all_columns if name != pending]:
            raise BadFile(
                f"{self.path} was changed by another program since it was made, which would be "
                "lost: keep it, and make another dataset of the pictures that there are now."
            )

    def commit(self, results: Sequence[ChunkResult]) -> None:
        """Add the fragments of chunks, in place of the older rows of their pictures, at once."""
        from lance import LanceOperation

        fragments = [each for result in results for each in result.fragments]
        replaced = [each for result in results for each in result.replaced]
        updated = [each for result in results for each in result.updated]
        operation: Any
        with lance_writing(self.path):
            if updated:
                fields = [*{number for result in results for number in result.fields}]
                operation = LanceOperation.Update(updated_fragments=updated, fields_modified=fields)
            elif replaced:
                operation = replace(self._deletion(replaced), new_fragments=fragments)
            elif fragments:
                operation = LanceOperation.Append(fragments)
            else:
                return
            self._apply(operation)
            self.commits += 1
            if self.commits % CLEANED_EVERY == 0:
                self.table.cleanup_old_versions(KEPT_TIME, error_if_tagged_old_versions=False)

    def _apply(self, operation: Any) -> None:
        from lance import LanceDataset

        version = self.table.version
        self.table = LanceDataset.commit(str(self.path), operation, read_version=version)

    def _deletion(self, pictures: Sequence[tuple[str, str]]) -> Any:
        """Return the operation, not yet committed, that deletes the rows of pictures."""
        import pyarrow as pa

        columns = [pa.array(column, pa.string()) for column in zip(*pictures, strict=True)]
        deletion = self.table.merge_insert(IDENTITY).when_matched_delete()
        transaction, _ = deletion.execute_uncommitted(pa.table(columns, names=IDENTITY))
        return transaction.operation

    def delete(self, condition: str) -> None:
        """Delete the rows of which a condition in SQL is true."""
        with lance_writing(self.path):
            self.table.delete(condition)

    def describe(self, description: Description) -> None:
        """Replace the description."""
        if description != self.description:
            with lance_writing(self.path):
                text = description.model_dump_json()
                self.table.update_schema_metadata({METADATA_KEY.decode(): text})
            self.description = description

    def add_column(self, column: pa.Field) -> None:
        """Add a column without values, if it does not exist yet."""
        import pyarrow as pa

        if column.name not in self.table.schema.names:
            with lance_writing(self.path):
                self.table.add_columns(pa.schema([column]))

    def clean(self) -> None:
        """Remove old versions, but for tagged ones, and fragments that were never committed."""
        with lance_writing(self.path):
            self.table.cleanup_old_versions(
                timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
            )

    def count(self, condition: str) -> int:
        """Return the number of rows of which a condition is true."""
        with readable(self.path):
            return int(self.table.count_rows(condition))


def quoted(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
