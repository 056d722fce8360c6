"""`zoo.search` and its request; it imports what it needs when it is called."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from zoo.apps.embed.embed_call import VECTOR
from zoo.common.options import Option, argument, documented

if TYPE_CHECKING:
    from zoo.images.pictures import Picture

COUNT = 10
"""Rows that are found unless another number is asked for."""

MOST_ROWS = 10_000
"""Rows that may be asked for."""


class FoundRow(NamedTuple):
    """A row of a dataset: its key, the cosine of its vector with what was asked for, the size of
    its picture in pixels (None where the dataset does not say), and its place, counted from 0."""

    key: str
    cosine: float
    width: int | None
    height: int | None
    row: int


ASKED = "What to search for"
DATASET = argument("DATASET", "A folder of `zoo embed`, in Lance's format.", given=Path)
PICTURE = argument("IMAGE", "What rows are to be like.", given=Path)
TEXT = Option(
    "TEXT", "What rows are to show, in words; of a model with a tower for texts too.", ASKED
)
ROW_KEY = Option("KEY", "The row that others are to be like, by its key.", ASKED)
WHERE = Option("SQL", "What rows have to fulfil, such as 'width > 500'.", ASKED)
NUMBER = Option(
    "N",
    "How many rows, or groups of duplicates.",
    default="10; of groups all",
    in_python=f"How many rows, up to {MOST_ROWS:,}.",
)
COLUMN = Option(
    "COLUMN", "The column of vectors, of a dataset to which a model was appended.", ASKED
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
    """Request of a search: what rows are compared with, one of a picture, a text and the key of a
    row; and which of them are wanted."""

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
