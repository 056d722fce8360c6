"""The nearest rows of a dataset, each of which is compared."""

from typing import NamedTuple

import numpy as np

from zoo.apps.embed.vector_table import Rows, VectorTable
from zoo.images.pixel_values import Float32


class Nearest(NamedTuple):
    """Nearest rows `[queries, count]` of each query, best first, and their cosines."""

    rows: Rows
    cosines: Float32


def exact_nearest(
    table: VectorTable, queries: Float32, count: int, rows: Rows | None = None
) -> Nearest:
    """Compare queries with all rows, or with some, one block at a time.

    **Arguments:** `queries` `[n, dim]` at length 1. There are fewer than `count` columns where
    there are fewer rows. **Raises** `BadFile`.
    """
    best = Nearest(np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32))
    for block in table.blocks(rows):
        best = _merged(best, block.rows, queries @ block.vectors.T, count)
    return best


def _merged(best: Nearest, rows: Rows, cosines: Float32, count: int) -> Nearest:
    """The best of what was found and of a block's rows, in order."""
    if cosines.shape[1] > count:
        chosen = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
        cosines = np.take_along_axis(cosines, chosen, axis=1)
    else:
        chosen = np.broadcast_to(np.arange(cosines.shape[1]), cosines.shape)
    both = np.concatenate([best.cosines, cosines], axis=1)
    places = np.concatenate([best.rows, rows[chosen]], axis=1)
    order = np.lexsort((places, -both), axis=1)[:, :count]
    return Nearest(
        np.take_along_axis(places, order, axis=1), np.take_along_axis(both, order, axis=1)
    )
