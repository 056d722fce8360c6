"""Measurements in a manifest: how far files are from JAX, and how fast they are."""

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import Field, field_validator

from zoo.common.fields import Count, Digest, Label, Line, Model, Text

Measure = Literal["max_abs", "max_rel", "cosine"]

Level = Literal["disabled", "basic", "extended", "all"]


class Comparison(Model):
    """Difference of an output in ONNX Runtime from JAX, at one batch and size.

    A value that would be infinite or NaN is null.
    """

    batch: Count = Field(description="Images at once, or texts where there are none.")
    height: Count | None = Field(default=None, description="Of the images, in pixels.")
    width: Count | None = Field(default=None, description="Of the images, in pixels.")
    tokens: Count | None = Field(default=None, description="Tokens of each text, with padding.")
    output: Text = Field(description="Name of the output.")
    max_abs: float | None = Field(description="The largest absolute difference.")
    max_rel: float | None = Field(description="The same, divided by the largest value in JAX.")
    cosine: float | None = Field(description="Cosine similarity of all values together.")
    level: Level = Field(
        default="all",
        description="Optimization level of ONNX Runtime; of several levels, that with the largest "
        "error.",
    )
    excused: float = Field(
        default=0,
        ge=0,
        le=1,
        description="Share of the numbers that agree only with what JAX returns for inputs moved "
        "by rounding. It is computed for networks that rank their results.",
    )

    @field_validator("max_abs", "max_rel", "cosine", mode="before")
    @classmethod
    def _finite_or_none(cls, value: object) -> object:
        """Return None for an infinite value or NaN, and other values unchanged."""
        return None if isinstance(value, float) and not math.isfinite(value) else value

    @property
    def size(self) -> str:
        """The height and width of the images, or the number of tokens of the texts, in words."""
        return f"{self.height} x {self.width}" if self.height else f"{self.tokens} tokens"

    def error(self, measure: Measure) -> float | None:
        """Return the difference in this measure. None stands for an infinite value or NaN."""
        return {"max_abs": self.max_abs, "max_rel": self.max_rel, "cosine": self.cosine}[measure]


class Verification(Model):
    """Comparisons of a file with JAX, and the limit that they have to keep."""

    input: Text = Field(description="The inputs that it was run on, in words.")
    measure: Measure = Field(description="The error that is compared with the limit.")
    limit: float = Field(description="The largest allowed error, or the smallest `cosine`.")
    passed: bool = Field(description="Whether all comparisons are within the limit.")
    comparisons: tuple[Comparison, ...] = Field(description="Every output at every size tried.")
    levels: tuple[Level, ...] = Field(
        default=("all",),
        description="Optimization levels of ONNX Runtime at which the first input was run.",
    )
    untaken: tuple[Text, ...] = Field(
        default=(),
        description="Branches, numbers of loop turns and sides of an index's bounds that no input "
        "took, with the line of the source: the file was not compared there.",
    )


def find_worst_error(comparisons: Sequence[Comparison], measure: Measure) -> float | None:
    """Return the largest error of some comparisons, or the smallest cosine.

    Return None if there are no comparisons, or if one of them has no finite value.
    """
    errors = [
        error for comparison in comparisons if (error := comparison.error(measure)) is not None
    ]
    if not errors or len(errors) < len(comparisons):
        return None
    return min(errors) if measure == "cosine" else max(errors)


class StatedSimilarity(Model):
    """Similarity of an image and a text: `scale` times the cosine of their vectors, plus `bias`."""

    scale: float = Field(description="Factor of the cosine.")
    bias: float = Field(description="Number that is added.")
    probabilities: Literal["sigmoid", "softmax"] = Field(
        default="sigmoid",
        description="Function from these sums to probabilities: `sigmoid` for each text by itself, "
        "`softmax` for all texts together, which then exclude each other.",
    )


class Speed(Model):
    """Speed of a variant."""

    p50_ms: float = Field(description="Median time of its runs, in milliseconds.")
    ratio: float | None = Field(description="Time of `fp32` divided by its time; null without one.")


Ranging = Literal["dynamic", "minmax"]
"""The ranges of activations in an int8 file.

They are computed for every input (`dynamic`), or are the smallest and the largest number on
calibration pictures (`minmax`).
"""


class RangedFile(Model):
    """An int8 file that was exported and measured, whether or not it was chosen."""

    cosine: float | None = Field(
        description="Smallest cosine of an output against float32 on the held-out pictures; null "
        "if it is NaN."
    )
    speed: Speed = Field(description="In ONNX Runtime on the CPU, relative to the float32 file.")


class Calibration(Model):
    """Choice of the activation ranges of an int8 file, and the pictures that it was made with."""

    method: Ranging = Field(description="The candidate that the file is.")
    pictures: Count = Field(description="Number of pictures that the ranges were computed from.")
    held_out: Count = Field(description="Number of other pictures, on which they were measured.")
    sha256: Digest = Field(
        description="Digest of the output of `sha256sum` for all pictures, sorted by name."
    )
    candidates: dict[Ranging, RangedFile] = Field(description="All candidates, by method.")


class Speeds(Model):
    """Speeds of the variants of a folder, measured in interleaved rounds."""

    runtime: Line = Field(description="Runtime and version that ran them.")
    machine: Line = Field(description="Processor, number of cores, and operating system.")
    others: float | None = Field(
        default=None,
        ge=0,
        description="Number of cores that other programs used meanwhile; null if not known.",
    )
    input: tuple[Count, ...] = Field(description="Shape of the input.")
    rounds: Count = Field(description="Number of runs of each variant.")
    variants: dict[Label, Speed] = Field(description="By name, without those that cannot run.")

    @property
    def load_description(self) -> str:
        """A sentence about the load of the machine by other programs, which may lengthen times."""
        return describe_load(self.others)


BUSY_CORES = 0.25
"""The number of cores in use by other programs from which measured times are not reliable."""


def is_busy(cores: float | None) -> bool:
    """Return whether other programs used at least `BUSY_CORES` cores, so that times are too long.

    `cores` is the number of cores that they used, or None if it is not known. Return False for
    None.
    """
    return cores is not None and cores >= BUSY_CORES


def describe_load(cores: float | None) -> str:
    """Return a sentence about the load of the machine by other programs during a measurement.

    `cores` is the number of cores that they used, or None if it was not measured.
    """
    if cores is None:
        return "whether the machine was busy is not known"
    if not is_busy(cores):
        return "the machine was quiet"
    return f"the machine was busy: other programs took {cores:.1f} cores, so the times are too long"
