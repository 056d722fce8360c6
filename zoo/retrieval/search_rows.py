"""The rows of a dataset that are nearest to a picture, a text, or another row."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zoo.errors import BadRequest
from zoo.images.pixel_values import Float32
from zoo.retrieval.exact import Nearest, exact_nearest
from zoo.retrieval.query_vectors import picture_vector, text_vector
from zoo.retrieval.vector_index import LARGE, lance_nearest, read_index
from zoo.retrieval.vector_table import KEY, VectorTable, open_vectors

if TYPE_CHECKING:
    from zoo.images.pictures import Picture

COUNT = 10
"""Rows that are found unless another number is asked for."""

MOST = 10_000
"""Rows that may be asked for."""


class Found(NamedTuple):
    """A row of a dataset: its key, the cosine of its vector with what was asked for, the size of
    its picture in pixels (None where the dataset does not say), and its place, counted from 0."""

    key: str
    cosine: float
    width: int | None
    height: int | None
    row: int


class Asked(NamedTuple):
    """What rows are compared with: a picture, a text, or the key of a row. One of them is given."""

    picture: Picture | None = None
    text: str | None = None
    key: str | None = None


def search(
    dataset: str | os.PathLike[str],
    picture: Picture | None = None,
    *,
    text: str | None = None,
    key: str | None = None,
    where: str | None = None,
    count: int = COUNT,
    model: str | os.PathLike[str] | None = None,
) -> list[Found]:
    """The rows of a dataset of `zoo embed` that are most like something, best first.

    Up to 100,000 rows each is compared; of more, if there is an index (`zoo search --index`), those
    that the index finds.

    **Arguments:**

    - `dataset`: the path of a Lance dataset, or of a folder of Parquet files.
    - `picture`, `text` or `key`: what rows are compared with. A text needs a dataset of a model
      with towers for pictures and texts; a row that is named by its key is not found itself.
    - `where`: a condition in SQL that rows fulfil, such as `width > 500`.
    - `count`: how many rows, up to 10,000.
    - `model`: the file or folder of the dataset's model; where the dataset notes it by default.

    **Raises** a `ZooError`, also where `model` is another one than the dataset's.

    >>> zoo.search("cats.lance", "cat.png")[0].key
    'cat.png'
    """
    table = open_vectors(Path(dataset))
    place = None if model is None else Path(model)
    return search_table(table, Asked(picture, text, key), where, count, place)


def search_table(
    table: VectorTable, asked: Asked, where: str | None, count: int, model: Path | None
) -> list[Found]:
    """`search` in an open dataset."""
    if sum(each is not None for each in asked) != 1:
        raise BadRequest("give one thing to search for: a picture, a text or a key.")
    if not 0 < count <= MOST:
        raise BadRequest(f"got the count {count}: ask for 1 to {MOST:,} rows.")
    own = None if asked.key is None else table.row_of(asked.key)
    near = nearest_rows(table, _query(table, asked, own, model), count + (own is not None), where)
    both = zip(near.rows[0].tolist(), near.cosines[0].tolist(), strict=True)
    kept = [(row, cosine) for row, cosine in both if row not in (own, -1)]
    values = table.take([row for row, _ in kept], (KEY, "width", "height"))
    return [
        Found(str(each[KEY]), cosine, each.get("width"), each.get("height"), row)
        for (row, cosine), each in zip(kept, values, strict=True)
    ][:count]


def _query(table: VectorTable, asked: Asked, own: int | None, model: Path | None) -> Float32:
    """The vector `[1, dim]` of what is searched for."""
    if own is not None:
        return table.vectors([own])
    if asked.text is not None:
        found = text_vector(table, asked.text, model)
    else:
        assert asked.picture is not None
        found = picture_vector(table, asked.picture, model)
    if found.shape != (1, table.dim):
        raise BadRequest(
            f"the model gives vectors of {found.shape[-1]} numbers, and those of {table.path} have "
            f"{table.dim}: name the model that made them with --model."
        )
    return np.ascontiguousarray(found, np.float32)


def nearest_rows(
    table: VectorTable, queries: Float32, count: int, where: str | None = None
) -> Nearest:
    """By the index of a large dataset that has one, else each row compared."""
    if table.is_lance:
        index = read_index(table) if table.count > LARGE else None
        return lance_nearest(table, queries, count, index.probes if index else None, where)
    return exact_nearest(table, queries, count, None if where is None else table.where(where))


def told_index(table: VectorTable) -> str:
    """What a user is to know of how a large dataset is searched; nothing of a small one."""
    if table.count <= LARGE:
        return ""
    index = read_index(table)
    if index is None:
        advice = f": `zoo search {table.path} --index` makes it faster" if table.is_lance else ""
        return f"all {table.count:,} rows were compared{advice}"
    later = table.count - index.rows
    return (
        f"by the index, which finds {index.recall:.1%} of the ten nearest rows that an exact "
        f"search finds{f'; it lacks {later:,} rows, which were compared' if later else ''}"
    )
