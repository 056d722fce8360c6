"""The rows of an open dataset that are nearest to a picture, a text, or another row."""

from __future__ import annotations

import numpy as np

from weights.parameters import parameter
from zoo.apps.embed.exact import Nearest
from zoo.apps.embed.found_rows import COUNT, MOST_ROWS, FoundRow, SearchRequest
from zoo.apps.embed.query_vectors import picture_vector, text_vector
from zoo.apps.embed.vector_index import INDEXED_ROWS, lance_nearest, read_index
from zoo.apps.embed.vector_table import KEY, VectorTable
from zoo.common.errors import BadRequest
from zoo.images.pixel_values import Float32


def search_table(table: VectorTable, asked: SearchRequest) -> list[FoundRow]:
    """`search` in an open dataset."""
    if sum(each is not None for each in (asked.picture, asked.text, asked.key)) != 1:
        raise BadRequest("give one thing to search for: a picture, a text or a key.")
    count = COUNT if asked.count is None else asked.count
    if not 0 < count <= MOST_ROWS:
        raise BadRequest(f"got the count {count}: ask for 1 to {MOST_ROWS:,} rows.")
    own = None if asked.key is None else table.row_of(asked.key)
    most = count + (own is not None)
    near = nearest_rows(table, _query(table, asked, own), most, asked.where)
    both = zip(near.rows[0].tolist(), near.cosines[0].tolist(), strict=True)
    kept = [(row, cosine) for row, cosine in both if row not in (own, -1)]
    values = table.take([row for row, _ in kept], (KEY, "width", "height"))
    return [
        FoundRow(str(each[KEY]), cosine, each.get("width"), each.get("height"), row)
        for (row, cosine), each in zip(kept, values, strict=True)
    ][:count]


def _query(table: VectorTable, asked: SearchRequest, own: int | None) -> Float32:
    """The vector `[1, dim]` of what is searched for."""
    if own is not None:
        return table.vectors([own])
    if asked.text is not None:
        vector = text_vector(table, asked.text, asked.model)
    else:
        assert asked.picture is not None
        vector = picture_vector(table, asked.picture, asked.model)
    if vector.shape != (1, table.dim):
        raise BadRequest(
            f"the model gives vectors of {vector.shape[-1]} numbers, and those of {table.path} "
            f"have {table.dim}: name the model that made them with {parameter('model')}."
        )
    return np.ascontiguousarray(vector, np.float32)


def nearest_rows(
    table: VectorTable, queries: Float32, count: int, where: str | None = None
) -> Nearest:
    """Nearest rows, by the index of a large dataset that has one, else each row compared."""
    index = read_index(table) if table.count > INDEXED_ROWS else None
    return lance_nearest(table, queries, count, index.probes if index else None, where)


def told_index(table: VectorTable) -> str:
    """Remark on how a large dataset is searched; none on a small one."""
    if table.count <= INDEXED_ROWS:
        return ""
    index = read_index(table)
    if index is None:
        advice = f"`zoo search {table.path} --index` makes it faster"
        return f"all {table.count:,} rows were compared: {advice}"
    later = table.count - index.rows
    return (
        f"by the index, which finds {index.recall:.1%} of the ten nearest rows that an exact "
        f"search finds{f'; it lacks {later:,} rows, which were compared' if later else ''}"
    )
