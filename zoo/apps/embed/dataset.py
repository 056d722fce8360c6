"""Dataset of a run: opened or created, committed to and cleaned up with Lance's API.

The metadata of its schema contains its description.
"""

from __future__ import annotations

import errno
import os
import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.fragment import FragmentMetadata
from pydantic import Field, ValidationError

from weights.parameters import parameter
from zoo.apps.embed.requests import VECTOR, Dtype
from zoo.artifacts.measured import StatedSimilarity
from zoo.artifacts.schema import StatedPreprocessing
from zoo.common.errors import BadFile, BadOutput, BadRequest, first_line
from zoo.common.fields import Count, Digest, Label, Line, Model, Side

VARIABLE_FIELDS = {"place", "appended", "sources"}
"""Fields of a description in which two runs on one dataset may differ."""

SHARED_FIELDS = ("dtype", "draft", "batch", "sources")
"""Fields of a description that hold for all models of a dataset."""

METADATA_KEY = b"zoo.embed"  # the key of the description in the metadata of a schema

IDENTITY = ["source", "key"]  # columns that identify a picture

SUFFIX = ".lance"

CONTROL = re.compile(r"[\x00-\x1f\x7f]")
"""Characters that Lance does not accept in a path: line feeds, tabs and the like."""

FULL = re.compile("No space left|File too large|os error (27|28)")
"""Messages of Lance for a full disk."""

FOLDERS = {"data", "_versions", "_transactions", "_deletions", "_indices"}
"""Folders that Lance makes."""

CLEANED_EVERY = 100
"""The number of commits after which old versions are removed. Each lists all fragments."""

KEPT_TIME = timedelta(days=1)
"""The age at which versions are removed during a run. A worker may still read a younger one."""

LANCE_ERRORS = (ValueError, OSError, RuntimeError, KeyError, IndexError)
"""Exceptions of Lance and pyarrow, which have no common base class."""


LongText = Annotated[str, Field(max_length=4096)]

Kind = Literal["folder", "list", "tar", "parquet"]


class StatedSource(Model):
    """Source of pictures."""

    kind: Kind = Field(description="The kind of source; a pattern of pictures is a list.")
    path: LongText = Field(description="An absolute path, a pattern, or a URL.")
    prefix: LongText = Field(default="", description="The prefix of the keys of its pictures.")

    @property
    def is_archive(self) -> bool:
        """Whether it is one file that contains many pictures."""
        return self.kind in ("tar", "parquet")


class StatedNetwork(Model):
    """Model of one column of vectors."""

    column: Line = Field(default=VECTOR, description="The column of its vectors.")
    model: Label = Field(description="The model's name.")
    variant: Line = Field(description="The variant of its folder that computed the vectors.")
    model_sha256: Digest = Field(description="Of the ONNX file.")
    place: LongText = Field(description="The folder of the model, where the dataset was made.")
    dim: Count = Field(description="Numbers in a vector.")
    size: tuple[Side, Side] | None = Field(description="Size of resized pictures; null: free.")
    preprocessing: StatedPreprocessing = Field(description="As in the model's manifest.")
    similarity: StatedSimilarity | None = Field(
        default=None, description="Where the folder can also make vectors of texts; else null."
    )

    @property
    def label(self) -> str:
        """The name of the model in messages: its name, variant and the start of its digest."""
        return f"{self.model} in {self.variant} ({self.model_sha256[:8]})"


