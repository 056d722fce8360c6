"""Hyperparameters of dual encoders: plain data without JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from zoo.architectures.common_config import Opaque, Taken
from zoo.architectures.text.text_config import TextConfig
from zoo.architectures.vit.vit_config import ViTConfig


@dataclass(frozen=True)
class DualConfig(Opaque):
    """Hyperparameters of a network for images beside one for texts, in one space of vectors.

    With a `bias` a logit is for a sigmoid, without for a softmax over texts. With a `temperature`
    cosines are divided by that, without they are multiplied by the exponential of a weight.
    """

    vision: ViTConfig
    words: TextConfig
    bias: bool = True
    temperature: bool = False

    classes: ClassVar[int] = 0
    task: ClassVar[str] = "zero-shot-image-classification"

    @property
    def takes(self) -> tuple[Taken, ...]:
        """Inputs of the network."""
        return ("pixel_values", *self.words.takes)

    @property
    def scores(self) -> Literal["sigmoid", "softmax"]:
        """Function that makes probabilities of logits."""
        return "sigmoid" if self.bias else "softmax"

    @property
    def is_sound(self) -> bool:
        """Whether a network can have these sizes."""
        return self.vision.is_sound and self.words.is_sound and self.dim == self.words.width

    @property
    def dim(self) -> int:
        """Channels of a vector."""
        return self.vision.width

    @property
    def depth(self) -> int:
        """Blocks of both towers."""
        return self.vision.depth + self.words.depth

    @property
    def stride(self) -> int:
        """Pixels along a side of a patch."""
        return self.vision.stride

    @property
    def native(self) -> tuple[int, int] | None:
        """(height, width) of the images that learned positions were trained on."""
        return self.vision.native

    @property
    def text(self) -> str:
        """The architecture in a line."""
        return f"{self.vision.text}; for texts {self.words.depth} blocks of width {self.words.dim}"
