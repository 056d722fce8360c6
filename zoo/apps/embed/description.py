"""Description of a dataset of vectors. It is kept in the metadata of the dataset's schema."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError

from weights.parameters import parameter
from zoo.apps.embed.requests import VECTOR, Dtype
from zoo.artifacts.measured import StatedSimilarity
from zoo.artifacts.schema import StatedPreprocessing
from zoo.common.errors import BadFile
from zoo.common.fields import Count, Digest, Label, Line, Model, Side

METADATA_KEY = b"zoo.embed"  # the key of the description in the metadata of a schema
KEY, THUMBNAIL = "key", "thumbnail"  # columns of pictures

LongText = Annotated[str, Field(max_length=4096)]

Kind = Literal["folder", "list", "tar", "parquet"]


class StatedSource(Model):
    """Source of pictures."""

    kind: Kind = Field(description="The kind of source; a pattern of pictures is a list.")
    path: LongText = Field(description="An absolute path, a pattern, or a URL.")
    prefix: LongText = Field(default="", description="The prefix of the keys of its pictures.")

    @property
    def is_archive(self) -> bool:
        """Whether it is one file that contains many pictures."""
        return self.kind in ("tar", "parquet")


class StatedNetwork(Model):
    """Model of one column of vectors."""

    column: Line = Field(default=VECTOR, description="The column of its vectors.")
    model: Label = Field(description="The model's name.")
    variant: Line = Field(description="The variant of its folder that computed the vectors.")
    model_sha256: Digest = Field(description="Of the ONNX file.")
    place: LongText = Field(description="The folder of the model, where the dataset was made.")
    dim: Count = Field(description="Numbers in a vector.")
    size: tuple[Side, Side] | None = Field(description="Size of resized pictures; null: free.")
    preprocessing: StatedPreprocessing = Field(description="As in the model's manifest.")
    similarity: StatedSimilarity | None = Field(
        default=None, description="Where the folder can also make vectors of texts; else null."
    )

    @property
    def label(self) -> str:
        """The name of the model in messages: its name, variant and the start of its digest."""
        return f"{self.model} in {self.variant} ({self.model_sha256[:8]})"


class Description(StatedNetwork):
    """Description of a dataset and of the model of its first column of vectors."""

    format_version: Literal[2] = Field(default=2, description="Of this description.")
    dtype: Dtype = Field(description="Of vectors, `patches` and `logits`.")
    draft: bool = Field(description="Whether JPEGs were decoded at a reduced size.")
    batch: Count = Field(default=1, description="Most pictures that ran together.")
    columns: tuple[Line, ...] = Field(description="Columns of the first model, in their order.")
    sources: tuple[StatedSource, ...] = Field(description="Sources of the pictures.")
    appended: tuple[StatedNetwork, ...] = Field(
        default=(), description="Models whose vectors of the same pictures were added later."
    )

    @property
    def networks(self) -> tuple[StatedNetwork, ...]:
        """All models, in the order of their columns."""
        return self, *self.appended

    @property
    def extra(self) -> tuple[str, ...]:
        """The names of the columns after the vectors of the first model."""
        return self.columns[self.columns.index(VECTOR) + 1 :]

    @property
    def all_columns(self) -> tuple[str, ...]:
        """The names of all columns of the dataset, in their order."""
        return *self.columns, *(network.column for network in self.appended)

    def changed(self, **changes: object) -> Self:
        """Return a copy with new values for some fields.

        Names that are no fields are ignored. **Raises** `ValidationError` of pydantic if a new
        value is not valid.
        """
        return type(self).model_validate(dict(self) | changes)


def read_description(path: Path, metadata: Mapping[bytes, bytes] | None) -> Description:
    """Return the description of a dataset from the metadata of its schema.

    **Arguments:** `path` names the dataset in messages. **Raises** `BadFile` if there is no valid
    description.
    """
    text = (metadata or {}).get(METADATA_KEY)
    if text is None:
        raise BadFile(f"{path} is no dataset of `zoo embed`: make one with `zoo embed … --out`.")
    try:
        return Description.model_validate_json(text)
    except ValidationError as error:
        raise BadFile(
            f"{path} has a description that `zoo embed` did not write: make the dataset again "
            f"with {parameter('force')}."
        ) from error
