"""`zoo.search`. Libraries are imported when it is called."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from zoo.apps.embed.requests import (
    COLUMN,
    COUNT,
    DATASET,
    MODEL,
    NUMBER,
    PICTURE,
    ROW_KEY,
    TEXT,
    VECTOR,
    WHERE,
    FoundRow,
    SearchRequest,
    need_lance,
)
from zoo.common.options import documented

if TYPE_CHECKING:
    from zoo.images.pictures import Picture


@documented
def search(
    dataset: Annotated[str | os.PathLike[str], DATASET],
    picture: Annotated["Picture | None", PICTURE] = None,
    *,
    text: Annotated[str | None, TEXT] = None,
    key: Annotated[str | None, ROW_KEY] = None,
    where: Annotated[str | None, WHERE] = None,
    count: Annotated[int, NUMBER] = COUNT,
    vector: Annotated[str, COLUMN] = VECTOR,
    model: Annotated[str | os.PathLike[str] | None, MODEL] = None,
) -> list[FoundRow]:
    """Return the rows of a dataset of `zoo embed` that are most similar to a query, best first.

    The query is a picture, a text or the key of a row. A row that is the query is not returned. Up
    to 100,000 rows are all compared. A larger dataset is searched with its index, if `zoo search
    --index` has built one, which may not find all of the nearest rows.

    **Arguments:**

    {options}

    **Raises** a `ZooError`, also if `model` did not make the vectors of the dataset.

    >>> zoo.search("cats.lance", "cat.png")[0].key
    'cat.png'
    """
    need_lance()
    from zoo.apps.embed.search import search_table
    from zoo.apps.embed.vector_table import open_vectors

    model_path = None if model is None else Path(model)
    request = SearchRequest(picture, text, key, where, count, vector, model_path)
    return search_table(open_vectors(Path(dataset), vector), request)
