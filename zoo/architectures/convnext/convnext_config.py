"""Hyperparameters of ConvNeXts: plain data without JAX."""

from __future__ import annotations

from typing import ClassVar, Literal

from zoo.architectures.common_config import (
    FourInts,
    MultiStageConfig,
    count_classes,
    describe_classes,
)
from zoo.architectures.config_fields import MAX_DEPTH, config_class, detail, size
from zoo.architectures.parts.layer_options import ACTIVATION_KEY, EQUIMO_ACTIVATION_KEY, Activation
from zoo.tasks.answer import Scores
from zoo.tasks.feature_task import feature_task
from zoo.tasks.task import Task


@config_class
class ConvNeXtConfig(MultiStageConfig):
    """Hyperparameters of a ConvNeXt, a stage to each entry of `depths` and `dims`.

    `response_norm` is what the second version has in place of a layer scale. `final_norm_eps` is
    that of the norm behind the stages, where it is not that of all others.
    """

    depths: FourInts = size("blocks.{}.blocks.{}.norm.weight", hf="depths", equimo="depths")
    dims: FourInts = size(
        "blocks.{}.downsample.conv.bias", axis=0, hf="hidden_sizes", equimo="dims"
    )
    activation: Activation = detail(default="gelu", hf=ACTIVATION_KEY, equimo=EQUIMO_ACTIVATION_KEY)
    # `layer_norm_eps` of transformers is one or the other, by the class.
    norm_eps: float = detail(default=1e-6, equimo="eps")
    final_norm_eps: float | None = detail(default=None)
    layer_scale: float | None = 1e-6
    response_norm: bool = False
    pool: Literal["token"] = "token"
    classes: int = detail(default=0, leaf=count_classes, equimo="num_classes")
    scores: Scores = detail(default="softmax")

    # As those of `ViTConfig`: one row is the mean of the last map, of 32nds of an image.
    prefix_tokens: ClassVar[int] = 1
    stride: ClassVar[int] = 32
    native: ClassVar[None] = None

    @property
    def task(self) -> Task:
        """Features, or classes."""
        return feature_task(self, "the mean, then the pixels of the last map")

    @property
    def is_consistent(self) -> bool:
        """Whether there are four stages, of not too many blocks."""
        return len(self.depths) == len(self.dims) == 4 and self.depth <= MAX_DEPTH

    @property
    def text(self) -> str:
        """The architecture in a line."""
        return f"{self.stages_text}{describe_classes(self.classes)}"
