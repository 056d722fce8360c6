"""Preprocessing of images: plain data without JAX."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Filter = Literal["bilinear", "bicubic"]
CropRounding = Literal["floor", "half_even"]

IMAGENET_PIXELS = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
OPENAI_PIXELS = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
CENTRED_PIXELS = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
"""Means and standard deviations of pixels as published code has them; the last's are in [-1, 1]."""


@dataclass(frozen=True)
class Preprocessing:
    """Steps from 8-bit RGB to `pixel_values`: resize, crop, rescale, normalise.

    `resize` is the length of the shorter edge before a crop of `size` from the centre, or the
    height and width to which the image is stretched before that; None stretches the image straight
    to `size`, height x width, without keeping the aspect ratio.
    `rescale_first` resizes floating-point values (nothing is rounded to 8 bits in between).
    Every filter antialiases. With `multiple` a picture keeps its aspect ratio where the sides are
    free: one side becomes that of `size`, the one that changes it less, and both are rounded to
    that multiple. With `padded` it keeps it everywhere: it becomes as large as fits into `size`,
    and what is left at the right and bottom edge is black. With `padded` and `multiple` its sides
    become multiples, with at most as many squares of that side as `size` has, whatever the aspect
    ratio; squares that are left are padding.
    `crop_rounding` says where a crop begins whose margin is odd: half of it is rounded down, as
    transformers does, or to the even number (`half_even`), as torchvision and so timm do.
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
    def words(self) -> str:
        """The way from a photograph to `pixel_values`, in words."""
        height, width = self.size
        to = f"{height} x {width}"
        if isinstance(self.resize, tuple):
            to = f"{self.resize[0]} x {self.resize[1]}, {to} cropped from the centre"
        elif self.resize is not None:
            to = f"a shorter edge of {self.resize}, {to} cropped from the centre"
        elif self.padded and self.multiple is not None:
            squares = height * width // self.multiple**2
            to = f"{squares} squares of {self.multiple} pixels at most, of the same aspect ratio"
        elif self.padded:
            to = f"what fits into {to}, with black at the right and bottom edge"
        depth = "" if self.rescale_first else ", in 8 bits"
        resized = f"resized to {to} ({self.resample}, antialiased{depth})"
        return f"RGB / 255, {resized}, mean {self.mean}, std {self.std}"

    def fitted(self, height: int, width: int) -> tuple[int, int]:
        """(height, width) that an image of these sides is resized to where the sides are free.

        Source: `DPTImageProcessor` of transformers.
        """
        if self.multiple is None or self.padded:
            return self.size
        tall, wide = self.size[0] / height, self.size[1] / width
        scale, step = (wide if abs(1 - wide) < abs(1 - tall) else tall), self.multiple
        rounded = (max(1, round(scale * side / step)) * step for side in (height, width))
        return next(rounded), next(rounded)

    def at(self, size: tuple[int, int]) -> Preprocessing:
        """The same for another height and width: a crop keeps its share of the shorter edge.

        Of a crop that is no square the edge is what covers both sides.
        """
        if self.resize is None:
            return replace(self, size=size)
        edges = self.covering(size, self.resize)
        return replace(self, size=size, resize=edges if self.is_stretched else max(edges))

    @property
    def is_stretched(self) -> bool:
        """Whether the aspect ratio is lost before a crop."""
        return isinstance(self.resize, tuple)

    def covering(self, size: tuple[int, int], resize: int | tuple[int, int]) -> tuple[int, int]:
        """The edges that cover a crop of `size` by as much as `resize` does at the own size."""
        edges = resize if isinstance(resize, tuple) else (resize, resize)
        tall, wide = (
            round(edge * a / b) for edge, a, b in zip(edges, size, self.size, strict=True)
        )
        return tall, wide
