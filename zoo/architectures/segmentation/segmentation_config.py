"""Hyperparameters of segmentation networks: plain data without JAX."""

from __future__ import annotations

from dataclasses import dataclass

from zoo.architectures.common_config import MOST, class_words
from zoo.architectures.vit.vit_config import OnBackbone
from zoo.tasks.area_tasks import class_map_task, mask_task
from zoo.tasks.task import Task


@dataclass(frozen=True)
class MaskConfig(OnBackbone):
    """Hyperparameters of an encoder-only mask transformer, which finds areas and what is in them.

    That many `queries` join the tokens of the last `query_blocks` blocks. Each becomes a mask, and
    one of `classes` or none. Every one of the `upscalings` doubles the rows and columns of masks.
    `masked` says in which of these blocks queries attend to their own masks alone; none means in
    no block, as after the whole training.
    """

    queries: int
    query_blocks: int
    classes: int
    upscalings: int = 2
    masked: tuple[bool, ...] = ()

    @property
    def task(self) -> Task:
        """Areas of queries."""
        return mask_task(self.queries, self.classes, self.mask_stride)

    @property
    def mask_stride(self) -> int:
        """Pixels of a picture along a side of one of a mask."""
        return self.stride >> self.upscalings

    @property
    def is_sound(self) -> bool:
        """Whether a network can have these sizes."""
        sized = 0 < self.queries <= MOST and 0 < self.classes <= MOST
        joined = 0 < self.query_blocks <= self.depth and self.backbone.is_sound
        # No pixel of a mask is smaller than the picture's. A power of two would have no bound.
        whole = self.upscalings >= 0 and self.mask_stride << self.upscalings == self.stride
        return sized and joined and whole

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

    @property
    def task(self) -> Task:
        """Areas of classes."""
        return class_map_task(self.classes, self.stride)

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
