"""Hyperparameters of networks for depth: plain data without JAX."""

from __future__ import annotations

from typing import Any, ClassVar

from zoo.architectures.common_config import FourInts
from zoo.architectures.config_fields import (
    MAX_DEPTH,
    Key,
    config_class,
    parse_integers,
    setting,
    size,
    write_only,
)
from zoo.architectures.vit.vit_config import OnBackbone
from zoo.tasks.depth_task import depth_task
from zoo.tasks.task import Task


def _four(stated: Any) -> tuple[int, ...] | None:
    """Return four numbers; None for others, which say nothing of such a network."""
    numbers = parse_integers(stated)
    return numbers if len(numbers) == 4 else None


@config_class
class DepthConfig(OnBackbone):
    """Hyperparameters of a dense prediction transformer that tells how far away every pixel is.

    It reads the normed patches of four `layers`, blocks counted from 1, and makes maps of
    `channels` of them, which are fused in `fused` channels. Between the last convolutions are
    `hidden` channels. With `max_depth` the result is in metres up to that, by a sigmoid; without,
    it is larger the nearer a thing is, and has no unit.
    """

    layers: FourInts = setting(hf=Key("backbone_config.out_indices", read=_four), maximum=MAX_DEPTH)
    channels: FourInts = size("decoder.convs.{}.weight", axis=1, hf="neck_hidden_sizes")
    fused: int = size("decoder.conv1.weight", axis=1, hf="fusion_hidden_size", minimum=2)
    hidden: int = size("decoder.conv3.weight", axis=1, default=32, hf="head_hidden_size")
    # Another setting states whether there is one.
    max_depth: float | None = setting(
        default=None, hf=write_only("max_depth", lambda metres: metres or 1)
    )

    classes: ClassVar[int] = 0

    @property
    def task(self) -> Task:
        """Depths of pixels."""
        return depth_task(self.max_depth)

    @property
    def is_consistent(self) -> bool:
        """Whether four maps are read of blocks that are there."""
        return len(self.layers) == len(self.channels) == 4 and max(self.layers) <= self.depth

    @property
    def text(self) -> str:
        """The architecture in a line."""
        unit = "in metres" if self.max_depth else "relative"
        return f"{self.backbone.text}; {unit} depth of blocks {', '.join(map(str, self.layers))}"
