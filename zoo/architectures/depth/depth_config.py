"""Hyperparameters of networks for depth: plain data without JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from zoo.architectures.common_config import MOST, Four
from zoo.architectures.vit.vit_config import OnBackbone
from zoo.tasks.depth_task import depth_task
from zoo.tasks.task import Task


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

    @property
    def task(self) -> Task:
        """Depths of pixels."""
        return depth_task(self.max_depth)

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
