"""Nearest rows of a dataset, as Lance finds them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zoo.apps.embed.vector_table import OFFSET, Rows, VectorTable, usable_condition
from zoo.images.pixel_values import Float32

REFINED = 10
"""Candidates of an index that are compared exactly, per row that is asked for."""


class Nearest(NamedTuple):
    """Offsets `[count]` of the rows nearest to a query, best first, and their cosines."""

    rows: Rows
    cosines: Float32


def nearest_rows(
    table: VectorTable,
    query: Float32,
    count: int,
    probes: int | None = None,
    where: str | None = None,
) -> Nearest:
    """Return the nearest rows, with cosines that are computed from the rows' own vectors.

    **Arguments:** `query` `[dim]` at length 1; `probes` is the number of partitions of the index
    that are searched, None to compare every row; `where` is a condition in SQL. Rows that the
    index does not have yet are compared one by one. **Raises** `BadFile`, or `BadRequest` for
    something that is no condition.
    """
    options = {"column": table.column, "k": count, "metric": "cosine"}
    options |= {"use_index": probes is not None}
    if probes is not None:
        options |= {"minimum_nprobes": probes, "refine_factor": REFINED}
    with usable_condition(table, where):
        found = table.source.to_table(
            columns=[OFFSET, "_distance"],
            nearest=options | {"q": query},
            filter=where,
            prefilter=True,
        )
    rows = found.column(0).to_numpy().astype(np.int64)
    cosines = table.vectors(rows) @ query
    order = np.argsort(-cosines, kind="stable")
    return Nearest(rows[order], cosines[order])
