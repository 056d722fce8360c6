"""Define the manifest of a folder that was built, or of a single file that was exported."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from converter.opsets import DEFAULT_TARGET
from weights.files import hash_open_file, sha256
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
    ThreeFactors,
)
from zoo.common.html import html_table
from zoo.images.preprocessing import Preprocessing

MIN_STD = 1e-6
"""Smallest standard deviation: pixels divided by it are finite in float32."""


class StatedPreprocessing(Model):
    """Steps from an RGB image of 8 bits to `pixel_values`: resize, crop, rescale, normalize."""

    mean: ThreeFactors = Field(description="Subtracted from red, green and blue after rescaling.")
    std: ThreeFactors = Field(
        description="What red, green and blue are divided by; none is near zero."
    )
    size: Size = Field(description="Height and width of the result, in pixels.")
    resize: Edge | Size | None = Field(
        description="Pixels of the shorter edge before `size` is cropped from the centre, or "
        "height and width to which the image is stretched before that; null stretches it straight "
        "to `size`."
    )
    rescale: Factor = Field(description="Factor of the values from 0 to 255.")
    rescale_first: bool = Field(
        description="Whether images are rescaled before they are resized, so that resizing does "
        "not round to whole numbers."
    )
    resample: Literal["bilinear", "bicubic"] = Field(description="The filter, with antialiasing.")
    multiple: Edge | None = Field(
        default=None,
        description="If given, an image keeps its aspect ratio, and its sides are rounded to "
        "multiples of this number.",
    )
    padded: bool = Field(
        default=False,
        description="Whether an image keeps its aspect ratio, is made as large as `size` allows, "
        "and is padded with black at the right and bottom edge.",
    )
    crop_rounding: Literal["floor", "half_even"] = Field(
        default="floor",
        description="How half of an odd margin of the crop is rounded: down, or to the even number "
        "of pixels, as torchvision does.",
    )
    in_file: bool = Field(description="Whether the ONNX files preprocess images themselves.")

    @field_validator("std")
    @classmethod
    def _check_std(cls, std: ThreeFactors) -> ThreeFactors:
        """Return `std` unchanged. **Raises** `ValueError` if a number in it is nearly zero."""
        if min(map(abs, std)) < MIN_STD:
            raise ValueError(f"`preprocessing.std` has a zero, or less than {MIN_STD}")
        return std

    @property
    def settings(self) -> Preprocessing:
        """These steps as the settings that numpy preprocessing takes."""
        return Preprocessing(**self.model_dump(exclude={"in_file"}))


MANIFEST = "manifest.json"
"""Name of the manifest in a folder."""


class StatedLicence(Model):
    """Licence of the weights, and so of everything that is made from them."""

    name: Line = Field(description="Name of the licence.")
    text: Line = Field(description="File with its text in the zoo; in a folder, `LICENSE`.")
    page: Line = Field(description="Page with its text.")
    download: Line = Field(description="Page where the weights are requested, or empty.")


class StatedWeights(Model):
    """Origin of the weights: a checkpoint, or random numbers."""

    kind: Label = Field(description="Naming of the checkpoint's tensors, as `meta`; or `random`.")
    name: Text | None = Field(default=None, description="Name of the checkpoint, without folder.")
    sha256: Digest | None = Field(default=None, description="Digest of the checkpoint.")
    repository: Line | None = Field(default=None, description="Repository, as `owner/name`.")
    revision: Line | None = Field(default=None, description="The commit that was downloaded.")
    publisher: Line | None = Field(
        default=None, description="Owner of the repository, who may not be the authors."
    )
    seed: Annotated[int, Field(ge=0, lt=10**40)] | None = Field(
        default=None, description="Seed of random weights."
    )
    rope_periods: Line | None = Field(
        default=None,
        description="Origin of the rotary periods: `file`, or `float32` if the file has none and "
        "they were computed.",
    )
    is_published_file: bool | None = Field(
        default=None, description="Whether it is the file that the authors published."
    )
    also_fits: tuple[Label, ...] | None = Field(
        default=None,
        description="Other models with another licence that the checkpoint fits. That it belongs "
        "to this model is the statement of the person who named the file.",
    )
    folder: Text | None = Field(
        default=None, description="Name of the folder, for a file with a common name."
    )
    adapter: Text | None = Field(
        default=None, description="Name of the folder of a peft adapter that was merged into it."
    )
    is_embedded_file: bool | None = Field(
        default=None, description="Whether the file is part of this package."
    )

    @model_validator(mode="after")
    def _check_seed(self) -> Self:
        """Return this object unchanged.

        **Raises** `ValueError` for random weights without a seed.
        """
        if self.kind == "random" and self.seed is None:
            raise ValueError("`weights.seed` is missing, and the weights are random")
        return self


class File(Model):
    """A file that a manifest lists."""

    name: Name = Field(description="Path relative to the manifest, with `/` between its parts.")
    bytes: Annotated[int, Field(ge=0, le=1 << 40)] = Field(description="Size of the file.")
    sha256: Digest = Field(description="Digest of the file.")

    @classmethod
    def at(cls, path: Path, name: str | None = None, digest: str | None = None) -> Self:
        """Return the record of the file at a path.

        `name` replaces the name of the file. `digest` is the sha256 of the file. Without it, the
        file is read to compute the digest.
        """
        size = path.stat().st_size
        return cls(name=name or path.name, bytes=size, sha256=digest or sha256(path))

    def has_full_size_in(self, folder: Path) -> bool:
        """Return whether a folder has a regular file of this name and size.

        The content is not read. The result is False if the file or a folder between them is a
        symbolic link.
        """
        with suppress(OSError), open_inside(folder, self.name) as file:
            return State.of(file).size == self.bytes
        return False

    def is_intact_in(self, folder: Path, step: Callable[[int], None] | None = None) -> bool:
        """Return whether a folder has a regular file of this name, size and digest.

        The result is False if the file or a folder between them is a symbolic link. `step` is
        called with the number of bytes of each piece that is read.
        """
        with suppress(OSError), open_inside(folder, self.name) as file:
            has_size = State.of(file).size == self.bytes
            return has_size and hash_open_file(file, step) == self.sha256
        return False


class Tensor(Model):
    """An input or output of an ONNX file."""

    name: Text = Field(description="Name in the graph.")
    dtype: Line = Field(description="Name of the dtype in numpy, such as `float32`.")
    shape: tuple[Count | Line, ...] = Field(description="Sizes; an open size is a name.")

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}[{', '.join(map(str, self.shape))}]"


class StatedNearMiss(Model):
    """Operators that resemble a single operator of a newer opset and could not be fused into it."""

    pattern: Line = Field(description="The operator that they resemble.")
    reason: Text = Field(description="Reason why they were not fused.")
    count: Count = Field(1, description="Number of such places in the graph.")

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.pattern}: {self.reason}{times}"


class Variant(Model):
    """One ONNX file with its sidecar."""

    files: tuple[Name, ...] = Field(
        description="Names among the manifest's `files`: one that ends in `.onnx`, and above 2 GB "
        "the sidecar with its tensors."
    )
    opset: Count = Field(description="Version of ONNX's operators.")
    ir_version: Count = Field(description="Version of ONNX's file format.")
    precision: Precision = Field(description="Number format of weights and computations.")
    target: Target = Field(
        DEFAULT_TARGET,
        description="Runtime that the file was written for, with a bound on its version if any.",
    )
    attention_layout: Layout = Field(description="4d: `[B, heads, T, D]`; 3d: `[B, T, heads * D]`.")
    inputs: tuple[Tensor, ...] = Field(description="Inputs of the file.")
    outputs: tuple[Tensor, ...] = Field(description="Outputs of the file.")
    nodes: Count = Field(description="Number of nodes.")
    histogram: dict[Line, Count] = Field(description="Number of nodes by operator.")
    fused: dict[Line, Count] = Field(description="Number of fused operators, by operator.")
    near_misses: tuple[StatedNearMiss, ...] = Field(
        description="Blocks that were nearly fused, with the reason why they were not."
    )
    verification: Verification | None = Field(
        description="Comparison with JAX; null if the file was not verified."
    )
    minimum_runtime: Line | None = Field(
        default=None,
        description="Oldest version of ONNX Runtime in which it ran on a CPU and passed; null if "
        "it was not run, or was emulated, as bf16 on a CPU.",
    )
    calibration: Calibration | None = Field(
        default=None,
        description="Choice of the activation ranges, if they come from the user's pictures.",
    )

    scales: Scales | None = Field(
        default=None,
        description="Scaling of int8 activations without measured ranges. With `tensor` the result "
        "for an image depends on the other images of its batch; with `row` it does not.",
    )

    @property
    def file(self) -> str:
        """The name of the ONNX file. The sidecar, if there is one, is not included."""
        return next(name for name in self.files if name.endswith(".onnx"))

    @property
    def passed(self) -> bool:
        """Whether the file was verified and passed."""
        return self.verification is not None and self.verification.passed


class Manifest(Model):
    """Description of a model's ONNX files: contents, origin and verification.

    It contains no folder and no time except measured speeds, so that another export on the same
    machine writes the same bytes.
    """

    format: Literal["jax-onnx-zoo manifest"] = Field(description="Name of this format.")
    format_version: Literal[2] = Field(
        description="Version of the format; it changes if older readers would be misled."
    )
    model: Line = Field(description="Name of a model of the zoo, a user's name, or empty.")
    aliases: tuple[Line, ...] = Field(description="Other names of the model in the zoo.")
    source: Text = Field(description="Publication of the architecture.")
    licence: StatedLicence = Field(description="Licence of the weights.")
    parameters: Count = Field(description="Number of trained parameters.")
    input: Input = Field(
        description="Input of the files: float32 is `pixel_values [batch, 3, height, width]`, "
        "preprocessed; uint8 is `image [batch, height, width, 3]`, RGB of any size."
    )
    size: Size | None = Field(
        description="Height and width in pixels at the network; null if both are open."
    )
    sizes: Text = Field(description="Image sizes and their treatment, in words.")
    layers: tuple[Count, ...] = Field(
        description="Blocks, counted from 1, whose hidden states are outputs too."
    )
    reshape: bool = Field(
        description="Whether hidden states are maps `[batch, channels, height, width]`."
    )
    preprocessing: StatedPreprocessing = Field(
        description="Steps from an image to the input of the network."
    )
    weights: StatedWeights = Field(description="Origin of the weights.")
    tools: dict[Line, Line] = Field(description="Versions of the programs that made the files.")
    files: tuple[File, ...] = Field(max_length=1000, description="All files beside the manifest.")
    variants: dict[Label, Variant] = Field(
        description="The ONNX files by name of the variant. A file that was exported alone has the "
        "name of its precision, or `fused` if it is fp32 of opset 23 or later."
    )
    complete: bool = Field(
        description="Whether all files exist; false while a folder is being built."
    )
    speeds: Speeds | None = Field(default=None, description="Measured speeds of the variants.")
    classes: tuple[Line, ...] = Field(
        default=(),
        max_length=1 << 17,
        description="Names of the classes of `logits`, in their order.",
    )
    classifier_takes: Line | None = Field(
        default=None, description="Input of the linear layer that computes `logits`, in words."
    )
    outputs: tuple[Line, ...] = Field(
        default=(),
        max_length=100,
        description="Requested outputs, in addition to the states of `layers`; by default the "
        "usual outputs of the network.",
    )
    network: architecture.Config | None = Field(
        default=None,
        description="Configuration of the network, if the zoo has no model of that name or one "
        "with other sizes or classes.",
    )

    family: Line = Field(
        default="", description="Family of `network`, if it is not the model's name."
    )
    similarity: StatedSimilarity | None = Field(
        default=None, description="Similarity, for a network that compares images with texts."
    )

    @field_validator("network")
    @classmethod
    def _check_network(cls, network: architecture.Config | None) -> architecture.Config | None:
        """Return `network` unchanged.

        **Raises** `ValueError` if its sizes are impossible for a network.
        """
        if network is not None and not network.is_sound:
            raise ValueError("`network` has sizes that no network has")
        return network

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        """Return the manifest unchanged, if its files and variants agree.

        **Raises** `ValueError` if a file is listed twice, with case ignored, if the manifest lists
        itself, or if a file lies inside another file. Raises it also if a variant needs an unlisted
        file, does not have exactly one .onnx file or is called `all`, or if a complete manifest has
        no variants.
        """
        # Some file systems do not distinguish upper and lower case.
        names = {name.lower() for name in self.files_by_name}
        if len(names) < len(self.files) or MANIFEST in names:
            raise ValueError("it lists a file twice, or itself")
        for name in names:
            if any(str(parent) in {MANIFEST, *names} for parent in PurePosixPath(name).parents):
                raise ValueError(f"it lists {name!r} inside of another file")
        for label, variant in self.variants.items():
            if missing := [name for name in variant.files if name not in self.files_by_name]:
                quoted_name = ascii(missing[0])[:80]
                raise ValueError(
                    f"variant {label} needs {quoted_name}, which is not among its files"
                )
            if sum(name.endswith(".onnx") for name in variant.files) != 1:
                raise ValueError(f"variant {label} is not just one .onnx file")
        if "all" in self.variants or (self.complete and not self.variants):
            raise ValueError("it has no variants, or one called 'all'")
        return self

    def __repr__(self) -> str:
        variants = ", ".join(f"{name} (opset {v.opset})" for name, v in self.variants.items())
        return f"<Manifest of {self.model}: {variants}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        headings = ("file", "precision", "opset", "target", "nodes", "verified")
        rows = (
            (name, v.precision, v.opset, v.target, v.nodes, "yes" if v.passed else "no")
            for name, v in self.variants.items()
        )
        return html_table(self.model, rows, headings)

    @cached_property
    def files_by_name(self) -> dict[str, File]:
        """The listed files by name."""
        return {file.name: file for file in self.files}

    @property
    def only_variant(self) -> Variant:
        """The one variant of a manifest that describes a single exported file.

        **Raises** `ValueError` if the number of variants is not 1.
        """
        (variant,) = self.variants.values()
        return variant

    def find_variant_name(self, file: str) -> str | None:
        """Return the name of the variant whose ONNX file has this name.

        `file` is a name without folders. The folders of the variants' files are ignored. Return
        None if there is no such variant.
        """
        labels = {PurePosixPath(variant.file).name: name for name, variant in self.variants.items()}
        return labels.get(file)

    def get_variant(self, name: str) -> Variant:
        """Return the variant of this name. **Raises** `BadRequest` if there is none."""
        if name not in self.variants:
            names = ", ".join(self.variants)
            raise BadRequest(f"{self.model} has no variant {name!r} there: choose among {names}.")
        return self.variants[name]

    def select_variants(self, names: Sequence[str]) -> dict[str, Variant]:
        """Return the variants of these names by name. The name `all` selects all variants.

        **Raises** `BadRequest` for an unknown name.
        """
        requested = self.variants if "all" in names else dict.fromkeys(names)
        return {name: self.get_variant(name) for name in requested}

    def select_files(self, names: Collection[str]) -> list[File]:
        """Return the files of some variants and the files of no variant, in the manifest's order.

        `names` are the names of the variants, which must exist.
        """
        files_of_variants = {name: set(variant.files) for name, variant in self.variants.items()}
        selected = set().union(*(files_of_variants[name] for name in names))
        unwanted = set().union(*files_of_variants.values()) - selected
        return [file for file in self.files if file.name not in unwanted]

    def with_changes(self, **changes: object) -> Self:
        """Return a copy of the manifest with some fields replaced, after validating it.

        **Raises** pydantic's `ValidationError` if the result is invalid.
        """
        unchanged = {name: value for name, value in self if name in self.model_fields_set}
        return type(self).model_validate(unchanged | changes)
