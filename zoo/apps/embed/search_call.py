"""`zoo.search`; it imports what it needs when it is called."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from zoo.apps.embed.embed_request import VECTOR
from zoo.apps.embed.search_request import (
    COLUMN,
    COUNT,
    DATASET,
    MODEL,
    NUMBER,
    PICTURE,
    ROW_KEY,
    TEXT,
    WHERE,
    FoundRow,
    SearchRequest,
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
    """The rows of a dataset of `zoo embed` that are most like something, best first.

    Up to 100,000 rows each is compared; of more, if there is an index (`zoo search --index`), those
    that the index finds.

    **Arguments:**

    {options}

    One of a picture, a text and a key is given, and a row that is named by its key is not found
    itself.

    **Raises** a `ZooError`, also where `model` is another one than the dataset's.

    >>> zoo.search("cats.lance", "cat.png")[0].key
    'cat.png'
    """
    from zoo.apps.embed.search import search_table
    from zoo.apps.embed.vector_table import open_vectors

    place = None if model is None else Path(model)
    asked = SearchRequest(picture, text, key, where, count, vector, place)
    return search_table(open_vectors(Path(dataset), vector), asked)
