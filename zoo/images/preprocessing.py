"""Preprocessing of images: plain data without JAX."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Filter = Literal["bilinear", "bicubic"]
CropRounding = Literal["floor", "half_even"]

IMAGENET_PIXELS = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
OPENAI_PIXELS = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
CENTRED_PIXELS = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
"""Means and standard deviations of pixels in published code.

The numbers of `CENTRED_PIXELS` map pixels to [-1, 1].
"""


@dataclass(frozen=True)
class Preprocessing:
    """The steps from 8-bit RGB to `pixel_values`: resize, crop, rescale, normalize.

    - `mean`, `std`: the numbers that are subtracted from red, green and blue after rescaling, and
      by which the differences are divided.
    - `size`: the (height, width) of the result.
    - `resize`: the length of the shorter edge before a crop of `size` from the centre, or the
      (height, width) to which the image is stretched before the crop. None stretches the image to
      `size` without keeping the aspect ratio.
    - `rescale`: the factor of the 8-bit values.
    - `rescale_first`: whether floating-point values are resized, so that nothing is rounded to 8
      bits in between.
    - `resample`: the filter, which always antialiases.
    - `multiple`: if the height and width of the input are symbolic, a picture keeps its aspect
      ratio. The side that changes less gets the length in `size`, and both sides are rounded to
      this multiple.
    - `padded`: whether a picture keeps its aspect ratio in every case. It gets the largest size
      that fits into `size`, with black at the right and bottom edge.
    - `crop_rounding`: how half of an odd margin of a crop is rounded: down, as in transformers, or
      to the even number (`half_even`), as in torchvision and timm.
    """

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    size: tuple[int, int] = (224, 224)
    resize: int | tuple[int, int] | None = None
    rescale: float = 1 / 255
    rescale_first: bool = False
    resample: Filter = "bilinear"
    multiple: int | None = None
    padded: bool = False
    crop_rounding: CropRounding = "floor"

    @property
    def description(self) -> str:
        """A description in words of the steps from a photograph to `pixel_values`."""
        height, width = self.size
        target = f"{height} x {width}"
        if isinstance(self.resize, tuple):
            target = f"{self.resize[0]} x {self.resize[1]}, {target} cropped from the centre"
        elif self.resize is not None:
            target = f"a shorter edge of {self.resize}, {target} cropped from the centre"
        elif self.padded and self.multiple is not None:
            squares = height * width // self.multiple**2
            target = (
                f"{squares} squares of {self.multiple} pixels at most, of the same aspect ratio"
            )
        elif self.padded:
            target = f"what fits into {target}, with black at the right and bottom edge"
        bits = "" if self.rescale_first else ", in 8 bits"
        resized = f"resized to {target} ({self.resample}, antialiased{bits})"
        return f"RGB / 255, {resized}, mean {self.mean}, std {self.std}"

    def input_size_for(self, height: int, width: int) -> tuple[int, int]:
        """Return the (height, width) of the network's input for an image of this height and width.

        It is `size`, unless `multiple` is set and pictures are not padded. Then the image keeps its
        aspect ratio: the side that changes less gets its length in `size`, and both sides are
        rounded to multiples of `multiple`. Source: `DPTImageProcessor` of transformers.
        """
        if self.multiple is None or self.padded:
            return self.size
        height_scale, width_scale = self.size[0] / height, self.size[1] / width
        scale, step = (
            (width_scale if abs(1 - width_scale) < abs(1 - height_scale) else height_scale),
            self.multiple,
        )
        rounded = (max(1, round(scale * side / step)) * step for side in (height, width))
        return next(rounded), next(rounded)

    def with_size(self, size: tuple[int, int]) -> Preprocessing:
        """Return the same preprocessing for another input size (height, width).

        `resize` changes by the same factor, so that a crop shows the same share of the picture. If
        height and width have different factors and `resize` is the shorter edge, the larger factor
        is used.
        """
        if self.resize is None:
            return replace(self, size=size)
        edges = self.size_before_crop(size, self.resize)
        return replace(self, size=size, resize=edges if self.is_stretched else max(edges))

    @property
    def is_stretched(self) -> bool:
        """Whether an image is resized without keeping its aspect ratio before a crop.

        False if there is no crop.
        """
        return isinstance(self.resize, tuple)

    def size_before_crop(
        self, size: tuple[int, int], resize: int | tuple[int, int]
    ) -> tuple[int, int]:
        """Return the (height, width) `resize * size / self.size`, rounded.

        An image is resized to it, or so that it covers it, before a crop of `size`. `resize` is the
        edge, or the (height, width), to which an image is resized for this preprocessing's own
        size.
        """
        edges = resize if isinstance(resize, tuple) else (resize, resize)
        height_scale, width_scale = (
            round(edge * a / b) for edge, a, b in zip(edges, size, self.size, strict=True)
        )
        return height_scale, width_scale
