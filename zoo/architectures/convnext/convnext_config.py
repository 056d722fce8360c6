"""Configuration of ConvNeXts. This module is plain data without JAX."""

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
    """Configuration of a ConvNeXt. `depths` and `dims` have an entry for each stage.

    - `depths`, `dims`: number of blocks and of channels of each stage.
    - `norm_eps`: the epsilon of norms.
    - `final_norm_eps`: the epsilon of the norm after the last stage; None if it is `norm_eps`.
    - `layer_scale`: the initial layer scale; None in the second version.
    - `response_norm`: whether blocks have a global response norm, as in the second version.
    - `classes`: the number of classes of a linear classifier; 0 without one.
    - `scores`: how scores are computed from logits, as in `ViTConfig`.
    """

    depths: FourInts = size("blocks.{}.blocks.{}.norm.weight", hf="depths", equimo="depths")
    dims: FourInts = size(
        "blocks.{}.downsample.conv.bias", axis=0, hf="hidden_sizes", equimo="dims"
    )
    activation: Activation = detail(default="gelu", hf=ACTIVATION_KEY, equimo=EQUIMO_ACTIVATION_KEY)
    # transformers' `layer_norm_eps` is one of these two, depending on the class.
    norm_eps: float = detail(default=1e-6, equimo="eps")
    final_norm_eps: float | None = detail(default=None)
    layer_scale: float | None = 1e-6
    response_norm: bool = False
    pool: Literal["token"] = "token"
    classes: int = detail(default=0, leaf=count_classes, equimo="num_classes")
    scores: Scores = detail(default="softmax")

    # See `ViTConfig`. The first row is the mean of the last map, whose pixels are areas of 32 x 32
    # pixels.
    prefix_tokens: ClassVar[int] = 1
    stride: ClassVar[int] = 32
    native_size: ClassVar[None] = None

    @property
    def task(self) -> Task:
        """The task: features, or classes for a classifier."""
        return feature_task(self, "the mean, then the pixels of the last map")

    @property
    def is_consistent(self) -> bool:
        """Whether there are four stages, with at most `MAX_DEPTH` blocks."""
        return len(self.depths) == len(self.dims) == 4 and self.depth <= MAX_DEPTH

    @property
    def description(self) -> str:
        """Description of the architecture in one line."""
        return f"{self.stages_description}{describe_classes(self.classes)}"
