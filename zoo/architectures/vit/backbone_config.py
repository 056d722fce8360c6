"""Hyperparameters of networks on top of a vision transformer: plain data without JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from zoo.architectures.common_config import Opaque, Taken
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.tasks.answer import Scores


@dataclass(frozen=True)
class OnBackbone(Opaque):
    """Facts that a network on top of a vision transformer has of that."""

    backbone: ViTConfig

    takes: ClassVar[tuple[Taken, ...]] = ("pixel_values",)
    words: ClassVar[None] = None
    scores: ClassVar[Scores] = "softmax"

    @property
    def dim(self) -> int:
        """Channels of a token."""
        return self.backbone.dim

    @property
    def depth(self) -> int:
        """Blocks of the backbone."""
        return self.backbone.depth

    @property
    def stride(self) -> int:
        """Pixels along a side of a patch."""
        return self.backbone.stride

    @property
    def native(self) -> tuple[int, int] | None:
        """(height, width) of the images that learned positions were trained on."""
        return self.backbone.native