class Description(StatedNetwork):
    """Description of a dataset and of the model of its first column of vectors."""

    format_version: Literal[2] = Field(default=2, description="Of this description.")
    dtype: Dtype = Field(description="Of vectors, `patches` and `logits`.")
    draft: bool = Field(description="Whether JPEGs were decoded at a reduced size.")
    batch: Count = Field(default=1, description="Most pictures that ran together.")
    columns: tuple[Line, ...] = Field(description="Columns of the first model, in their order.")
    sources: tuple[StatedSource, ...] = Field(description="Sources of the pictures.")
    appended: tuple[StatedNetwork, ...] = Field(
        default=(), description="Models whose vectors of the same pictures were added later."
    )

    @property
    def networks(self) -> tuple[StatedNetwork, ...]:
        """All models, in the order of their columns."""
        return self, *self.appended

    @property
    def extra(self) -> tuple[str, ...]:
        """The names of the columns after the vectors of the first model."""
        return self.columns[self.columns.index(VECTOR) + 1 :]

    @property
    def all_columns(self) -> tuple[str, ...]:
        """The names of all columns of the dataset, in their order."""
        return *self.columns, *(network.column for network in self.appended)

    def changed(self, **changes: object) -> Self:
        """Return a copy with new values for some fields.

        Names that are no fields are ignored. **Raises** `ValidationError` of pydantic if a new
        value is not valid.
        """
        return type(self).model_validate(dict(self) | changes)

    def append_network(self, requested: Self) -> tuple[Self, str]:
        """Return this description with the model of another one appended, and the column of its
        vectors.

        A model that the dataset has keeps its column. The other description also replaces the
        `SHARED_FIELDS`.
        """
        columns = {network.model_sha256: network.column for network in self.networks}
        column, fields = columns.get(requested.model_sha256), dict(requested)
        if column is None:
            # A dot in the name of a column would be the path of a nested column.
            name = f"{VECTOR}_{requested.model}_{requested.variant}"
            column = re.sub(r"\W", "_", name, flags=re.ASCII)
            if column in columns.values():
                column += f"_{requested.model_sha256[:8]}"
        changes = {name: fields[name] for name in SHARED_FIELDS}
        if column == VECTOR:
            return self.changed(**changes, place=requested.place), column
        network = {name: fields[name] for name in StatedNetwork.model_fields} | {"column": column}
        appended = {other.column: other for other in self.appended}
        appended[column] = StatedNetwork.model_validate(network)
        return self.changed(**changes, appended=tuple(appended.values())), column

    def has_same_sources(self, other: Self) -> bool:
        """Return whether the sources are the same, apart from archives that were added or removed.

        If there are archives alone, at least one has to be the same.
        """
        folders, archives = [], []
        for sources in (self.sources, other.sources):
            folders.append([source for source in sources if not source.is_archive])
            archives.append({source.path for source in sources if source.is_archive})
        return folders[0] == folders[1] and bool(folders[0] or archives[0] & archives[1])


def read_description(path: Path, metadata: Mapping[bytes, bytes] | None) -> Description:
    """Return the description of a dataset from the metadata of its schema.

    **Arguments:** `path` names the dataset in messages. **Raises** `BadFile` if there is no valid
    description.
    """
    text = (metadata or {}).get(METADATA_KEY)
    if text is None:
        raise BadFile(f"{path} is no dataset of `zoo embed`: make one with `zoo embed … --out`.")
    try:
        return Description.model_validate_json(text)
    except ValidationError as error:
        raise BadFile(
            f"{path} has a description that `zoo embed` did not write: make the dataset again "
            f"with {parameter('force')}."
        ) from error


@dataclass
class ChunkResult:
    """The output of a worker for a chunk, which is not committed yet.

    - `fragments`: new fragments with the rows of pictures.
    - `replaced`: (source, key) of the pictures in them that have an older row.
    - `updated`: fragments of the dataset that got values in the columns with the ids `fields`.
    - `counts`: numbers of `pictures`, and of those that were `computed`, `added` or computed
      `again`.
    - `seconds`: processor time by stage, over all threads.
    """

    fragments: list[FragmentMetadata] = field(default_factory=list)
    replaced: list[tuple[str, str]] = field(default_factory=list)
    updated: Sequence[FragmentMetadata] = ()
    fields: Sequence[int] = ()
    counts: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)


def check_path(path: Path) -> None:
    """Check that a path ends in `.lance` and has no control characters. **Raises** `BadRequest`."""
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


def lance_reason(error: BaseException) -> str:
    """Return the message of an error without the line of Lance's source that raised it."""
    return first_line(error).partition(", /")[0]


@contextmanager
def lance_reading(path: Path) -> Generator[None]:
    """Raise `BadFile` in place of an error of Lance in a block that reads a dataset."""
    try:
        yield
    except LANCE_ERRORS as error:
        raise BadFile(
            f"{path} cannot be read ({lance_reason(error)}): make it again with `zoo embed`."
        ) from error


@contextmanager
def lance_writing(path: Path) -> Generator[None]:
    """Raise `BadOutput` in place of an error of Lance in a block that writes a dataset."""
    try:
        yield
    except (RuntimeError, OSError) as error:
        is_full = FULL.search(str(error))
        reason = getattr(error, "strerror", None) or lance_reason(error)
        reason = os.strerror(errno.ENOSPC) if is_full else reason
        raise BadOutput(
            f"cannot write {path} ({reason}): make room there, or choose another place."
        ) from error


def open_table(path: Path) -> tuple[LanceDataset, Description]:
    """Return the dataset at a path as Lance opens it, and its description. **Raises** `BadFile`."""
    with lance_reading(path):
        table = lance.dataset(str(path))
    return table, read_description(path, table.schema.metadata)


