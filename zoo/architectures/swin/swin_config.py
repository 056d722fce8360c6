"""Configuration of Swin V2. This module is plain data without JAX."""

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
    """Windows of a stage.

    - `size`: (height, width) of a window.
    - `shift`: the numbers of pixels, along (height, width), by which windows are shifted in every
      second block.
    """

    size: TwoInts
    shift: TwoInts


PATCHES = "patch_embed.proj.weight"
FIRST_BLOCK = "blocks.0.blocks.0."


def _ratio(config: SwinConfig, shapes: Shapes) -> float:
    """Return the ratio of channels inside a checkpoint's feed-forward networks to those of a token.

    It is read from the first block and the patch embedding. It is 0 if there is no such block.
    """
    return length(shapes, f"{FIRST_BLOCK}mlp.fc1.weight") / (length(shapes, PATCHES) or 1)


def _has_bias(config: SwinConfig, shapes: Shapes) -> bool:
    """Return True if the queries and values of a checkpoint's first block have biases."""
    return shapes(f"{FIRST_BLOCK}attn.q_bias") is not None


def _pretrained(config: SwinConfig, shapes: Shapes) -> tuple[int, ...]:
    """Return the sides of the windows of earlier training. No leaf determines them, so they are
    those of `config`, or zeros if the checkpoint has more stages than `config` has sides."""
    stages = count_numbered_leaves(shapes, "blocks.{}.blocks.0.norm1.weight")
    return config.pretrained if len(config.pretrained) >= stages else (0,) * stages


def _describe_missing_windows(config: SwinConfig, shapes: Shapes, settings: object) -> str:
    """Return a description of the size of windows, for the message that no file states it. The
    arguments are not used."""
    return 'how large its windows are. Write {"window_size": NUMBER, "image_size": NUMBER}'


PRETRAINED_WINDOWS_KEY = Key("pretrained_window_sizes", read=parse_integers)


@config_class
class SwinConfig(MultiStageConfig):
    """Configuration of a Swin V2. `depths` and `heads` have an entry for each stage. Each stage has
    twice the channels of the stage before, and half its height and width.

    - `embed`: the number of channels of the first stage.
    - `depths`, `heads`: the number of blocks and of attention heads of each stage.
    - `window`: the side of a window. Windows are smaller in a stage whose map was smaller in
      training.
    - `grid`: the numbers of patches along (height, width) of the pictures of training.
    - `pretrained`: the side of a stage's windows in earlier training, in which relative positions
      are measured; 0 if there was none.
    - `ratio`: the ratio of the channels inside a feed-forward network to those of a token.
    - `patch_size`: the number of pixels along a side of a patch.
    - `qkv_bias`: whether queries and values have biases.
    - `library`: the library whose rules are used where the paper states none. For sizes that are
      not multiples of the window, timm shifts a map before it is padded, and transformers shifts it
      afterwards. transformers uses the same window for both axes, and adds its mask twice.
    - `classes`: the number of classes of a linear classifier; 0 without one.
    - `scores`: how scores are computed from logits, as in `ViTConfig`.
    """

    embed: int = size(PATCHES, hf="embed_dim")
    depths: tuple[int, ...] = size("blocks.{}.blocks.{}.norm1.weight", hf="depths")
    heads: tuple[int, ...] = size("blocks.{}.blocks.0.attn.logit_scale", axis=0, hf="num_heads")
    window: int = setting(
        hf="window_size", timm="window_size", describe_missing=_describe_missing_windows
    )
    grid: TwoInts = setting()
    pretrained: tuple[int, ...] = setting(
        default=(0, 0, 0, 0),
        leaf=_pretrained,
        hf=PRETRAINED_WINDOWS_KEY,
        timm=PRETRAINED_WINDOWS_KEY,
        minimum=0,
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

    # See `ViTConfig`. All rows are pixels of the last map.
    prefix_tokens: ClassVar[int] = 0
    crops: ClassVar[bool] = False

    @property
    def task(self) -> Task:
        """The task: features, or classes for a classifier."""
        return feature_task(self, "the pixels of the last map", pads_to_stride=True)

    @property
    def is_consistent(self) -> bool:
        """Whether there is at least one stage, every stage has a number of heads that divides its
        channels, an entry in `pretrained`, and a map of at least one pixel in training, and the
        number of blocks and of channels is within the limits. `pretrained` may have more
        entries."""
        stages = len(self.depths)
        # transformers has four windows of earlier training by default, for any number of stages.
        if not 0 < stages == len(self.heads) <= len(self.pretrained):
            return False
        is_bounded = self.depth <= MAX_DEPTH and self.dim <= MAX_SIZE
        heads_fit = all(dim % heads == 0 for dim, heads in zip(self.dims, self.heads, strict=True))
        # The map of the last stage needs at least one pixel.
        return is_bounded and heads_fit and all(side >> (stages - 1) for side in self.grid)

    @property
    def dims(self) -> tuple[int, ...]:
        """Number of channels of every stage."""
        return tuple(self.embed << stage for stage in range(len(self.depths)))

    @property
    def stride(self) -> int:
        """Side, in pixels, of the square of the picture that one pixel of the last map covers."""
        return self.patch_size << (len(self.depths) - 1)

    @property
    def native_size(self) -> TwoInts:
        """(height, width) of the pictures of training."""
        height, width = (side * self.patch_size for side in self.grid)
        return height, width

    @property
    def windows(self) -> tuple[StageWindows, ...]:
        """Windows of each stage. They depend on the pictures of training, but not on the picture
        that the network gets."""
        return tuple(self._stage_windows(stage) for stage in range(len(self.depths)))

    def _stage_windows(self, stage: int) -> StageWindows:
        """Return the windows of the stage with this index, counted from 0, by the rules of the
        library.

        A window is not larger than the map of the stage in training. The shift is half of `window`;
        0 along an axis on which the map is not larger than `window`. The size of the map is rounded
        down in transformers, and up in timm. In transformers both axes have the values of the
        height.
        """
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
    def description(self) -> str:
        """Description of the architecture in one line."""
        windows = f"windows of {self.window} x {self.window}"
        return f"{self.stages_description}, {windows}{describe_classes(self.classes)}"
