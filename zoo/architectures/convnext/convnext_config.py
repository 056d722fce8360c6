"""Hyperparameters of ConvNeXts: plain data without JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from zoo.architectures.common_config import DEEPEST, MOST, Four, MultiStageConfig, class_words
from zoo.architectures.parts.layer_options import Activation
from zoo.tasks.answer import Scores
from zoo.tasks.feature_task import feature_task
from zoo.tasks.task import Task


@dataclass(frozen=True)
class ConvNeXtConfig(MultiStageConfig):
    """Hyperparameters of a ConvNeXt, a stage to each entry of `depths` and `dims`.

    `response_norm` is what the second version has in place of a layer scale. `final_norm_eps` is
    that of the norm behind the stages, where it is not that of all others.
    """

    depths: Four
    dims: Four
    activation: Activation = "gelu"
    norm_eps: float = 1e-6
    final_norm_eps: float | None = None
    layer_scale: float | None = 1e-6
    response_norm: bool = False
    pool: Literal["token"] = "token"
    classes: int = 0
    scores: Scores = "softmax"

    # As those of `ViTConfig`: one row is the mean of the last map, of 32nds of an image.
    prefix_tokens: ClassVar[int] = 1
    stride: ClassVar[int] = 32
    native: ClassVar[None] = None

    @property
    def task(self) -> Task:
        """Features, or classes."""
        return feature_task(self, "the mean, then the pixels of the last map")

    @property
    def is_sound(self) -> bool:
        """Whether a network can have these sizes."""
        sized = all(0 < count <= MOST for count in (*self.dims, *self.depths))
        return sized and self.depth <= DEEPEST and 0 <= self.classes <= MOST

    @property
    def text(self) -> str:
        """The architecture in a line."""
        return f"{self.stage_words}{class_words(self.classes)}"
