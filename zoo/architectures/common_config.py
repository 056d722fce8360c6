"""Limits, properties and base classes that configurations share: plain data without JAX."""

from typing import Any, ClassVar

from zoo.architectures.config_fields import NetworkConfig, Shapes
from zoo.architectures.inputs import TakesPictures

MOST_WORDS = 1 << 21
"""What a network for texts has at most of words."""

Four = tuple[int, int, int, int]


def class_words(count: int) -> str:
    """How many classes there are, behind other words; nothing without any."""
    return f", {count} classes" if count else ""


class Classifying(TakesPictures, NetworkConfig):
    """Facts of a network that gives rows of tokens of an image, and logits where it has classes."""

    attends: ClassVar[bool] = True
    settings_in: ClassVar[tuple[str, ...]] = ("vision_config", "backbone_config")


class MultiStageConfig(Classifying):
    """Facts of such a network in stages, each of blocks of one width."""

    attends: ClassVar[bool] = False

    depths: tuple[int, ...]
    dims: Any

    @property
    def dim(self) -> int:
        """Channels of the last stage, and of `pooler_output`."""
        channels: int = self.dims[-1]
        return channels

    width = dim

    @property
    def depth(self) -> int:
        """Blocks of all stages."""
        return sum(self.depths)

    @property
    def num_hidden_states(self) -> int:
        """How many layers there are to ask for: the stages."""
        return len(self.depths)

    @property
    def stage_words(self) -> str:
        """The stages in a line."""
        stages = zip(self.depths, self.dims, strict=True)
        widths = ", ".join(f"{depth} of width {dim}" for depth, dim in stages)
        return f"{len(self.depths)} stages of blocks: {widths}"


class Opaque(TakesPictures, NetworkConfig):
    """Facts of a network that gives neither rows of tokens nor what is inside."""

    # As the properties of `ViTConfig`.
    prefix_tokens: ClassVar[int] = 0
    num_hidden_states: ClassVar[int] = 0
    attends: ClassVar[bool] = True


THREE_CHANNELS = {"num_channels": 3}
"""What all of transformers' classes for pictures ask."""

HEAD = "head.weight"
"""The leaf `[classes, width]` of a classifier of features."""


def count_classes(usual: Any, shapes: Shapes) -> int:
    """Return the classes of a linear layer; 0 without one."""
    head = shapes(HEAD) or ()
    return head[0] if len(head) == 2 else 0
