"""Hyperparameters of Swin V2: plain data without JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from zoo.architectures.common_config import DEEPEST, MOST, MultiStageConfig, class_words
from zoo.architectures.parts.layer_options import Activation
from zoo.tasks.answer import Scores
from zoo.tasks.feature_task import feature_task
from zoo.tasks.task import Task

Two = tuple[int, int]


@dataclass(frozen=True)
class StageWindows:
    """How a stage's maps are cut: height and width of a window, and by how much every second block
    moves them."""

    size: Two
    shift: Two


@dataclass(frozen=True)
class SwinConfig(MultiStageConfig):
    """Hyperparameters of a Swin V2, a stage to each entry of `depths` and `heads`; the next stage
    has twice the channels, of half the height and width.

    `window` is the side of a window, or less where a stage's map was smaller in training, whose
    images had `grid` patches (height, width). `pretrained` are the sides of windows of earlier
    training, which positions are counted in, 0 for none. The feed-forward networks are `ratio`
    times as wide as a token. `library` is whose rules decide what the paper leaves open: at sizes
    that windows do not divide, timm moves a map before it is padded, transformers after that;
    transformers takes the same window for both axes and its mask twice.
    """

    embed: int
    depths: tuple[int, ...]
    heads: tuple[int, ...]
    window: int
    grid: Two
    pretrained: tuple[int, ...] = (0, 0, 0, 0)
    ratio: float = 4.0
    patch_size: int = 4
    qkv_bias: bool = True
    activation: Activation = "gelu"
    norm_eps: float = 1e-5
    library: Literal["timm", "transformers"] = "timm"
    pool: Literal["mean"] = "mean"
    classes: int = 0
    scores: Scores = "softmax"

    # As those of `ViTConfig`: all rows are of pixels of the last map.
    prefix_tokens: ClassVar[int] = 0
    crops: ClassVar[bool] = False

    @property
    def task(self) -> Task:
        """Features, or classes."""
        return feature_task(self, "the pixels of the last map", fills=True)

    @property
    def is_sound(self) -> bool:
        """Whether a network can have these sizes."""
        stages = len(self.depths)
        counts = (self.embed, *self.depths, *self.heads, self.window, *self.grid, self.patch_size)
        sized = all(0 < count <= MOST for count in counts) and stages > 0 and self.ratio > 0
        # transformers has four by default, however many stages there are.
        if not sized or not stages == len(self.heads) <= len(self.pretrained):
            return False
        shared = all(dim % heads == 0 for dim, heads in zip(self.dims, self.heads, strict=True))
        before = all(0 <= side <= MOST for side in self.pretrained)
        # A map of the last stage has a pixel at least.
        deep = all(side >> (stages - 1) for side in self.grid)
        few = self.depth <= DEEPEST and self.dim <= MOST and 0 <= self.classes <= MOST
        return shared and before and deep and few

    @property
    def dims(self) -> tuple[int, ...]:
        """Channels of every stage."""
        return tuple(self.embed << stage for stage in range(len(self.depths)))

    @property
    def stride(self) -> int:
        """Pixels along a side of what becomes one row of the output."""
        return self.patch_size << (len(self.depths) - 1)

    @property
    def native(self) -> Two:
        """(height, width) of the images of training."""
        height, width = (side * self.patch_size for side in self.grid)
        return height, width

    @property
    def windows(self) -> tuple[StageWindows, ...]:
        """How each stage cuts its maps: as those of training, whatever the image."""
        return tuple(self._windows(stage) for stage in range(len(self.depths)))

    def _windows(self, stage: int) -> StageWindows:
        if self.library == "transformers":
            sides = [side >> stage for side in self.grid]
        else:
            sides = [-(-side // (1 << stage)) for side in self.grid]
        size = [min(side, self.window) for side in sides]
        shift = [self.window // 2 if side > self.window else 0 for side in sides]
        if self.library == "transformers":
            size, shift = size[:1] * 2, shift[:1] * 2
        return StageWindows((size[0], size[1]), (shift[0], shift[1]))

    @property
    def text(self) -> str:
        """The architecture in a line."""
        windows = f"windows of {self.window} x {self.window}"
        return f"{self.stage_words}, {windows}{class_words(self.classes)}"
