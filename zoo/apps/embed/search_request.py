"""The request of a search and the rows that it finds."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from zoo.apps.embed.embed_request import VECTOR
from zoo.common.options import Option, argument

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
DATASET = argument("DATASET", "A folder of `zoo embed`, in Lance's format.", command_line_type=Path)
PICTURE = argument("IMAGE", "What rows are to be like.", command_line_type=Path)
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
    command_line_type=Path,
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
