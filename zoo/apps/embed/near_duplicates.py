"""Groups of rows that are nearly the same, found without more memory than two blocks take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weights.progress import Progress
from zoo.apps.embed.vector_table import Rows, VectorTable


@dataclass(frozen=True)
class DuplicateGroup:
    """Rows that are joined by pairs of a large cosine, in order, and of each of them the cosine
    with the row that is nearest to it."""

    rows: tuple[int, ...]
    cosines: tuple[float, ...]


def find_duplicates(
    table: VectorTable, above: float, where: str | None, progress: Progress
) -> list[DuplicateGroup]:
    """Compare every row with every other, or those among each other that a condition is true of.

    The time grows with the square of their number. Return the largest group first. **Raises**
    `BadFile`, or `BadRequest` for something that is no condition.
    """
    groups = np.arange(table.all_rows)
    nearest = np.full(table.all_rows, -1, np.float32)
    for block in table.blocks(where):
        first, last = int(block.rows[0]), int(block.rows[-1])
        progress.stage(f"comparing rows {first:,} to {last:,} of {table.all_rows:,}")
        for later in table.blocks(where):
            if later.rows[-1] <= first:
                continue
            cosines = block.vectors @ later.vectors.T
            ones, others = np.nonzero((cosines >= above) & (block.rows[:, None] < later.rows))
            pairs = block.rows[ones], later.rows[others]
            for rows in pairs:
                np.maximum.at(nearest, rows, cosines[ones, others])
            if len(ones):
                groups = _joined(groups, *pairs)
    return _duplicate_groups(groups, nearest)


def _joined(groups: Rows, ones: Rows, others: Rows) -> Rows:
    """Return the group of each row after pairs of rows are joined."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    pairs = (np.ones(len(ones), np.bool_), (groups[ones], groups[others]))
    graph = coo_array(pairs, shape=(len(groups), len(groups)))
    _, components = connected_components(graph, directed=False)
    joined: Rows = components[groups]
    return joined


def _duplicate_groups(groups: Rows, nearest: np.ndarray) -> list[DuplicateGroup]:
    rows = np.flatnonzero(nearest > -1)
    rows = rows[np.argsort(groups[rows], kind="stable")]
    parts = np.split(rows, np.flatnonzero(np.diff(groups[rows])) + 1) if len(rows) else []
    found = (DuplicateGroup(tuple(part.tolist()), tuple(nearest[part].tolist())) for part in parts)
    return sorted(found, key=lambda group: (-len(group.rows), group.rows))
