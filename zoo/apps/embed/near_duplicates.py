"""Groups of rows that are nearly the same, found without more memory than some blocks take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from weights.progress import Progress
from zoo.apps.embed.vector_table import ROWS_AT_ONCE, Rows, VectorBlock, VectorTable
from zoo.images.pixel_values import Float32

HELD_BLOCKS = 4
"""Blocks that are held while those after them are read: the dataset is read once for so many."""

TILE = 1024
"""Rows that are compared with a block at once, which takes 34 MB."""


@dataclass(frozen=True)
class DuplicateGroup:
    """Rows that are joined by pairs of a large cosine, in order, and of each of them the cosine
    with the row that is nearest to it."""

    rows: tuple[int, ...]
    cosines: tuple[float, ...]


class RowGroups:
    """Rows that belong together, as a forest: each row knows one of its group that comes before
    it, and the first of a group itself (Galler and Fischer, 1964)."""

    def __init__(self, count: int):
        self.before = np.arange(count)
        self.nearest = np.full(count, -1, np.float32)

    def join(self, ones: Rows, others: Rows, cosines: Float32) -> None:
        """Join pairs of rows."""
        for rows in (ones, others):
            np.maximum.at(self.nearest, rows, cosines)
        pairs = np.sort(np.stack([self.firsts(ones), self.firsts(others)], axis=1), axis=1)
        for one, other in np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0):
            first, second = sorted(map(int, self.firsts(np.array([one, other]))))
            self.before[second] = first

    def firsts(self, rows: Rows) -> Rows:
        """The first row of each row's group."""
        first = self.before[rows]
        while (first != (further := self.before[first])).any():
            first = further
        self.before[rows] = first
        return first

    def groups(self) -> list[DuplicateGroup]:
        """All groups of two rows or more, the largest first."""
        rows = np.flatnonzero(self.nearest > -1)
        firsts = self.firsts(rows)
        order = np.lexsort((rows, firsts))
        starts = np.flatnonzero(np.diff(firsts[order], prepend=-1))
        parts = np.split(rows[order], starts[1:]) if len(rows) else []
        grouped = [
            DuplicateGroup(tuple(part.tolist()), tuple(self.nearest[part].tolist()))
            for part in parts
        ]
        return sorted(grouped, key=lambda group: (-len(group.rows), group.rows))


def find_duplicates(
    table: VectorTable, above: float, where: str | None, progress: Progress
) -> list[DuplicateGroup]:
    """Compare every row with every other, or those among each other that a condition is true of.

    The time grows with the square of their number. **Raises** `BadFile`, or `BadRequest` for
    something that is no condition.
    """
    joined = RowGroups(table.all_rows)
    for held in _held(table, where):
        first, last = int(held.rows[0]), int(held.rows[-1])
        progress.stage(f"comparing rows {first:,} to {last:,} of {table.all_rows:,}")
        for block in table.blocks(where):
            for start in range(0, len(held.rows), TILE):
                part = slice(start, start + TILE)
                _compare(VectorBlock(held.rows[part], held.vectors[part]), block, above, joined)
    return joined.groups()


def _held(table: VectorTable, where: str | None) -> Iterator[VectorBlock]:
    """Yield several blocks as one."""
    blocks: list[VectorBlock] = []
    for block in table.blocks(where):
        blocks.append(block)
        if sum(len(each.rows) for each in blocks) >= HELD_BLOCKS * ROWS_AT_ONCE:
            yield _together(blocks)
            blocks = []
    if blocks:
        yield _together(blocks)


def _together(blocks: list[VectorBlock]) -> VectorBlock:
    return VectorBlock(
        np.concatenate([block.rows for block in blocks]),
        np.concatenate([block.vectors for block in blocks]),
    )


def _compare(ones: VectorBlock, others: VectorBlock, above: float, joined: RowGroups) -> None:
    """Join the pairs of two blocks, each row with those after it."""
    if others.rows[-1] <= ones.rows[0]:
        return
    cosines = ones.vectors @ others.vectors.T
    near = (cosines >= above) & (ones.rows[:, None] < others.rows)
    if near.any():
        one, other = np.nonzero(near)
        joined.join(ones.rows[one], others.rows[other], cosines[near])
