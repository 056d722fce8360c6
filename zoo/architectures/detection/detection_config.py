"""Hyperparameters of a network that finds things: plain data without JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from zoo.architectures.common_config import DEEPEST, MOST, class_words
from zoo.architectures.vit.vit_config import OnBackbone
from zoo.tasks.scores import Scores


@dataclass(frozen=True)
class DecoderConfig:
    """Hyperparameters of the transformer that reads a map at points.

    `dim` are the channels of a query, `heads` those of attention among queries. Every query looks
    at the map at `points` points for each of `sampling_heads` heads, and `hidden` is the width of
    the feed-forward network.
    """

    dim: int
    depth: int
    heads: int
    sampling_heads: int
    points: int
    hidden: int

    @property
    def is_sound(self) -> bool:
        """Whether a network can have these sizes."""
        counts = (self.dim, self.heads, self.sampling_heads, self.points, self.hidden)
        sized = all(0 < count <= MOST for count in counts) and 0 < self.depth <= DEEPEST
        # The position of a box has four numbers of `dim / 2` channels, in sines and cosines.
        return (
            sized
            and self.dim % 4 == 0
            and self.dim % self.heads == self.dim % self.sampling_heads == 0
        )


@dataclass(frozen=True)
class InstanceConfig:
    """Hyperparameters of what finds the pixels of things: blocks that a map goes through, and the
    width of the feed-forward network of queries. A pixel of a mask has `stride` pixels of the
    picture along a side."""

    blocks: int
    hidden: int
    stride: int = 4

    @property
    def is_sound(self) -> bool:
        """Whether a network can have these sizes."""
        return 0 < self.blocks <= DEEPEST and 0 < self.hidden <= MOST and 0 < self.stride <= MOST


@dataclass(frozen=True)
class DetectionConfig(OnBackbone):
    """Hyperparameters of a detection transformer: RF-DETR's.

    The backbone attends within `windows` x `windows` windows of a picture, and to all of it in the
    blocks that follow `layers`, whose normed patches are what is read: blocks counted from 1. With
    `windowed`, blocks counted from 0, these attend within windows and all others to all. The
    projector makes one map of these, by `bottlenecks` of `narrow` channels and norms of
    `projector_eps`. There are `queries`, of which each finds a thing of one of `classes` or
    nothing. In training there are `groups` of queries and of their heads; only the first is used
    afterwards. With `instances` there is a mask of each thing too.
    """

    decoder: DecoderConfig
    layers: tuple[int, ...]
    windows: int
    queries: int
    classes: int
    groups: int = 13
    bottlenecks: int = 3
    narrow: int = 128
    projector_eps: float = 1e-6
    instances: InstanceConfig | None = None
    windowed: tuple[int, ...] | None = None

    scores: ClassVar[Scores] = "sigmoid"
    task: ClassVar[str] = "object-detection"

    @property
    def windowed_blocks(self) -> tuple[int, ...]:
        """Blocks that attend within windows, counted from 0, of those that are read."""
        if self.windowed is not None:
            return self.windowed
        return tuple(block for block in range(max(self.layers)) if block not in self.layers)

    @property
    def stride(self) -> int:
        """Pixels of which a picture's sides are multiples: those of a patch in each window."""
        return self.backbone.stride * self.windows

    @property
    def native(self) -> tuple[int, int] | None:
        """(height, width) of the images that learned positions were trained on, if windows fit."""
        native = self.backbone.native
        fits = native is not None and native[0] % self.stride == 0
        return native if fits else None

    @property
    def is_sound(self) -> bool:
        """Whether a network can have these sizes."""
        counts = (self.queries, self.classes, self.groups, self.windows, self.narrow)
        sized = all(0 < count <= MOST for count in counts) and 0 <= self.bottlenecks <= DEEPEST
        read = bool(self.layers) and all(1 <= layer <= self.depth for layer in self.layers)
        windowed = all(0 <= block < DEEPEST for block in self.windowed or ())
        masks = self.instances is None or self.instances.is_sound
        parts = masks and self.decoder.is_sound and self.backbone.is_sound
        return sized and read and windowed and parts

    @property
    def text(self) -> str:
        """The architecture in a line."""
        return (
            f"{self.backbone.text}, {self.windows} x {self.windows} windows; "
            f"{self.queries} queries in {self.decoder.depth} blocks of width {self.decoder.dim}"
            f"{', with masks' if self.instances else ''}{class_words(self.classes)}"
        )
