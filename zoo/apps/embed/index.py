"""Lance's index of a dataset, and its recall, which is measured and stored."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass

import numpy as np

from weights.progress import Progress
from zoo.apps.embed.vector_table import Rows, VectorTable, open_vectors
from zoo.common.errors import BadFile, BadRequest, first_line

INDEXED_ROWS = 100_000
"""Rows up to which a search compares all of them, whether there is an index or not."""

LEAST_INDEXED = 256
"""Fewest rows that an index can be trained on."""

KIND = "IVF_RQ"
"""An inverted file, whose vectors are rotated and have one bit a number (RaBitQ: Gao and Long,
2024)."""

PER_PARTITION = 4096
"""Rows of a partition, on average."""

PROBES = (8, 16, 32, 64, 128, 256)
"""Numbers of partitions that are searched: the first one that finds enough is kept."""

WANTED = 0.95
"""Share of the ten nearest rows that an index should find."""

MEASURED_ROWS, MEASURED_NEAREST = 100, 10
"""Rows of the sample that recall is measured on, and nearest rows of each."""

RECORD = "zoo.search.index"
"""Key of the facts of an index in the dataset's configuration; the column's name follows."""


@dataclass(frozen=True)
class IndexFacts:
    """Facts of an index.

    `recall` is the share of the ten nearest rows of an exact search that the index finds, for
    `asked` rows of the dataset, none of which counts as its own neighbour. `exact_ms` and
    `indexed_ms` are milliseconds a query.
    """

    kind: str
    rows: int
    partitions: int
    probes: int
    asked: int
    recall: float
    exact_ms: float
    indexed_ms: float
    bytes: int
    seconds: float


def read_index(table: VectorTable) -> IndexFacts | None:
    """Return the facts of a dataset's index; None if it has none. **Raises** `BadFile`."""
    if not _index_bytes(table):
        return None
    try:
        return IndexFacts(**json.loads(table.source.config()[f"{RECORD}.{table.column}"]))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise BadFile(
            f"{table.path} has an index that `zoo search --index` did not make: run that."
        ) from error


def unindexed_rows(table: VectorTable) -> int:
    """Return the number of rows that came after the index was built."""
    return int(table.source.stats.index_stats(_name(table))["num_unindexed_rows"])


def _index_bytes(table: VectorTable) -> int:
    """Return the size in bytes of the index of the table's vectors; 0 if there is no index."""
    indices = (each for each in table.source.describe_indices() if each.name == _name(table))
    return sum(each.total_size_bytes or 0 for each in indices)


def _name(table: VectorTable) -> str:
    return f"{table.column}_idx"


def build_index(table: VectorTable, progress: Progress) -> IndexFacts:
    """Build the index of a dataset anew, and measure its recall.

    **Raises** `BadRequest` for a dataset that is too small, or `BadFile`.
    """
    if table.count < LEAST_INDEXED:
        raise BadRequest(
            f"{table.path} has {table.count} rows, too few for an index ({LEAST_INDEXED} at least)"
            ": search it without one."
        )
    partitions = max(1, round(table.count / PER_PARTITION))
    progress.stage(f"indexing {table.count:,} rows in {partitions} partitions")
    began = time.perf_counter()
    try:
        table.source.create_index(
            table.column,
            KIND,
            name=_name(table),
            metric="cosine",
            replace=True,
            num_partitions=partitions,
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise BadFile(f"{table.path} cannot be indexed ({first_line(error)}).") from error
    seconds = time.perf_counter() - began
    indexed = open_vectors(table.path, table.column)
    facts = _measure(indexed, partitions, seconds, progress)
    indexed.source.update_config({f"{RECORD}.{table.column}": json.dumps(asdict(facts))})
    return facts


def _measure(table: VectorTable, partitions: int, seconds: float, progress: Progress) -> IndexFacts:
    """Search the neighbours of a sample in more and more partitions, until enough are found."""
    progress.stage(f"comparing the index with an exact search of {table.count:,} rows")
    rows = np.concatenate([block.rows for block in table.blocks()])
    sample = rows[np.linspace(0, len(rows) - 1, min(MEASURED_ROWS, len(rows))).astype(np.int64)]
    exact, exact_ms = _neighbours(table, sample, None)
    for probes in (count for count in PROBES if count == PROBES[0] or count < 2 * partitions):
        found, indexed_ms = _neighbours(table, sample, probes)
        shares = [len(ours & all) / len(all) for ours, all in zip(found, exact, strict=True)]
        recall = float(np.mean(shares))
        if recall >= WANTED:
            break
    facts = (table.count, partitions, probes, len(sample), recall, exact_ms, indexed_ms)
    return IndexFacts(KIND, *facts, _index_bytes(table), seconds)


def _neighbours(
    table: VectorTable, sample: Rows, probes: int | None
) -> tuple[list[set[int]], float]:
    """Return the nearest rows of each row of a sample, without itself, and milliseconds a query."""
    vectors, began = table.vectors(sample), time.perf_counter()
    found = [table.nearest(query, MEASURED_NEAREST + 1, probes).rows for query in vectors]
    milliseconds = 1000 * (time.perf_counter() - began) / len(sample)
    pairs = zip(found, sample.tolist(), strict=True)
    return [{*rows.tolist()} - {own} for rows, own in pairs], milliseconds
