"""Configuration of networks for depth estimation. This module is plain data without JAX."""

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


def _parse_four(value: Any) -> tuple[int, ...] | None:
    """Return a list of four integers as a tuple; None for a list of another length, which does not
    describe such a network. **Raises** `TypeError` for any other value."""
    numbers = parse_integers(value)
    return numbers if len(numbers) == 4 else None


@config_class
class DepthConfig(OnBackbone):
    """Configuration of a dense prediction transformer that estimates the distance of every pixel.

    - `layers`: numbers of the four blocks, counted from 1, whose normalised patches the decoder
      reads.
    - `channels`: the number of channels of each of the four maps that the decoder makes of these
      patches.
    - `fused`: the number of channels to which the decoder brings all maps before it adds them.
    - `hidden`: the number of channels between the last two convolutions.
    - `max_depth`: the largest depth in metres, to which a sigmoid is scaled. With None the result
      has no unit, and is larger for nearer pixels.
    """

    layers: FourInts = setting(
        hf=Key("backbone_config.out_indices", read=_parse_four), maximum=MAX_DEPTH
    )
    channels: FourInts = size("decoder.convs.{}.weight", axis=1, hf="neck_hidden_sizes")
    fused: int = size("decoder.conv1.weight", axis=1, hf="fusion_hidden_size", minimum=2)
    hidden: int = size("decoder.conv3.weight", axis=1, default=32, hf="head_hidden_size")
    # Another setting, `depth_estimation_type`, states whether there is a largest depth.
    max_depth: float | None = setting(
        default=None, hf=write_only("max_depth", lambda metres: metres or 1)
    )

    classes: ClassVar[int] = 0

    @property
    def task(self) -> Task:
        """The task: depths of pixels."""
        return depth_task(self.max_depth)

    @property
    def is_consistent(self) -> bool:
        """Whether `layers` and `channels` have exactly four entries, and the backbone has the
        blocks in `layers`."""
        return len(self.layers) == len(self.channels) == 4 and max(self.layers) <= self.depth

    @property
    def description(self) -> str:
        """Description of the architecture in one line."""
        unit = "in metres" if self.max_depth else "relative"
        blocks = ", ".join(map(str, self.layers))
        return f"{self.backbone.description}; {unit} depth of blocks {blocks}"
