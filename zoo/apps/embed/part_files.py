"""The files of a dataset: one part a shard, whose bytes follow from its rows alone.

A part takes its place by a rename. Lance gets to know of the parts by one commit in the end: its
manifest, which has the time in it, is all of a dataset that differs between two runs.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from weights.parameters import parameter
from zoo.apps.embed.embed_request import VECTOR
from zoo.apps.embed.lance_parts import Write, add_column, commit_parts, lance_file
from zoo.apps.embed.libraries import need_library
from zoo.apps.embed.placing import placing
from zoo.common.errors import BadRequest

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIX, FOLDER = ".lance", "data"

CONTROL = re.compile(r"[\x00-\x1f\x7f]")
"""What no path of Lance's has: lines, tabs and the like."""

FULL = re.compile("No space left|File too large|os error (27|28)")
"""What Lance says where a disk is full."""


@dataclass(frozen=True)
class PartFormat:
    """Where the parts of a dataset lie, or of a column more of it, and how Lance gets to know of
    them."""

    column: str = VECTOR

    def part(self, dataset: Path, index: int) -> Path:
        """The file of a shard."""
        mark = "" if self.column == VECTOR else f"-{self.column}"
        return dataset / FOLDER / f"part-{index:06d}{mark}{SUFFIX}"

    def commit(self, dataset: Path, schema: pa.Schema, parts: Sequence[tuple[Path, int]]) -> None:
        """Make a table of the parts, or a column more of the table that there is."""
        announce = commit_parts if self.column == VECTOR else add_column
        announce(dataset, schema, parts)


@contextmanager
def part_writer(path: Path, work: Path, schema: pa.Schema) -> Generator[Write]:
    """Write a part, which takes its place once the block is through: until then it is in another
    folder of the same disk. **Raises** `BadOutput`."""
    with placing(path, work) as stage:
        try:
            with lance_file(stage, schema) as write:
                yield write
        except (RuntimeError, OSError) as error:
            # Lance has no number of an error for what a disk refuses.
            if not FULL.search(str(error)):
                raise
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error


def part_format(dataset: Path, column: str = VECTOR) -> PartFormat:
    """Format of the parts of a dataset, or of a column more for one. **Raises** `BadRequest`, or
    `MissingLibrary`."""
    if dataset.suffix != SUFFIX:
        raise BadRequest(
            f"{parameter('out')} {dataset} does not end in {SUFFIX}: name a dataset such as "
            "vectors.lance."
        )
    if CONTROL.search(os.path.abspath(dataset)):
        raise BadRequest(
            f"{parameter('out')} has characters in its path that control a terminal ({dataset}), "
            "which Lance does not take: name another place."
        )
    for library in ("pyarrow", "lance"):
        need_library(library)
    return PartFormat(column)
