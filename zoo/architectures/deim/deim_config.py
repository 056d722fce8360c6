"""Hyperparameters of DEIMv2's networks: plain data without JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from zoo.architectures.common_config import DEEPEST, MOST, class_words
from zoo.architectures.vit.vit_config import OnBackbone
from zoo.tasks.scores import Scores

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
    task: ClassVar[str] = "object-detection"

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
