"""What a manifest says of pictures before they reach the network."""

from typing import Literal

from pydantic import Field, field_validator

from zoo.architectures.parts.preprocessing import Preprocessing
from zoo.common.fields import Edge, Factor, Model, Size, Three

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
