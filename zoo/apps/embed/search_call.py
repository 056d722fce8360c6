"""`zoo.search` and its request. Libraries are imported when the function is called."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from zoo.apps.embed.embed_call import VECTOR, need_lance
from zoo.common.options import Option, argument, documented

if TYPE_CHECKING:
    from zoo.images.pictures import Picture

COUNT = 10  # the default number of rows to find
MOST_ROWS = 10_000  # the largest number of rows that a request may ask for


class FoundRow(NamedTuple):
    """A row that a search found.

    - `cosine`: the cosine of its vector with that of the query.
    - `width`, `height`: the size of its picture in pixels; None if the dataset does not have it.
    - `row`: the offset of the row in the dataset, counted from 0.
    """

    key: str
    cosine: float
    width: int | None
    height: int | None
    row: int


QUERY_PANEL = "What to search for"
DATASET = argument("DATASET", "A folder of `zoo embed`, in Lance's format.", given=Path)
PICTURE = argument("IMAGE", "What rows are to be like.", given=Path)
TEXT = Option(
    "TEXT", "What rows are to show, in words; of a model with a tower for texts too.", QUERY_PANEL
)
ROW_KEY = Option("KEY", "The row that others are to be like, by its key.", QUERY_PANEL)
WHERE = Option("SQL", "What rows have to fulfil, such as 'width > 500'.", QUERY_PANEL)
NUMBER = Option(
    "N",
    "How many rows, or groups of duplicates.",
    default="10; of groups all",
    in_python=f"How many rows, up to {MOST_ROWS:,}.",
)
COLUMN = Option(
    "COLUMN", "The column of vectors, of a dataset to which a model was appended.", QUERY_PANEL
)
MODEL = Option(
    "FILE|FOLDER",
    "The model that made the vectors.",
    default="where the dataset notes it",
    given=Path,
    in_python="The model that made the vectors, a file or a folder; by default that which the "
    "dataset notes.",
)


@dataclass(frozen=True)
class SearchRequest:
    """The options of a search. One of `picture`, `text` and `key` is the query.

    A `model` of None is the one whose path the dataset notes.
    """

    picture: Annotated["Picture | None", PICTURE] = None
    text: Annotated[str | None, TEXT] = None
    key: Annotated[str | None, ROW_KEY] = None
    where: Annotated[str | None, WHERE] = None
    count: Annotated[int | None, NUMBER] = None
    vector: Annotated[str, COLUMN] = VECTOR
    model: Annotated[Path | None, MODEL] = None


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
