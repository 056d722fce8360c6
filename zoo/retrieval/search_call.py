"""`zoo.search`, which imports what it needs when it is called."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.embedding.embed_request import VECTOR
from zoo.retrieval.found_rows import COUNT, Asked, FoundRow

if TYPE_CHECKING:
    from zoo.images.pictures import Picture


def search(
    dataset: str | os.PathLike[str],
    picture: Picture | None = None,
    *,
    text: str | None = None,
    key: str | None = None,
    where: str | None = None,
    count: int = COUNT,
    vector: str = VECTOR,
    model: str | os.PathLike[str] | None = None,
) -> list[FoundRow]:
    """The rows of a dataset of `zoo embed` that are most like something, best first.

    Up to 100,000 rows each is compared; of more, if there is an index (`zoo search --index`), those
    that the index finds.

    **Arguments:**

    - `dataset`: the path of a Lance dataset, or of a folder of Parquet files.
    - `picture`, `text` or `key`: what rows are compared with. A text needs a dataset of a model
      with towers for pictures and texts; a row that is named by its key is not found itself.
    - `where`: a condition in SQL that rows fulfil, such as `width > 500`.
    - `count`: how many rows, up to 10,000.
    - `vector`: the column of vectors, of a dataset that several models made.
    - `model`: the file or folder of the dataset's model; where the dataset notes it by default.

    **Raises** a `ZooError`, also where `model` is another one than the dataset's.

    >>> zoo.search("cats.lance", "cat.png")[0].key
    'cat.png'
    """
    from zoo.retrieval.search_rows import search_table
    from zoo.retrieval.vector_table import open_vectors

    table = open_vectors(Path(dataset), vector)
    place = None if model is None else Path(model)
    return search_table(table, Asked(picture, text, key), where, count, place)