class Dataset:
    """Dataset that one process at a time commits to."""

    def __init__(self, path: Path, table: LanceDataset, description: Description):
        self.path, self.table, self.description = path, table, description
        self.commits = 0

    @classmethod
    def create(cls, path: Path, schema: pa.Schema, description: Description) -> Dataset:
        """Commit a dataset without rows, as a new version of the one that may be at the path.

        Missing parent folders are created. **Raises** `BadOutput`.
        """
        metadata = {METADATA_KEY: description.model_dump_json().encode()}
        empty = LanceOperation.Overwrite(schema.with_metadata(metadata), [])
        with lance_writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            return cls(path, LanceDataset.commit(str(path), empty), description)

    @classmethod
    def open(cls, path: Path) -> Dataset | None:
        """Open a dataset. Return None if nothing was committed at the path.

        **Raises** `BadOutput` if something else is there, or `BadFile`.
        """
        if not any((path / "_versions").glob("*.manifest")):
            if os.path.lexists(path) and (not path.is_dir() or {*os.listdir(path)} - FOLDERS):
                raise BadOutput(f"{path} is no dataset: choose another place.")
            return None
        return cls(path, *open_table(path))

    def check(self, description: Description, pending: str) -> None:
        """Check that the dataset has the model, the options and the sources of a description, and
        that no other program added or removed columns.

        `pending` is a column that may exist or not, because a run that adds it may be stopped.
        **Raises** `BadOutput` or `BadFile`.
        """
        earlier = self.description
        fields = description.model_dump(exclude=VARIABLE_FIELDS)
        earlier_fields = earlier.model_dump(exclude=VARIABLE_FIELDS)
        different = [name for name in fields if fields[name] != earlier_fields[name]]
        if not earlier.has_same_sources(description):
            different.append("sources")
        if "model_sha256" in different:
            raise BadOutput(
                f"{self.path} holds vectors of {earlier.label}, not of {description.label}, and "
                "these cannot be compared: give them a column of their own with "
                f"{parameter('append_model')}, choose another place, or replace it with "
                f"{parameter('force')}."
            )
        if different:
            raise BadOutput(
                f"{self.path} was made with other {' and '.join(different)}: choose another place, "
                f"or replace it with {parameter('force')}."
            )
        expected = [name for name in earlier.all_columns if name != pending]
        if [name for name in self.table.schema.names if name != pending] != expected:
            raise BadFile(
                f"{self.path} was changed by another program since it was made, which would be "
                "lost: keep it, and make another dataset of the pictures that there are now."
            )

    def commit(self, results: Sequence[ChunkResult]) -> None:
        """Commit the fragments of chunks at once, and remove the rows that they replace.

        If a result has fragments that got new columns (`updated`), only such fragments are
        committed. Nothing is committed without fragments. **Raises** `BadOutput`.
        """
        fragments = [fragment for result in results for fragment in result.fragments]
        replaced = [identity for result in results for identity in result.replaced]
        updated = [fragment for result in results for fragment in result.updated]
        operation: Any
        with lance_writing(self.path):
            if updated:
                fields = [*{number for result in results for number in result.fields}]
                operation = LanceOperation.Update(updated_fragments=updated, fields_modified=fields)
            elif replaced:
                operation = replace(self._prepare_deletion(replaced), new_fragments=fragments)
            elif fragments:
                operation = LanceOperation.Append(fragments)
            else:
                return
            version = self.table.version
            self.table = LanceDataset.commit(str(self.path), operation, read_version=version)
            self.commits += 1
            if self.commits % CLEANED_EVERY == 0:
                self.table.cleanup_old_versions(KEPT_TIME, error_if_tagged_old_versions=False)

    def _prepare_deletion(self, identities: Sequence[tuple[str, str]]) -> Any:
        """Return the uncommitted operation that deletes the rows of pictures."""
        columns = [pa.array(column, pa.string()) for column in zip(*identities, strict=True)]
        deletion = self.table.merge_insert(IDENTITY).when_matched_delete()
        transaction, _ = deletion.execute_uncommitted(pa.table(columns, names=IDENTITY))
        return transaction.operation

    def delete(self, condition: str) -> None:
        """Delete the rows for which an SQL condition is true. **Raises** `BadOutput`."""
        with lance_writing(self.path):
            self.table.delete(condition)

    def set_description(self, description: Description, vectors: pa.Field) -> None:
        """Store another description. Add the column of its vectors, with nulls, if it is missing.

        **Raises** `BadOutput`.
        """
        with lance_writing(self.path):
            if vectors.name not in self.table.schema.names:
                self.table.add_columns(pa.schema([vectors]))
            if description != self.description:
                text = description.model_dump_json()
                self.table.update_schema_metadata({METADATA_KEY.decode(): text})
        self.description = description

    def clean(self) -> None:
        """Remove fragments that were never committed, and old versions except tagged ones.

        No worker may be writing to the dataset. **Raises** `BadOutput`.
        """
        with lance_writing(self.path):
            self.table.cleanup_old_versions(
                timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
            )

    def count(self, condition: str) -> int:
        """Return the number of rows for which an SQL condition is true."""
        with lance_reading(self.path):
            return int(self.table.count_rows(condition))


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"
