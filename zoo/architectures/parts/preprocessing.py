"""What is done to a network's images: plain data without JAX."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Filter = Literal["bilinear", "bicubic"]


@dataclass(frozen=True)
class Preprocessing:
    """Steps from 8-bit RGB to `pixel_values`: resize, crop, rescale, normalise.

    `resize` is the length of the shorter edge before a crop of `size` from the centre; None
    stretches the image straight to `size`, height x width, without keeping the aspect ratio.
    `rescale_first` resizes floating-point values (nothing is rounded to 8 bits in between).
    Every filter antialiases. With `multiple` a picture keeps its aspect ratio where the sides are
    free: one side becomes that of `size`, the one that changes it less, and both are rounded to
    that multiple. With `padded` it keeps it everywhere: it becomes as large as fits into `size`,
    and what is left at the right and bottom edge is black.
    """

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    size: tuple[int, int] = (224, 224)
    resize: int | None = None
    rescale: float = 1 / 255
    rescale_first: bool = False
    resample: Filter = "bilinear"
    multiple: int | None = None
    padded: bool = False

    def fitted(self, height: int, width: int) -> tuple[int, int]:
        """(height, width) that an image of these sides is resized to where the sides are free.

        Source: `DPTImageProcessor` of transformers.
        """
        if self.multiple is None:
            return self.size
        tall, wide = self.size[0] / height, self.size[1] / width
        scale, step = (wide if abs(1 - wide) < abs(1 - tall) else tall), self.multiple
        rounded = (max(1, round(scale * side / step)) * step for side in (height, width))
        return next(rounded), next(rounded)

    def at(self, size: tuple[int, int]) -> Preprocessing:
        """The same for another height and width: a crop keeps its share of the shorter edge.

        Of a crop that is no square the edge is what covers both sides.
        """
        edge = self.resize and max(self.covering(size, self.resize))
        return replace(self, size=size, resize=edge)

    def covering(self, size: tuple[int, int], resize: int) -> list[int]:
        """The edges that cover a crop of `size` by as much as `resize` does at the own size."""
        return [round(resize * a / b) for a, b in zip(size, self.size, strict=True)]
