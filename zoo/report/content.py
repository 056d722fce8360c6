"""What a report holds: of each model its checkpoint, its files, and how good they are."""

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from weights.opening import as_utf8, read_at_most
from zoo.architectures.entry import Task
from zoo.artifacts.choices import Precision
from zoo.artifacts.measured import Verification
from zoo.artifacts.read import LARGEST_MANIFEST
from zoo.common.errors import BadFile
from zoo.common.fields import Count, Digest, Line, Model, Name, Side


class Against(Model):
    """The largest absolute difference from another implementation, over all outputs.

    What is not a number is null.
    """

    library: Line = Field(description="The implementation and its version.")
    size: tuple[Side, Side] = Field(description="Height and width of the photographs.")
    in_jax: float | None = Field(description="Of the model in JAX.")
    in_file: float | None = Field(description="Of the float32 file at opset 18, if there is one.")


class Images(Model):
    """The task of naming an image's class."""

    folder: Line = Field(description="The name of the folder of images.")
    pictures: Count = Field(description="Images whose class is asked.")
    left_out: Count = Field(default=0, description="Images that there was no time for.")
    classes: Count = Field(description="How many classes there are.")


class Boxes(Model):
    """The task of finding things in pictures, each in a box."""

    folder: Line = Field(description="The name of the folder of pictures.")
    pictures: Count = Field(description="Pictures that were looked at.")
    things: Count = Field(description="Things on them.")
    left_out: Count = Field(default=0, description="Pictures that there was no time for.")


class OneFile(Model):
    """One ONNX file."""

    opset: Count = Field(description="Version of ONNX's operators.")
    precision: Precision = Field(description="Of weights and computations.")
    bytes: Count = Field(description="Its size.")
    verification: Verification = Field(description="How far it is from float32 in JAX.")
    scores: dict[Task, float] = Field(description="How well it does, as its task is measured.")


class Measured(Model):
    """One model with one checkpoint."""

    model: Line = Field(description="Its name in the zoo.")
    checkpoint: Line = Field(description="The name of the file or folder.")
    sha256: Digest | None = Field(description="Its digest; null for a folder.")
    is_published_file: bool | None = Field(description="Whether that is the authors', if known.")
    date: Line = Field(description="Of the measurement.")
    machine: Line = Field(description="Processor and system.")
    tools: dict[str, str] = Field(description="Versions of what had a part in it.")
    against: Against | None = Field(
        description="How far from transformers; null where it has no such model."
    )
    seconds: float = Field(description="How long all of it took.")
    memory: Count = Field(description="Bytes that the machine has.")
    images: Images | None = Field(description="The images of its classifier's score.")
    boxes: Boxes | None = Field(default=None, description="The pictures of its boxes.")
    pictures: tuple[Name, ...] = Field(description="Names of pictures beside this.")
    files: dict[str, OneFile] = Field(description="The files by their names in a folder.")

    @property
    def passed(self) -> bool:
        """Whether all files are as near to JAX as is asked of their precision."""
        return all(each.verification.passed for each in self.files.values())


class ReportContent(Model):
    """All models that were measured, in the zoo's order."""

    format: Literal["jax-onnx-zoo report"] = Field(description="What this is.")
    models: tuple[Measured, ...] = Field(description="Each with one checkpoint.")


EMPTY = ReportContent(format="jax-onnx-zoo report", models=())


REPORT, PAGE = "report.json", "README.md"
FEATURES, ERROR_PICTURE = "-features.png", "-errors.png"
"""Files of a report's folder: its numbers, and the same for people."""


def read_report(path: Path) -> ReportContent:
    """The numbers of a report. **Raises** `BadFile`."""
    try:
        return ReportContent.model_validate_json(as_utf8(read_at_most(path, LARGEST_MANIFEST)))
    except (OSError, ValidationError) as error:
        raise BadFile(
            f"{path} is not what `zoo report` wrote: name the folder of a report."
        ) from error
