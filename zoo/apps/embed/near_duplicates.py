"""Groups of rows that are nearly the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weights.progress import Progress
from zoo.apps.embed.vector_table import Rows, VectorTable


@dataclass(frozen=True)
class DuplicateGroup:
    """Rows that are connected by pairs with a large cosine.

    - `rows`: the offsets of the rows, in ascending order.
    - `cosines`: for each of these rows, its largest cosine with another row.
    """

    rows: tuple[int, ...]
    cosines: tuple[float, ...]


def find_duplicates(
    table: VectorTable, above: float, where: str | None, progress: Progress
) -> list[DuplicateGroup]:
    """Return the groups of near duplicates, the largest group first.

    Two rows are near duplicates if the cosine of their vectors is at least `above`. A group
    contains all rows that such pairs connect. Every row is compared with every other row, so that
    the time grows with the square of the number of rows. Two blocks of vectors are in memory at a
    time.

    **Arguments:** `where` is an SQL condition; rows for which it is not true are ignored.
    **Raises** `BadRequest` if Lance rejects the condition, or `BadFile`.
    """
    row_count = table.table.count_rows()
    groups, nearest = np.arange(row_count), np.full(row_count, -1, np.float32)
    for rows, vectors in table.blocks(where):
        first, last = int(rows[0]), int(rows[-1])
        progress.stage(f"comparing rows {first:,} to {last:,} of {row_count:,}")
        for other_rows, other_vectors in table.blocks(where):
            if other_rows[-1] <= first:
                continue
            cosines = vectors @ other_vectors.T
            left, right = np.nonzero((cosines >= above) & (rows[:, None] < other_rows))
            pairs = rows[left], other_rows[right]
            for side in pairs:
                np.maximum.at(nearest, side, cosines[left, right])
            if len(left):
                groups = _join_groups(groups, *pairs)
    return _collect_groups(groups, nearest)


def _join_groups(groups: Rows, left: Rows, right: Rows) -> Rows:
    """Return the number of the group of each row after the groups of pairs of rows are joined."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    pairs = (np.ones(len(left), np.bool_), (groups[left], groups[right]))
    graph = coo_array(pairs, shape=(len(groups), len(groups)))
    _, components = connected_components(graph, directed=False)
    joined: Rows = components[groups]
    return joined


def _collect_groups(groups: Rows, nearest: np.ndarray) -> list[DuplicateGroup]:
    """Return the groups of the rows that have a near duplicate: those with `nearest` above -1."""
    rows = np.flatnonzero(nearest > -1)
    rows = rows[np.argsort(groups[rows], kind="stable")]
    starts = np.flatnonzero(np.diff(groups[rows])) + 1
    parts = np.split(rows, starts) if len(rows) else []
    found = (DuplicateGroup(tuple(part.tolist()), tuple(nearest[part].tolist())) for part in parts)
    return sorted(found, key=lambda group: (-len(group.rows), group.rows))
