"""Lance's index of a dataset, and the measurement of the share of the nearest rows it finds."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass

import numpy as np

from weights.progress import Progress
from zoo.apps.embed.dataset import LANCE_ERRORS
from zoo.apps.embed.vector_table import Rows, VectorTable, open_vectors
from zoo.common.errors import BadFile, BadRequest, first_line

INDEXED_ROWS = 100_000  # the largest number of rows of a dataset that is searched without its index
LEAST_INDEXED = 256  # the smallest number of rows that an index can be trained on

KIND = "IVF_RQ"
"""An inverted file in which vectors are rotated and have one bit a number (RaBitQ: Gao and Long,
2024)."""

PER_PARTITION = 4096  # the average number of rows of a partition

PROBES = (8, 16, 32, 64, 128, 256)
"""Numbers of searched partitions that are tried; the first one with enough recall is stored."""

WANTED = 0.95  # the share of the ten nearest rows that is enough recall

MEASURED_ROWS, MEASURED_NEAREST = 100, 10
"""The number of rows for which recall is measured, and the number of nearest rows of each."""

RECORD = "zoo.search.index"
"""The key of the facts in the configuration of a dataset; a dot and the column's name follow."""


@dataclass(frozen=True)
class IndexFacts:
    """Measurements of an index, which are made when it is built.

    - `rows`, `partitions`, `bytes`: the size of the index. `seconds` is the time to build it.
    - `probes`: the number of partitions that a search looks into.
    - `recall`: the share of the ten nearest rows of an exact search that the index finds.
    - `asked`: the number of rows whose neighbours were searched to measure it.
    - `exact_ms`, `indexed_ms`: milliseconds of a query without and with the index.
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
    """Return the facts of the index of a dataset, or None if it has no index.

    **Raises** `BadFile` if `zoo search --index` did not build the index.
    """
    if not _index_bytes(table):
        return None
    try:
        return IndexFacts(**json.loads(table.table.config()[f"{RECORD}.{table.column}"]))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise BadFile(
            f"{table.path} has an index that `zoo search --index` did not make: run that."
        ) from error


def count_unindexed_rows(table: VectorTable) -> int:
    """Return the number of rows that were added after the index was built. There must be one."""
    return int(table.table.stats.index_stats(_index_name(table))["num_unindexed_rows"])


def build_index(table: VectorTable, progress: Progress) -> IndexFacts:
    """Build the index of a dataset, or replace it, and store its measured recall in the dataset.

    **Raises** `BadRequest` if fewer than `LEAST_INDEXED` rows have a vector, or `BadFile`.
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
        table.table.create_index(
            table.column,
            KIND,
            name=_index_name(table),
            metric="cosine",
            replace=True,
            num_partitions=partitions,
        )
    except LANCE_ERRORS as error:
        raise BadFile(f"{table.path} cannot be indexed ({first_line(error)}).") from error
    seconds = time.perf_counter() - began
    indexed = open_vectors(table.path, table.column)
    facts = _measure_index(indexed, partitions, seconds, progress)
    indexed.table.update_config({f"{RECORD}.{table.column}": json.dumps(asdict(facts))})
    return facts


def _measure_index(
    table: VectorTable, partitions: int, seconds: float, progress: Progress
) -> IndexFacts:
    """Compare the index with an exact search, with more and more probes until recall is enough.

    If it never is, the result has the largest number of probes that was tried. `partitions` and
    `seconds` are copied to the result.
    """
    progress.stage(f"comparing the index with an exact search of {table.count:,} rows")
    rows = np.concatenate([block_rows for block_rows, _ in table.blocks()])
    sample = rows[np.linspace(0, len(rows) - 1, min(MEASURED_ROWS, len(rows))).astype(np.int64)]
    exact, exact_ms = _find_neighbours(table, sample, None)
    for probes in (count for count in PROBES if count == PROBES[0] or count < 2 * partitions):
        found, indexed_ms = _find_neighbours(table, sample, probes)
        pairs = zip(found, exact, strict=True)
        recall = float(np.mean([len(near & all_near) / len(all_near) for near, all_near in pairs]))
        if recall >= WANTED:
            break
    facts = (table.count, partitions, probes, len(sample), recall, exact_ms, indexed_ms)
    return IndexFacts(KIND, *facts, _index_bytes(table), seconds)


def _find_neighbours(
    table: VectorTable, sample: Rows, probes: int | None
) -> tuple[list[set[int]], float]:
    """Return the nearest other rows of each row of a sample, and the milliseconds of a query.

    `sample` are offsets of rows. There are `MEASURED_NEAREST` other rows for each of them, or one
    more if the search does not find the row itself. `probes` is as for `VectorTable.nearest`.
    """
    vectors, began = table.vectors(sample), time.perf_counter()
    found = [table.nearest(query, MEASURED_NEAREST + 1, probes).rows for query in vectors]
    milliseconds = 1000 * (time.perf_counter() - began) / len(sample)
    pairs = zip(found, sample.tolist(), strict=True)
    return [{*rows.tolist()} - {row} for rows, row in pairs], milliseconds


def _index_bytes(table: VectorTable) -> int:
    """Return the size of the index in bytes, or 0 if there is no index."""
    name = _index_name(table)
    indices = (index for index in table.table.describe_indices() if index.name == name)
    return sum(index.total_size_bytes or 0 for index in indices)


def _index_name(table: VectorTable) -> str:
    return f"{table.column}_idx"
