"""What a manifest says, of a folder that was built as of a single file that was exported."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from converter.opsets import DEFAULT_TARGET
from weights.files import digest_of, sha256
from weights.opening import State, open_inside
from zoo.architectures import architecture
from zoo.artifacts.choices import Input, Layout, Precision, Scales, Target
from zoo.artifacts.measured import Calibration, Speeds, StatedSimilarity, Verification
from zoo.common.errors import BadRequest
from zoo.common.fields import (
    Count,
    Digest,
    Edge,
    Factor,
    Label,
    Line,
    Model,
    Name,
    Size,
    Text,
    Three,
)
from zoo.common.html import html_table
from zoo.images.preprocessing import Preprocessing

LEAST_STD = 1e-6
"""Float32 holds what a pixel becomes by it."""


class StatedPreprocessing(Model):
    """Steps from RGB of 8 bits to `pixel_values`: resize, crop, rescale, normalise."""

    mean: Three = Field(description="Subtracted from red, green and blue after rescaling.")
    std: Three = Field(description="What red, green and blue are divided by; none is near zero.")
    size: Size = Field(description="Height and width of the result, in pixels.")
    resize: Edge | Size | None = Field(
        description="Pixels of the shorter edge before `size` is cropped from the centre, or "
        "height and width to which the image is stretched before that; null stretches it straight "
        "to `size`."
    )
    rescale: Factor = Field(description="What the values from 0 to 255 are multiplied by.")
    rescale_first: bool = Field(description="Whether that comes first, so that nothing is rounded.")
    resample: Literal["bilinear", "bicubic"] = Field(description="The filter, which antialiases.")
    multiple: Edge | None = Field(
        default=None,
        description="Where the sides are free, a picture keeps its aspect ratio, and its sides are "
        "rounded to multiples of this.",
    )
    padded: bool = Field(
        default=False,
        description="Whether a picture keeps its aspect ratio, as large as it fits into the size, "
        "with black at the right and bottom edge.",
    )
    crop_rounding: Literal["floor", "half_even"] = Field(
        default="floor",
        description="How half of an odd margin of the crop is rounded: down, or to the even number "
        "of pixels, as torchvision does.",
    )
    in_file: bool = Field(description="Whether the ONNX files do all this themselves.")

    @field_validator("std")
    @classmethod
    def _check_std(cls, std: Three) -> Three:
        if min(map(abs, std)) < LEAST_STD:
            raise ValueError(f"`preprocessing.std` has a zero, or less than {LEAST_STD}")
        return std

    @property
    def settings(self) -> Preprocessing:
        """Settings with which images are preprocessed in numpy."""
        return Preprocessing(**self.model_dump(exclude={"in_file"}))


MANIFEST = "manifest.json"  # a folder's


class StatedLicence(Model):
    """Terms of the weights, and so of everything that is made from them."""

    name: Line = Field(description="What it is called.")
    text: Line = Field(description="The file with its words in the zoo; in a folder, `LICENSE`.")
    page: Line = Field(description="A page with its words.")
    download: Line = Field(description="The page that gives out the weights, or nothing.")


class StatedWeights(Model):
    """A checkpoint, or random numbers."""

    kind: Label = Field(description="Who named the checkpoint's tensors, as `meta`; or `random`.")
    name: Text | None = Field(default=None, description="The checkpoint's own name, no folder.")
    sha256: Digest | None = Field(default=None, description="Digest of the checkpoint.")
    repository: Line | None = Field(default=None, description="The hub's, as `owner/name`.")
    revision: Line | None = Field(default=None, description="The commit that was downloaded.")
    publisher: Line | None = Field(
        default=None, description="Whose repository it is; not the authors if they have another."
    )
    seed: Annotated[int, Field(ge=0, lt=10**40)] | None = Field(
        default=None, description="What random weights were drawn with."
    )
    rope_periods: Line | None = Field(
        default=None, description="`file`, or `float32` if they are not in it and were computed."
    )
    is_published_file: bool | None = Field(default=None, description="Whether it is the authors'.")
    also_fits: tuple[Label, ...] | None = Field(
        default=None,
        description="Other models that the checkpoint fits, under other terms. That it belongs to "
        "this one, and under its licence, is known only from the person who named the file.",
    )
    folder: Text | None = Field(
        default=None, description="Name of the folder of a file that is called as many are."
    )
    adapter: Text | None = Field(
        default=None, description="Name of the folder of a peft adapter that was merged into it."
    )
    is_embedded_file: bool | None = Field(default=None, description="Whether the zoo holds it.")

    @model_validator(mode="after")
    def _check_seed(self) -> Self:
        if self.kind == "random" and self.seed is None:
            raise ValueError("`weights.seed` is missing, and the weights are random")
        return self


class File(Model):
    """A file that the manifest is about."""

    name: Name = Field(description="Relative to the manifest, with `/` between its parts.")
    bytes: Annotated[int, Field(ge=0, le=1 << 40)] = Field(description="Its size.")
    sha256: Digest = Field(description="Its digest.")

    @classmethod
    def at(cls, path: Path, name: str | None = None, digest: str | None = None) -> Self:
        """The file at a path, under its own name if not another. It is read where its digest is not
        known."""
        size = path.stat().st_size
        return cls(name=name or path.name, bytes=size, sha256=digest or sha256(path))

    def is_complete(self, folder: Path) -> bool:
        """Whether the folder itself, not a link, has a file of this size, whatever is in it."""
        with suppress(OSError), open_inside(folder, self.name) as file:
            return State.of(file).size == self.bytes
        return False

    def is_at(self, folder: Path, step: Callable[[int], None] | None = None) -> bool:
        """Whether the folder has just this file; `step` is told how many bytes were compared."""
        with suppress(OSError), open_inside(folder, self.name) as file:
            same = State.of(file).size == self.bytes
            return same and digest_of(file, step) == self.sha256
        return False


class Tensor(Model):
    """An input or output of an ONNX file."""

    name: Text = Field(description="As in the graph.")
    dtype: Line = Field(description="As numpy calls it, such as `float32`.")
    shape: tuple[Count | Line, ...] = Field(description="Sizes; open ones have names.")

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}[{', '.join(map(str, self.shape))}]"


class StatedNearMiss(Model):
    """Operators that look like a single one of a newer opset, and could not be fused into it."""

    pattern: Line = Field(description="The operator that it would have become.")
    reason: Text = Field(description="Why it did not.")
    count: Count = Field(1, description="How many of them there are.")

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.pattern}: {self.reason}{times}"


class Variant(Model):
    """One ONNX file and what lies beside it."""

    files: tuple[Name, ...] = Field(
        description="Names among the manifest's `files`: one that ends in `.onnx`, and where that "
        "is larger than 2 GB the one with its tensors."
    )
    opset: Count = Field(description="Version of ONNX's operators.")
    ir_version: Count = Field(description="Version of ONNX's file format.")
    precision: Precision = Field(description="Of the weights and of what is computed inside.")
    target: Target = Field(
        DEFAULT_TARGET,
        description="The runtime that it was written for, perhaps some versions alone.",
    )
    attention_layout: Layout = Field(description="4d: `[B, heads, T, D]`; 3d: `[B, T, heads * D]`.")
    inputs: tuple[Tensor, ...] = Field(description="What it takes.")
    outputs: tuple[Tensor, ...] = Field(description="What it gives.")
    nodes: Count = Field(description="How many operators it has.")
    histogram: dict[Line, Count] = Field(description="How many of each operator.")
    fused: dict[Line, Count] = Field(description="How many of each that older opsets do not have.")
    near_misses: tuple[StatedNearMiss, ...] = Field(description="What could not be fused, and why.")
    verification: Verification | None = Field(description="How it was checked; null if not at all.")
    minimum_runtime: Line | None = Field(
        default=None,
        description="The oldest version of ONNX Runtime that it was run in, on a CPU, and was "
        "right; null if it was not run, or not as it is, as bf16 on a CPU.",
    )
    calibration: Calibration | None = Field(
        default=None,
        description="How activations were ranged, where somebody's own pictures had a part in it.",
    )

    scales: Scales | None = Field(
        default=None,
        description="How activations of int8 are scaled that have no measured ranges. By `tensor`, "
        "what an image gets depends on the others of its batch; by `row` it does not.",
    )

    @property
    def file(self) -> str:
        """The ONNX file itself."""
        return next(name for name in self.files if name.endswith(".onnx"))

    @property
    def passed(self) -> bool:
        """Whether it was checked and found right."""
        return self.verification is not None and self.verification.passed


class Manifest(Model):
    """A model's ONNX files: what they are, where they come from, how they were checked.

    There is no folder in it, and no time but where speed was measured: another export on the same
    machine gives the same bytes.
    """

    format: Literal["jax-onnx-zoo manifest"] = Field(description="What this is.")
    format_version: Literal[2] = Field(description="A new one where old readers would be misled.")
    model: Line = Field(description="A model of the zoo, somebody's own name, or nothing.")
    aliases: tuple[Line, ...] = Field(description="Other names of the model in the zoo.")
    source: Text = Field(description="Where the architecture was published.")
    licence: StatedLicence = Field(description="Terms of the weights.")
    parameters: Count = Field(description="How many numbers training adjusts.")
    input: Input = Field(
        description="What the files take: float32 is `pixel_values [batch, 3, height, width]`, "
        "preprocessed; uint8 is `image [batch, height, width, 3]`, RGB of any size."
    )
    size: Size | None = Field(
        description="Height and width, in pixels, that the network gets; null if both are open."
    )
    sizes: Text = Field(description="What happens at which image size, in words.")
    layers: tuple[Count, ...] = Field(description="Blocks, from 1, whose states are outputs too.")
    reshape: bool = Field(description="Whether those are maps `[batch, channels, height, width]`.")
    preprocessing: StatedPreprocessing = Field(
        description="From an image to what the network gets."
    )
    weights: StatedWeights = Field(description="Where the weights come from.")
    tools: dict[Line, Line] = Field(description="Versions of what made the files.")
    files: tuple[File, ...] = Field(max_length=1000, description="All files beside the manifest.")
    variants: dict[Label, Variant] = Field(
        description="The ONNX files by name. One that was exported alone is called by its "
        "precision, or `fused` if that is fp32 and its opset 23 or later."
    )
    complete: bool = Field(description="Whether all is there; false while a folder is being built.")
    speeds: Speeds | None = Field(default=None, description="How fast the variants were.")
    classes: tuple[Line, ...] = Field(
        default=(),
        max_length=1 << 17,
        description="What the classes of `logits` are called, in their order.",
    )
    classifier_takes: Line | None = Field(
        default=None, description="The vector that the linear layer of `logits` takes, in words."
    )
    outputs: tuple[Line, ...] = Field(
        default=(),
        max_length=100,
        description="Outputs that were asked for, beside the states of `layers`; without it those "
        "that the network gives unasked.",
    )
    network: architecture.Config | None = Field(
        default=None,
        description="The network, where the zoo's model of that name has other sizes or classes, "
        "or where there is none of that name, but a family.",
    )

    family: Line = Field(
        default="", description="The architecture of `network`, where that is not the model's name."
    )
    similarity: StatedSimilarity | None = Field(
        default=None, description="Of a network that compares images with texts."
    )

    @field_validator("network")
    @classmethod
    def _check_network(cls, network: architecture.Config | None) -> architecture.Config | None:
        if network is not None and not network.is_sound:
            raise ValueError("`network` has sizes that no network has")
        return network

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        # Some file systems do not tell A from a.
        names = {name.lower() for name in self.listed}
        if len(names) < len(self.files) or MANIFEST in names:
            raise ValueError("it lists a file twice, or itself")
        for name in names:
            if any(str(parent) in {MANIFEST, *names} for parent in PurePosixPath(name).parents):
                raise ValueError(f"it lists {name!r} inside of another file")
        for label, variant in self.variants.items():
            if lost := [name for name in variant.files if name not in self.listed]:
                shown = ascii(lost[0])[:80]
                raise ValueError(f"variant {label} needs {shown}, which is not among its files")
            if sum(name.endswith(".onnx") for name in variant.files) != 1:
                raise ValueError(f"variant {label} is not just one .onnx file")
        if "all" in self.variants or (self.complete and not self.variants):
            raise ValueError("it has no variants, or one called 'all'")
        return self

    def __repr__(self) -> str:
        made = ", ".join(f"{name} (opset {v.opset})" for name, v in self.variants.items())
        return f"<Manifest of {self.model}: {made}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        headings = ("file", "precision", "opset", "target", "nodes", "verified")
        rows = (
            (name, v.precision, v.opset, v.target, v.nodes, "yes" if v.passed else "no")
            for name, v in self.variants.items()
        )
        return html_table(self.model, rows, headings)

    @cached_property
    def listed(self) -> dict[str, File]:
        """The files by name."""
        return {file.name: file for file in self.files}

    @property
    def only(self) -> Variant:
        """The variant of a file that was exported alone."""
        (variant,) = self.variants.values()
        return variant

    def label_of(self, file: str) -> str | None:
        """Name of the variant whose ONNX file is called so, in whatever folder; None without
        one."""
        named = {PurePosixPath(each.file).name: name for name, each in self.variants.items()}
        return named.get(file)

    def one(self, name: str) -> Variant:
        """The variant of this name. **Raises** `BadRequest`."""
        if name not in self.variants:
            names = ", ".join(self.variants)
            raise BadRequest(f"{self.model} has no variant {name!r} there: choose among {names}.")
        return self.variants[name]

    def pick(self, names: Sequence[str]) -> dict[str, Variant]:
        """The variants of these names, or every one for `all`. **Raises** `BadRequest`."""
        asked = self.variants if "all" in names else dict.fromkeys(names)
        return {name: self.one(name) for name in asked}

    def needed(self, names: Collection[str]) -> list[File]:
        """The files of these variants and those that belong to none."""
        parts = {name: set(variant.files) for name, variant in self.variants.items()}
        chosen = set().union(*(parts[name] for name in names))
        others = set().union(*parts.values()) - chosen
        return [file for file in self.files if file.name not in others]

    def changed(self, **changes: object) -> Self:
        """The same with other fields, checked as a new one is."""
        kept = {name: value for name, value in self if name in self.model_fields_set}
        return type(self).model_validate(kept | changes)
