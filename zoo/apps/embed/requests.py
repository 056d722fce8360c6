"""Requests and results of `zoo.embed` and `zoo.search`. No library for datasets is imported."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from zoo.common.options import Option, argument

if TYPE_CHECKING:
    from zoo.images.pictures import Picture

Dtype = Literal["float16", "float32"]

Extra = Literal["patches", "logits", "best", "thumbnail"]

VECTOR = "vector"  # the column with the vectors of the model that made the dataset
KEY, THUMBNAIL = "key", "thumbnail"  # columns of pictures
SHARD = 1024  # the default number of pictures of a chunk, whose rows are committed together


@dataclass(frozen=True)
class EmbedRequest:
    """The options of `zoo.embed`."""

    sources: tuple[str, ...]
    model: str
    out: Path
    precision: str
    dtype: Dtype
    extra: tuple[Extra, ...]
    draft: bool
    append_model: bool
    prune: bool
    force: bool
    offline: bool
    batch: int
    shard: int
    threads: int | None
    scheduler: str | None


@dataclass(frozen=True)
class EmbedResult:
    """The state of a dataset after a run, and what the run did.

    - `pictures`: the number of rows without an error. `errors`: rows of pictures that cannot be
      read, and for an appended model also rows that got no vector of it.
    - `computed`: pictures that were embedded, and those that cannot be read for a new reason.
    - `added`, `again`: embedded pictures that had no vector before, and those that had other bytes.
    - `kept`: rows that were not changed. `gone`: rows of pictures that the sources no longer have;
      they were deleted if `pruned`.
    - `passed`: the number of files that are no pictures, by the ending of their names.
    - `wall`: the seconds of the run. `seconds`: processor time by stage. `cores`: the average
      number of busy cores.
    """

    dataset: Path
    pictures: int
    errors: int
    computed: int = 0
    kept: int = 0
    added: int = 0
    again: int = 0
    gone: int = 0
    pruned: bool = False
    passed: dict[str, int] = field(default_factory=dict)
    wall: float = 0.0
    cores: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Computed pictures per second of the run."""
        return self.computed / self.wall if self.wall else 0.0


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
DATASET = argument("DATASET", "A folder of `zoo embed`, in Lance's format.", command_line_type=Path)
PICTURE = argument("IMAGE", "What rows are to be like.", command_line_type=Path)
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
    command_line_type=Path,
    in_python="The model that made the vectors, a file or a folder; by default that which the "
    "dataset notes.",
)


@dataclass(frozen=True)
class SearchRequest:
    """The options of a search. One of `picture`, `text` and `key` is the query.

    A `count` of None means `COUNT` rows. A `model` of None is the one whose path the dataset notes.
    """

    picture: Annotated["Picture | None", PICTURE] = None
    text: Annotated[str | None, TEXT] = None
    key: Annotated[str | None, ROW_KEY] = None
    where: Annotated[str | None, WHERE] = None
    count: Annotated[int | None, NUMBER] = None
    vector: Annotated[str, COLUMN] = VECTOR
    model: Annotated[Path | None, MODEL] = None
