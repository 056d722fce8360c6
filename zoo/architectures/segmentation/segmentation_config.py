"""Configurations of segmentation networks. This module is plain data without JAX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from zoo.architectures.common_config import describe_classes
from zoo.architectures.config_fields import Shapes, config_class, detail, length, size
from zoo.architectures.vit.vit_config import OnBackbone
from zoo.tasks.area_tasks import class_map_task, mask_task
from zoo.tasks.task import Task

MASK_PROBABILITIES = "attn_mask_probs"
"""Leaf whose positive entries mark the blocks in which masks hide patches."""


def _read_masked(leaves: Mapping[str, Any]) -> tuple[bool, ...]:
    """Return, for each of the last blocks, whether queries attend only to the patches in their
    masks: whether the entry of `attn_mask_probs` is positive. The tuple is empty if they do so in
    no block.

    `leaves` are the arrays of a checkpoint by path.
    """
    masked = tuple((np.asarray(leaves[MASK_PROBABILITIES]) > 0).tolist())
    return masked if any(masked) else ()


@config_class
class MaskConfig(OnBackbone):
    """Configuration of EoMT, an encoder-only mask transformer, which finds areas and their classes.

    - `queries`: the number of queries. Each becomes a mask and a class, or none.
    - `query_blocks`: the number of last blocks in which queries join the tokens.
    - `classes`: the number of classes.
    - `upscalings`: the number of layers that double the rows and columns of masks.
    - `masked`: for each of the `query_blocks` last blocks, whether queries attend only to the
      patches in their masks. Empty if they do so in no block, as after complete training.
    """

    queries: int = size("queries", hf="num_queries")
    query_blocks: int = size(MASK_PROBABILITIES, hf="num_blocks")
    # The last class means that a query found no area.
    classes: int = size("class_head.weight", subtract=1)
    upscalings: int = size("upscale.{}.norm.weight", default=2, hf="num_upscale_blocks", minimum=0)
    masked: tuple[bool, ...] = detail(default=(), read_values=_read_masked)

    @property
    def task(self) -> Task:
        """The task: areas, one for each query."""
        return mask_task(self.queries, self.classes, self.mask_stride)

    @property
    def mask_stride(self) -> int:
        """Side, in pixels of the picture, of the square that one pixel of a mask covers."""
        return self.stride >> self.upscalings

    @property
    def is_consistent(self) -> bool:
        """Whether the network has at least `query_blocks` blocks, and a pixel of a mask covers a
        whole number of pixels of the picture along each side."""
        # Shifting back avoids `2 ** upscalings`, which has no upper bound.
        is_exact = self.mask_stride << self.upscalings == self.stride
        return self.query_blocks <= self.depth and is_exact

    @property
    def description(self) -> str:
        """Description of the architecture in one line."""
        queries = f"{self.queries} queries in the last {self.query_blocks} blocks"
        return f"{self.backbone.description}; {queries}{describe_classes(self.classes)}"


def _count_layers(config: SegmenterConfig, shapes: Shapes) -> int:
    """Return the number of blocks whose patches are read: the channels of the batch norm, divided
    by those of a token."""
    return length(shapes, "batch_norm.weight") // config.dim


@config_class
class SegmenterConfig(OnBackbone):
    """Configuration of a linear classifier of patches, after a batch norm.

    - `layers`: the number of last blocks whose patches are read.
    - `classes`: the number of classes.
    """

    layers: int = size(_count_layers)
    classes: int = size("head.weight")

    @property
    def task(self) -> Task:
        """The task: areas, one for each class."""
        return class_map_task(self.classes, self.stride)

    @property
    def is_consistent(self) -> bool:
        """Whether the backbone has at least `layers` blocks."""
        return self.layers <= self.depth

    @property
    def description(self) -> str:
        """Description of the architecture in one line."""
        patches = f"patches of the last {self.layers} blocks" if self.layers > 1 else "patches"
        return f"{self.backbone.description}; {patches}{describe_classes(self.classes)}"
