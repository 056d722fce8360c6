"""Lance's index of a dataset: how it is built, what it finds of what an exact search finds."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from weights.progress import Progress
from zoo.apps.embed.exact import Nearest, exact_nearest
from zoo.apps.embed.vector_table import OFFSET, VectorTable, open_vectors, usable_condition
from zoo.common.errors import BadFile, BadRequest, first_line
from zoo.images.pixel_values import Float32

INDEXED_ROWS = 100_000
"""Rows up to which a search compares all of them, whether there is an index or not."""

LEAST_INDEXED = 256
"""Rows below which there is nothing to be learned for an index."""

KIND = "IVF_RQ"
"""An inverted file, whose vectors are rotated and have one bit a number (RaBitQ: Gao and Long,
2024)."""

PER_PARTITION = 4096
"""Rows of a partition, on average."""

REFINED = 10
"""So many times more rows than are asked for are compared exactly."""

PROBES = (8, 16, 32, 64, 128, 256)
"""Partitions of the index that are looked into: the fewest with which it finds enough."""

WANTED = 0.95
"""The share of the ten nearest rows that an index is to find."""

MEASURED_ROWS, MEASURED_NEAREST = 100, 10
"""Rows whose nearest are asked for to measure that, and how many of those."""

TIMED = 3
"""Of them those that an exact search is timed with."""

RECORD = "zoo.search.index"
"""Where the dataset notes what the index of a column finds: its key ends in the column's name."""


@dataclass(frozen=True)
class IndexFacts:
    """Facts of an index. `recall` is the share of the ten nearest rows, as an exact search finds
    them, that it finds, of `asked` rows of the dataset, none of which counts as its own neighbour;
    `exact_ms` and `indexed_ms` are milliseconds a query."""

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
    """Facts that a dataset notes of its index, if it has one."""
    if not _described(table):
        return None
    try:
        return IndexFacts(**json.loads(_noted(table)[_record(table)]))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise BadFile(
            f"{table.path} has an index that `zoo search --index` did not make: run that."
        ) from error


def _described(table: VectorTable) -> list[Any]:
    return [each for each in table.source.describe_indices() if each.name == _name(table)]


def _name(table: VectorTable) -> str:
    return f"{table.column}_idx"


def _record(table: VectorTable) -> str:
    return f"{RECORD}.{table.column}"


def _noted(table: VectorTable) -> Mapping[str, str]:
    noted: Mapping[str, str] = table.source.config()
    return noted


def build_index(table: VectorTable, progress: Progress) -> IndexFacts:
    """Index a dataset anew, in its place, and measure what the index finds.

    **Raises** `BadRequest` for one that cannot have an index.
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
    facts = _measured(indexed, partitions, seconds, progress)
    indexed.source.update_config({_record(indexed): json.dumps(asdict(facts))})
    return facts


def _measured(
    table: VectorTable, partitions: int, seconds: float, progress: Progress
) -> IndexFacts:
    """Ask for rows' neighbours in more and more partitions, until enough are found."""
    progress.stage(f"comparing the index with an exact search of {table.count:,} rows")
    rows = np.concatenate([block.rows for block in table.blocks()])
    asked = rows[np.linspace(0, len(rows) - 1, min(MEASURED_ROWS, len(rows))).astype(np.int64)]
    queries = table.vectors(asked)
    exact = exact_nearest(table, queries, MEASURED_NEAREST + 1)
    began = time.perf_counter()
    lance_nearest(table, queries[:TIMED], MEASURED_NEAREST, None)
    exact_ms = 1000 * (time.perf_counter() - began) / TIMED
    for probes in (each for each in PROBES if each == PROBES[0] or each < 2 * partitions):
        began = time.perf_counter()
        indexed = lance_nearest(table, queries, MEASURED_NEAREST + 1, probes)
        indexed_ms = 1000 * (time.perf_counter() - began) / len(asked)
        recall = _recall(indexed, exact, asked)
        if recall >= WANTED:
            break
    size = sum(int(each.total_size_bytes) for each in _described(table))
    facts = (table.count, partitions, probes, len(asked), recall, exact_ms, indexed_ms)
    return IndexFacts(KIND, *facts, size, seconds)


def _recall(indexed: Nearest, exact: Nearest, asked: np.ndarray[Any, Any]) -> float:
    """The share of wanted rows that were found, the asked ones left out."""
    shares = [
        len(set(ours) & (others := set(theirs) - {own})) / len(others)
        for ours, theirs, own in zip(
            indexed.rows.tolist(), exact.rows.tolist(), asked.tolist(), strict=True
        )
    ]
    return float(np.mean(shares))


def lance_nearest(
    table: VectorTable,
    queries: Float32,
    count: int,
    probes: int | None,
    where: str | None = None,
) -> Nearest:
    """The nearest rows as Lance finds them, their cosines computed from the rows' own vectors.

    **Arguments:** as of `exact_nearest`; the partitions of the index that are looked into, or None
    to compare each row; a condition in SQL that rows fulfil. Rows that came after the index was
    built are compared one by one. Where fewer than `count` are found, the last places are -1 and
    their cosines -inf. **Raises** `BadFile`, or `BadRequest` for something that is no condition.
    """
    rows = np.full((len(queries), count), -1, np.int64)
    cosines = np.full((len(queries), count), -np.inf, np.float32)
    how = {"column": table.column, "k": count, "metric": "cosine", "use_index": probes is not None}
    if probes is not None:
        how |= {"minimum_nprobes": probes, "refine_factor": REFINED}
    for place, query in enumerate(queries):
        with usable_condition(table, where):
            answer = table.source.to_table(
                columns=[OFFSET, "_distance"],
                nearest=how | {"q": query},
                filter=where,
                prefilter=True,
            )
        near = answer.column(0).to_numpy().astype(np.int64)
        exact = table.vectors(near) @ query
        order = np.argsort(-exact, kind="stable")
        rows[place, : len(near)], cosines[place, : len(near)] = near[order], exact[order]
    return Nearest(rows, cosines)
