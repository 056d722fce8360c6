"""The rows of an open dataset that are nearest to a picture, a text, or another row."""

from __future__ import annotations

import numpy as np

from weights.parameters import parameter
from zoo.apps.embed.index import INDEXED_ROWS, read_index, unindexed_rows
from zoo.apps.embed.query_vectors import picture_vector, text_vector
from zoo.apps.embed.search_request import COUNT, MOST_ROWS, FoundRow, SearchRequest
from zoo.apps.embed.vector_table import KEY, VectorTable
from zoo.common.errors import BadRequest
from zoo.images.pixel_values import Float32


def search_table(table: VectorTable, request: SearchRequest) -> list[FoundRow]:
    """Return the rows of an open dataset that are most like a picture, a text or a row."""
    if sum(each is not None for each in (request.picture, request.text, request.key)) != 1:
        raise BadRequest("give one thing to search for: a picture, a text or a key.")
    count = COUNT if request.count is None else request.count
    if not 0 < count <= MOST_ROWS:
        raise BadRequest(f"got the count {count}: ask for 1 to {MOST_ROWS:,} rows.")
    own = None if request.key is None else table.row_of(request.key)
    query, limit = _query(table, request, own), count + (own is not None)
    index = read_index(table) if table.count > INDEXED_ROWS else None
    near = table.nearest(query, limit, index.probes if index else None, request.where)
    pairs = zip(near.rows.tolist(), near.cosines.tolist(), strict=True)
    kept = [(row, cosine) for row, cosine in pairs if row != own][:count]
    values = table.take([row for row, _ in kept], (KEY, "width", "height"))
    return [
        FoundRow(str(each[KEY]), cosine, each.get("width"), each.get("height"), row)
        for (row, cosine), each in zip(kept, values, strict=True)
    ]


def _query(table: VectorTable, request: SearchRequest, own: int | None) -> Float32:
    """Return the vector `[dim]` of the picture, text or row that is searched for."""
    if own is not None:
        vector: Float32 = table.vectors([own])[0]
        return vector
    if request.text is not None:
        vectors = text_vector(table, request.text, request.model)
    else:
        assert request.picture is not None
        vectors = picture_vector(table, request.picture, request.model)
    if vectors.shape != (1, table.dim):
        raise BadRequest(
            f"the model gives vectors of {vectors.shape[-1]} numbers, and those of {table.path} "
            f"have {table.dim}: name the model that made them with {parameter('model')}."
        )
    return np.ascontiguousarray(vectors[0], np.float32)


def told_index(table: VectorTable) -> str:
    """Return a remark on how a large dataset is searched; empty for a small one."""
    if table.count <= INDEXED_ROWS:
        return ""
    index = read_index(table)
    if index is None:
        advice = f"`zoo search {table.path} --index` makes it faster"
        return f"all {table.count:,} rows were compared: {advice}"
    later = unindexed_rows(table)
    return (
        f"by the index, which finds {index.recall:.1%} of the ten nearest rows that an exact "
        f"search finds{f'; it lacks {later:,} rows, which were compared' if later else ''}"
    )
