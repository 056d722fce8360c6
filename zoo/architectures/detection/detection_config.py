"""Hyperparameters of detection transformers, RF-DETR and DEIMv2: plain data without JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from zoo.architectures.common_config import DEEPEST, MOST, class_words
from zoo.architectures.vit.vit_config import OnBackbone
from zoo.tasks.answer import Scores
from zoo.tasks.box_task import box_task
from zoo.tasks.task import Task


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
    crops: ClassVar[bool] = False

    @property
    def task(self) -> Task:
        """Things in boxes, with their pixels if there are `instances`."""
        stride = self.instances.stride if self.instances else None
        return box_task(self.queries, self.classes, stride)

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


LEVELS, STRIDE = 3, 32
"""Maps that are read, and pixels of a picture along a side of one of the smallest map: two patches
of the backbone, as many as one of the next and a half of the largest have."""


@dataclass(frozen=True)
class PyramidConfig:
    """Hyperparameters of what joins the maps: `depth` transformer blocks of `heads` and `hidden`
    channels for the smallest, then `bottlenecks` of `narrow` channels for each."""

    depth: int
    heads: int
    hidden: int
    narrow: int
    bottlenecks: int


@dataclass(frozen=True)
class FinderConfig:
    """Hyperparameters of the transformer of queries.

    Every query looks at each map at so many `points` for each of `heads`; `hidden` is the width
    between the layers of the feed-forward network. Each edge of a box is a distribution over
    `bins`, whose `top_k` probabilities tell how good the box is, by a layer of `quality` channels.
    """

    depth: int
    heads: int
    hidden: int
    points: tuple[int, ...] = (3, 6, 3)
    bins: int = 32
    top_k: int = 4
    quality: int = 64


@dataclass(frozen=True)
class DeimConfig(OnBackbone):
    """Hyperparameters of a network that finds things on maps of three sizes: DEIMv2's.

    The patches behind `layers` of the backbone, counted from 1, are normed, or those of the last
    alone where they are not `normed`. Beside them there are the details of an adapter of `planes`
    channels. All maps and queries have `width` channels. With `placed` the smallest map is told
    where its pixels are. There are `queries`, of which each finds a thing of one of `classes` or
    nothing.
    """

    width: int
    planes: int
    layers: tuple[int, ...]
    pyramid: PyramidConfig
    finder: FinderConfig
    queries: int
    classes: int
    normed: bool = True
    placed: bool = True

    scores: ClassVar[Scores] = "sigmoid"
    crops: ClassVar[bool] = False

    @property
    def task(self) -> Task:
        """Things in boxes."""
        return box_task(self.queries, self.classes)

    @property
    def stride(self) -> int:
        """Pixels of which a picture's sides are multiples: those of a pixel of the smallest map."""
        return STRIDE

    @property
    def is_sound(self) -> bool:
        """Whether a network can have these sizes."""
        pyramid, finder = self.pyramid, self.finder
        counts = (
            *(self.width, self.planes, self.queries, self.classes),
            *(pyramid.heads, pyramid.hidden, pyramid.narrow),
            *(finder.heads, finder.hidden, *finder.points, finder.top_k, finder.quality),
        )
        deep = 0 < finder.depth <= DEEPEST and 0 <= pyramid.depth <= DEEPEST
        deep = deep and 0 <= pyramid.bottlenecks <= DEEPEST
        read = all(1 <= layer <= self.depth for layer in self.layers)
        shaped = len(self.layers) == len(finder.points) == LEVELS
        if not (all(0 < count <= MOST for count in counts) and deep and read and shaped):
            return False
        # Sines and cosines of two axes; edges have an even number of bins and one in the middle.
        split = self.width % 4 == self.width % finder.heads == self.width % pyramid.heads == 0
        binned = finder.bins % 2 == 0 and max(2, finder.top_k - 1) < finder.bins <= MOST
        fits = 2 * self.backbone.stride == STRIDE
        return split and binned and fits and self.backbone.is_sound

    @property
    def text(self) -> str:
        """The architecture in a line."""
        return (
            f"{self.backbone.text}; maps of width {self.width}, {self.queries} queries in "
            f"{self.finder.depth} blocks{class_words(self.classes)}"
        )
