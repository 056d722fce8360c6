"""Hyperparameters of Swin V2: plain data without JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from zoo.architectures.common_config import MultiStageConfig, count_classes, describe_classes
from zoo.architectures.config_fields import (
    MAX_DEPTH,
    MAX_SIZE,
    Key,
    Shapes,
    config_class,
    count_numbered_leaves,
    detail,
    length,
    parse_integers,
    setting,
    size,
)
from zoo.architectures.parts.layer_options import ACTIVATION_KEY, Activation
from zoo.tasks.answer import Scores
from zoo.tasks.feature_task import feature_task
from zoo.tasks.task import Task

TwoInts = tuple[int, int]


@dataclass(frozen=True)
class StageWindows:
    """How a stage's maps are cut: height and width of a window, and by how much every second block
    moves them."""

    size: TwoInts
    shift: TwoInts


PATCHES = "patch_embed.proj.weight"
FIRST = "blocks.0.blocks.0."


def _ratio(usual: SwinConfig, shapes: Shapes) -> float:
    """Return how many times as wide the feed-forward networks are; 0 without any."""
    return length(shapes, f"{FIRST}mlp.fc1.weight") / (length(shapes, PATCHES) or 1)


def _has_bias(usual: SwinConfig, shapes: Shapes) -> bool:
    """Return whether queries and values have biases."""
    return shapes(f"{FIRST}attn.q_bias") is not None


def _pretrained(usual: SwinConfig, shapes: Shapes) -> tuple[int, ...]:
    """Return the usual sides of windows, or zeros for more stages than these are of."""
    stages = count_numbered_leaves(shapes, "blocks.{}.blocks.0.norm1.weight")
    return usual.pretrained if len(usual.pretrained) >= stages else (0,) * stages


def _ask_for_windows(config: SwinConfig, shapes: Shapes, settings: object) -> str:
    return 'how large its windows are. Write {"window_size": NUMBER, "image_size": NUMBER}'


WINDOWS_BEFORE = Key("pretrained_window_sizes", read=parse_integers)


@config_class
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

    embed: int = size(PATCHES, hf="embed_dim")
    depths: tuple[int, ...] = size("blocks.{}.blocks.{}.norm1.weight", hf="depths")
    heads: tuple[int, ...] = size("blocks.{}.blocks.0.attn.logit_scale", axis=0, hf="num_heads")
    window: int = setting(hf="window_size", timm="window_size", describe_missing=_ask_for_windows)
    grid: TwoInts = setting()
    pretrained: tuple[int, ...] = setting(
        default=(0, 0, 0, 0), leaf=_pretrained, hf=WINDOWS_BEFORE, timm=WINDOWS_BEFORE, minimum=0
    )
    ratio: float = size(_ratio, default=4.0, hf="mlp_ratio")
    patch_size: int = size(PATCHES, axis=2, default=4, hf="patch_size")
    qkv_bias: bool = detail(default=True, leaf=_has_bias, hf="qkv_bias")
    activation: Activation = detail(default="gelu", hf=ACTIVATION_KEY)
    norm_eps: float = detail(default=1e-5, hf="layer_norm_eps")
    library: Literal["timm", "transformers"] = "timm"
    pool: Literal["mean"] = "mean"
    classes: int = detail(default=0, leaf=count_classes)
    scores: Scores = detail(default="softmax")

    # As those of `ViTConfig`: all rows are of pixels of the last map.
    prefix_tokens: ClassVar[int] = 0
    crops: ClassVar[bool] = False

    @property
    def task(self) -> Task:
        """Features, or classes."""
        return feature_task(self, "the pixels of the last map", fills=True)

    @property
    def is_consistent(self) -> bool:
        """Whether stages have heads that share the channels, windows, and a map."""
        stages = len(self.depths)
        # transformers has four by default, however many stages there are.
        if not 0 < stages == len(self.heads) <= len(self.pretrained):
            return False
        deep = self.depth <= MAX_DEPTH and self.dim <= MAX_SIZE
        shared = all(dim % heads == 0 for dim, heads in zip(self.dims, self.heads, strict=True))
        # A map of the last stage has a pixel at least.
        return deep and shared and all(side >> (stages - 1) for side in self.grid)

    @property
    def dims(self) -> tuple[int, ...]:
        """Channels of every stage."""
        return tuple(self.embed << stage for stage in range(len(self.depths)))

    @property
    def stride(self) -> int:
        """Pixels along a side of what becomes one row of the output."""
        return self.patch_size << (len(self.depths) - 1)

    @property
    def native(self) -> TwoInts:
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
        return f"{self.stages_text}, {windows}{describe_classes(self.classes)}"
