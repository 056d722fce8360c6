"""Hyperparameters of a classifier of patches: plain data without JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from zoo.architectures.common_config import MOST, class_words
from zoo.architectures.vit.vit_config import OnBackbone


@dataclass(frozen=True)
class SegmenterConfig(OnBackbone):
    """Hyperparameters of a linear classifier of patches: a batch norm of what the last `layers`
    blocks make of a patch, and one of `classes`."""

    layers: int
    classes: int

    task: ClassVar[str] = "image-segmentation"

    @property
    def is_sound(self) -> bool:
        """Whether a network can have these sizes."""
        read = 0 < self.layers <= self.depth
        return read and 0 < self.classes <= MOST and self.backbone.is_sound

    @property
    def text(self) -> str:
        """The architecture in a line."""
        read = f"patches of the last {self.layers} blocks" if self.layers > 1 else "patches"
        return f"{self.backbone.text}; {read}{class_words(self.classes)}"
