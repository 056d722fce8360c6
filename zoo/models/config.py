"""Hyperparameters of networks, and what is done to their images: plain data without JAX.

Defaults are stated here and nowhere else: layers are told their arguments, by the same names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from zoo.models.convnext_config import ConvNeXtConfig, Four, class_words
from zoo.models.text_config import MOST, Opaque, Taken, TextConfig

# Whoever takes networks of any kind finds this one here as well.
from zoo.models.vit_config import ViTConfig as ViTConfig


@dataclass(frozen=True)
class OnBackbone(Opaque):
    """What a network on top of a vision transformer has of that."""

    backbone: ViTConfig

    takes: ClassVar[tuple[Taken, ...]] = ("pixel_values",)

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


@dataclass(frozen=True)
class DepthConfig(OnBackbone):
    """Hyperparameters of a dense prediction transformer that tells how far away every pixel is.

    It reads the normed patches of four `layers`, blocks counted from 1, and makes maps of
    `channels` of them, which are fused in `fused` channels. Between the last convolutions are
    `hidden` channels. With `max_depth` the result is in metres up to that, by a sigmoid; without,
    it is larger the nearer a thing is, and has no unit.
    """

    layers: Four
    channels: Four
    fused: int
    hidden: int = 32
    max_depth: float | None = None

    classes: ClassVar[int] = 0
    task: ClassVar[str] = "depth-estimation"

    @property
    def is_sound(self) -> bool:
        """Whether a network can have these sizes."""
        sized = all(0 < count <= MOST for count in (*self.channels, self.fused // 2, self.hidden))
        read = all(1 <= layer <= self.depth for layer in self.layers)
        return sized and read and self.backbone.is_sound and (self.max_depth or 1) > 0

    @property
    def text(self) -> str:
        """The architecture in a line."""
        unit = "in metres" if self.max_depth else "relative"
        return f"{self.backbone.text}; {unit} depth of blocks {', '.join(map(str, self.layers))}"


@dataclass(frozen=True)
class MaskConfig(OnBackbone):
    """Hyperparameters of an encoder-only mask transformer, which finds areas and what is in them.

    That many `queries` join the tokens of the last `query_blocks` blocks. Each becomes a mask, and
    one of `classes` or none. Every one of the `upscalings` doubles the rows and columns of masks.
    """

    queries: int
    query_blocks: int
    classes: int
    upscalings: int = 2

    task: ClassVar[str] = "image-segmentation"

    @property
    def mask_stride(self) -> int:
        """Pixels of a picture along a side of one of a mask."""
        return self.stride >> self.upscalings

    @property
    def is_sound(self) -> bool:
        """Whether a network can have these sizes."""
        sized = 0 < self.queries <= MOST and 0 < self.classes <= MOST
        joined = 0 < self.query_blocks <= self.depth and self.backbone.is_sound
        # No pixel of a mask is smaller than the picture's.
        return sized and joined and self.upscalings >= 0 and self.stride % 2**self.upscalings == 0

    @property
    def text(self) -> str:
        """The architecture in a line."""
        joined = f"{self.queries} queries in the last {self.query_blocks} blocks"
        return f"{self.backbone.text}; {joined}{class_words(self.classes)}"


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
        """What the network is given."""
        return ("pixel_values", *self.words.takes)

    @property
    def probabilities(self) -> Literal["sigmoid", "softmax"]:
        """What makes probabilities of logits."""
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


FeatureConfig = ViTConfig | ConvNeXtConfig
"""Networks that give features, and logits if they are classifiers."""

Config = FeatureConfig | DepthConfig | MaskConfig | SegmenterConfig | TextConfig | DualConfig


def scores_of(config: object) -> str:
    """What makes answers of a network's logits."""
    return config.scores if isinstance(config, FeatureConfig) else "softmax"
