"""Hyperparameters of segmentation networks: plain data without JAX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from zoo.architectures.common_config import describe_classes
from zoo.architectures.config_fields import Shapes, config_class, detail, length, size
from zoo.architectures.vit.vit_config import OnBackbone
from zoo.tasks.area_tasks import class_map_task, mask_task
from zoo.tasks.task import Task

HIDING = "attn_mask_probs"
"""The leaf that says in which blocks masks hide patches, above zero."""


def _masked(leaves: Mapping[str, Any]) -> tuple[bool, ...]:
    masked = tuple((np.asarray(leaves[HIDING]) > 0).tolist())
    return masked if any(masked) else ()


@config_class
class MaskConfig(OnBackbone):
    """Hyperparameters of an encoder-only mask transformer, which finds areas and what is in them.

    That many `queries` join the tokens of the last `query_blocks` blocks. Each becomes a mask, and
    one of `classes` or none. Every one of the `upscalings` doubles the rows and columns of masks.
    `masked` says in which of these blocks queries attend to their own masks alone; none means in
    no block, as after the whole training.
    """

    queries: int = size("queries", hf="num_queries")
    query_blocks: int = size(HIDING, hf="num_blocks")
    # One more says that there is nothing.
    classes: int = size("class_head.weight", subtract=1)
    upscalings: int = size("upscale.{}.norm.weight", default=2, hf="num_upscale_blocks", minimum=0)
    masked: tuple[bool, ...] = detail(default=(), read_values=_masked)

    @property
    def task(self) -> Task:
        """Areas of queries."""
        return mask_task(self.queries, self.classes, self.mask_stride)

    @property
    def mask_stride(self) -> int:
        """Pixels of a picture along a side of one of a mask."""
        return self.stride >> self.upscalings

    @property
    def is_consistent(self) -> bool:
        """Whether queries join blocks that are there, and no pixel of a mask is smaller than the
        picture's."""
        # A power of two would have no bound.
        whole = self.mask_stride << self.upscalings == self.stride
        return self.query_blocks <= self.depth and whole

    @property
    def text(self) -> str:
        """The architecture in a line."""
        joined = f"{self.queries} queries in the last {self.query_blocks} blocks"
        return f"{self.backbone.text}; {joined}{describe_classes(self.classes)}"


def _layers(usual: SegmenterConfig, shapes: Shapes) -> int:
    """Return how many blocks are read, of the channels of all of them."""
    return length(shapes, "batch_norm.weight") // usual.dim


@config_class
class SegmenterConfig(OnBackbone):
    """Hyperparameters of a linear classifier of patches: a batch norm of what the last `layers`
    blocks make of a patch, and one of `classes`."""

    layers: int = size(_layers)
    classes: int = size("head.weight")

    @property
    def task(self) -> Task:
        """Areas of classes."""
        return class_map_task(self.classes, self.stride)

    @property
    def is_consistent(self) -> bool:
        """Whether the blocks that are read are there."""
        return self.layers <= self.depth

    @property
    def text(self) -> str:
        """The architecture in a line."""
        read = f"patches of the last {self.layers} blocks" if self.layers > 1 else "patches"
        return f"{self.backbone.text}; {read}{describe_classes(self.classes)}"
