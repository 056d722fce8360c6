"""What a dataset of vectors says of itself: `embed.json`, which is written last."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError

from weights.opening import open_regular
from zoo.apps.embed.embed_request import VECTOR, Dtype
from zoo.apps.embed.placing import placing
from zoo.artifacts.measured import StatedSimilarity
from zoo.artifacts.schema import StatedPreprocessing
from zoo.common.errors import BadFile
from zoo.common.fields import Count, Digest, Label, Line, Model, Side
from zoo.common.staging import write_text

ABOUT = "embed.json"

LARGEST_ABOUT = 1 << 24
"""More bytes than any such file has."""

Place = Annotated[str, Field(max_length=4096)]


class StatedSource(Model):
    """Where pictures came from."""

    kind: Literal["folder", "list", "tar", "parquet"] = Field(description="What it is.")
    place: Place = Field(description="An absolute path, or a URL.")
    prefix: Place = Field(default="", description="How the keys of its pictures begin.")


class StatedNetwork(Model):
    """A model that made vectors of the pictures, and the column that they are in."""

    column: Line = Field(default=VECTOR, description="The column of its vectors.")
    model: Label = Field(description="The model's name.")
    variant: Line = Field(description="The variant of its folder that computed the vectors.")
    model_sha256: Digest = Field(description="Of the ONNX file.")
    place: Place = Field(description="The folder of the model, where the dataset was made.")
    dim: Count = Field(description="Numbers in a vector.")
    size: tuple[Side, Side] | None = Field(description="What pictures are brought to; null: free.")
    preprocessing: StatedPreprocessing = Field(description="As in the model's manifest.")
    similarity: StatedSimilarity | None = Field(
        default=None, description="Where the folder can also make vectors of texts; else null."
    )

    @property
    def told(self) -> str:
        """Name of that model in a message."""
        return f"{self.model} in {self.variant} ({self.model_sha256[:8]})"


class About(StatedNetwork):
    """A dataset, and the model that made its rows."""

    format_version: Literal[1] = Field(default=1, description="Of this file and the columns.")
    dtype: Dtype = Field(description="Of vectors, `patches` and `logits`.")
    draft: bool = Field(description="Whether JPEGs were decoded at a reduced size.")
    batch: Count = Field(default=1, description="Pictures that ran together at most.")
    shard: Count = Field(default=0, description="Pictures in a part at most, but of tar files.")
    columns: tuple[Line, ...] = Field(description="Those of the dataset, in their order.")
    sources: tuple[StatedSource, ...] = Field(description="Where the pictures came from.")
    pictures: Count = Field(default=0, description="Rows of the dataset.")
    errors: Count = Field(default=0, description="Pictures that could not be read.")
    gone: Count = Field(default=0, description="Rows whose pictures are gone from the sources.")
    appended: tuple[StatedNetwork, ...] = Field(
        default=(), description="Models whose vectors of the same pictures came later."
    )

    @property
    def networks(self) -> tuple[StatedNetwork, ...]:
        """All models, in the order of their columns."""
        return self, *self.appended

    def changed(self, **changes: object) -> Self:
        """The same with other fields, which are checked."""
        return type(self).model_validate(dict(self) | changes)


def about_path(dataset: Path) -> Path:
    """Where a dataset says it."""
    return dataset / ABOUT


def read_about(dataset: Path) -> About:
    """Facts that a finished dataset says of itself. **Raises** `BadFile`."""
    path = about_path(dataset)
    try:
        with open_regular(path) as file:
            return About.model_validate_json(file.read(LARGEST_ABOUT))
    except FileNotFoundError as error:
        raise BadFile(
            f"{dataset} is no finished dataset of vectors (it has no {path.name}): make it with "
            f"`zoo embed … --out {dataset}`, or run that again to finish it."
        ) from error
    except (OSError, ValidationError) as error:
        raise BadFile(f"{path} is not what `zoo embed` writes: make the dataset again.") from error


def write_about(dataset: Path, about: About, work: Path) -> None:
    """Write it whole or not at all, by way of a folder of work; with it the dataset is finished."""
    with placing(about_path(dataset), work) as file:
        write_text(file, about.model_dump_json(indent=2) + "\n")
