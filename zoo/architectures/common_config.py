"""Limits, properties and base classes that configurations share. This module is plain data without
JAX."""

from typing import Any, ClassVar

from zoo.architectures.config_fields import NetworkConfig, Shapes
from zoo.architectures.inputs import NetworkInputs

MAX_VOCABULARY = 1 << 21
"""Largest vocabulary of a network for texts."""

FourInts = tuple[int, int, int, int]


def describe_classes(count: int) -> str:
    """Return `", N classes"`, which is appended to a description of a network; empty if `count` is
    0."""
    return f", {count} classes" if count else ""


class FeatureConfig(NetworkInputs, NetworkConfig):
    """Base class of configurations of networks that return tokens of a picture, and logits if they
    have classes.

    - `has_global_attention`: whether every token attends to every other token.
    - `settings_sections`: see `NetworkConfig`.
    """

    has_global_attention: ClassVar[bool] = True
    settings_sections: ClassVar[tuple[str, ...]] = ("vision_config", "backbone_config")


class MultiStageConfig(FeatureConfig):
    """Base class of configurations of networks in stages. All blocks of a stage have the same
    width.

    - `depths`: the number of blocks of each stage.
    - `dims`: the number of channels of each stage.
    """

    has_global_attention: ClassVar[bool] = False

    depths: tuple[int, ...]
    dims: Any

    @property
    def dim(self) -> int:
        """Number of channels of the last stage and of `pooler_output`."""
        channels: int = self.dims[-1]
        return channels

    width = dim

    @property
    def depth(self) -> int:
        """Number of blocks of all stages."""
        return sum(self.depths)

    @property
    def num_hidden_states(self) -> int:
        """Number of layers whose states can be requested: the stages."""
        return len(self.depths)

    @property
    def stages_description(self) -> str:
        """Description of the stages in one line."""
        stages = zip(self.depths, self.dims, strict=True)
        widths = ", ".join(f"{depth} of width {dim}" for depth, dim in stages)
        return f"{len(self.depths)} stages of blocks: {widths}"


class NoFeaturesConfig(NetworkInputs, NetworkConfig):
    """Base class of configurations of networks that return neither tokens nor states of layers."""

    # See the properties of `ViTConfig`.
    prefix_tokens: ClassVar[int] = 0
    num_hidden_states: ClassVar[int] = 0
    has_global_attention: ClassVar[bool] = True


THREE_CHANNELS = {"num_channels": 3}
"""Settings that all of transformers' classes for pictures need."""

HEAD_WEIGHT = "head.weight"
"""Leaf `[classes, width]` of a classifier of features."""


def count_classes(config: Any, shapes: Shapes) -> int:
    """Return the number of classes of the classifier in a checkpoint: the rows of its weight
    `head.weight`.

    Return 0 if the checkpoint has no such leaf, or if the leaf is not a matrix. `config` is not
    used; it is an argument of every reader of a size.
    """
    head = shapes(HEAD_WEIGHT) or ()
    return head[0] if len(head) == 2 else 0
