"""What was measured of a manifest's files: how far they are from JAX, and how fast."""

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import Field, field_validator

from zoo.common.fields import Count, Digest, Label, Line, Model, Text

Measure = Literal["max_abs", "max_rel", "cosine"]

Level = Literal["disabled", "basic", "extended", "all"]


class Comparison(Model):
    """How far ONNX Runtime's output is from JAX's, at one batch and size.

    What would be infinite, or not a number, is null.
    """

    batch: Count = Field(description="Images at once, or texts where there are none.")
    height: Count | None = Field(default=None, description="Of the images, in pixels.")
    width: Count | None = Field(default=None, description="Of the images, in pixels.")
    tokens: Count | None = Field(default=None, description="Words of each text, with its padding.")
    output: Text = Field(description="Which output was compared.")
    max_abs: float | None = Field(description="The largest absolute difference.")
    max_rel: float | None = Field(description="The same, divided by the largest value in JAX.")
    cosine: float | None = Field(description="Cosine similarity of all values together.")
    level: Level = Field(
        default="all",
        description="How much of ONNX Runtime's optimiser ran; of several that were tried, where "
        "the error was largest.",
    )
    excused: float = Field(
        default=0,
        ge=0,
        le=1,
        description="What share of its numbers is right only as what JAX gives for inputs that are "
        "moved by rounding, which is asked of networks that rank what they find.",
    )

    @field_validator("max_abs", "max_rel", "cosine", mode="before")
    @classmethod
    def _or_none(cls, value: object) -> object:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    @property
    def size(self) -> str:
        """Size of the images, or else of the texts."""
        return f"{self.height} x {self.width}" if self.height else f"{self.tokens} words"

    def error(self, measure: Measure) -> float | None:
        """The error that counts."""
        return {"max_abs": self.max_abs, "max_rel": self.max_rel, "cosine": self.cosine}[measure]


class Verification(Model):
    """Comparisons of a file, and what was asked of it."""

    input: Text = Field(description="What it was run on.")
    measure: Measure = Field(description="Which error counts.")
    limit: float = Field(description="The largest error that is right, or the least `cosine`.")
    passed: bool = Field(description="Whether all comparisons are within the limit.")
    comparisons: tuple[Comparison, ...] = Field(description="Every output at every size tried.")
    levels: tuple[Level, ...] = Field(
        default=("all",),
        description="At which levels of ONNX Runtime's optimiser the first input was tried.",
    )
    untaken: tuple[Text, ...] = Field(
        default=(),
        description="Branches, numbers of turns and sides of an index's bounds that no input took, "
        "with the line of the source: nothing is known of the file there.",
    )


def worst(comparisons: Sequence[Comparison], measure: Measure) -> float | None:
    """The largest error, or the least cosine; None if one of them is no number."""
    errors = [error for each in comparisons if (error := each.error(measure)) is not None]
    if not errors or len(errors) < len(comparisons):
        return None
    return min(errors) if measure == "cosine" else max(errors)


class StatedSimilarity(Model):
    """How an image and a text fit: `scale` times the cosine of their vectors, plus `bias`."""

    scale: float = Field(description="What the cosine is multiplied by.")
    bias: float = Field(description="What is added.")
    probabilities: Literal["sigmoid", "softmax"] = Field(
        default="sigmoid",
        description="What makes probabilities of these sums: of each text by itself, or of all "
        "texts together, which then exclude each other.",
    )


class Speed(Model):
    """How fast a variant is."""

    p50_ms: float = Field(description="Median of its runs, in milliseconds.")
    ratio: float | None = Field(description="How many times faster than `fp32`; null without one.")


Ranging = Literal["dynamic", "minmax"]
"""How an int8 file knows the ranges of activations: it computes them anew for every input; or they
go from the least to the largest number on some pictures."""


class RangedFile(Model):
    """An int8 file that was made and measured, whether or not it was chosen."""

    cosine: float | None = Field(
        description="The least of an output on a picture that was held out, against float32; null "
        "if it is no number."
    )
    speed: Speed = Field(description="In ONNX Runtime on the CPU, beside the float32 file.")


class Calibration(Model):
    """How the ranges of an int8 file's activations were chosen, and on which pictures."""

    method: Ranging = Field(description="Which of the candidates the file is.")
    pictures: Count = Field(description="How many gave the ranges.")
    held_out: Count = Field(description="How many others the candidates were measured on.")
    sha256: Digest = Field(
        description="Digest of what `sha256sum` prints of all of them, by names in their folder."
    )
    candidates: dict[Ranging, RangedFile] = Field(description="Measured in the same rounds.")


class Speeds(Model):
    """How fast the variants are beside each other, measured in interleaved rounds."""

    runtime: Line = Field(description="What ran them.")
    machine: Line = Field(description="Processor, number of cores, and operating system.")
    others: float | None = Field(
        default=None,
        ge=0,
        description="How many cores other programs kept busy meanwhile; null where it is unknown.",
    )
    input: tuple[Count, ...] = Field(description="Shape of what they were run on.")
    rounds: Count = Field(description="How often each was run.")
    variants: dict[Label, Speed] = Field(description="By name; those that cannot run are left out.")

    @property
    def busy_words(self) -> str:
        """Words about what else the machine did meanwhile, and what that means."""
        return busy_words(self.others)


BUSY = 0.25
"""Cores in use by other programs, from which on times are not to be trusted."""


def is_busy(others: float | None) -> bool:
    """Whether that many cores were in use by others, which makes times too long."""
    return others is not None and others >= BUSY


def busy_words(others: float | None) -> str:
    """Words about what other programs did while something was measured, and what that means."""
    if others is None:
        return "whether the machine was busy is not known"
    if not is_busy(others):
        return "the machine was quiet"
    return (
        f"the machine was busy: other programs took {others:.1f} cores, so the times are too long"
    )
