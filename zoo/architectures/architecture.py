"""Configurations of all kinds of networks, and the record of functions that each kind of network
has.

Defaults are in the configurations and nowhere else. Layers get their arguments under the names of
the configuration's fields. Callers use the record of a configuration (`kinds.py`), so that they
need not know the kind of network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from weights.initializers import Shape
from zoo.architectures.config_fields import Shapes, with_sizes
from zoo.architectures.config_settings import Template, TransformersClass, with_settings
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.depth.depth_config import DepthConfig
from zoo.architectures.detection.detection_config import DeimConfig, DetectionConfig
from zoo.architectures.dual.dual_config import DualConfig, TextConfig
from zoo.architectures.dual.naflex_config import NaFlexConfig, NaFlexDualConfig
from zoo.architectures.segmentation.segmentation_config import MaskConfig, SegmenterConfig
from zoo.architectures.swin.swin_config import SwinConfig
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.common.errors import BadRequest
from zoo.tasks.answer import Scores

if TYPE_CHECKING:
    from zoo.architectures.library_settings import Settings

Config = (
    ViTConfig
    | ConvNeXtConfig
    | SwinConfig
    | DepthConfig
    | MaskConfig
    | DetectionConfig
    | DeimConfig
    | SegmenterConfig
    | TextConfig
    | DualConfig
    | NaFlexConfig
    | NaFlexDualConfig
)

C = TypeVar("C", bound=Config)


@dataclass(frozen=True)
class CheckpointFacts:
    """Facts about a checkpoint that its tensors do not have.

    **Arguments:**

    - `naming`: the name of the naming of its tensors.
    - `settings`: the settings in the `config.json` beside it; None if there is none.
    - `has_custom_head`: whether a user has put a classifier on the network, so that no library
      determines its input.
    """

    naming: str
    settings: Settings | None
    has_custom_head: bool = False

    @property
    def transformers_settings(self) -> Settings | None:
        """The settings if the tensors have transformers' names (the naming "huggingface"). None for
        other names, or if there are no settings."""
        return self.settings if self.naming == "huggingface" else None

    def choose_scores(self, classes: int) -> Scores:
        """Return the name of the function that turns `classes` logits into scores.

        The choice is that of transformers' pipeline for image classification. It is "none" if the
        settings state a regression, "sigmoid" if they state several labels for a picture or if a
        network in transformers' names has a single class, and "softmax" in all other cases, also
        for a network without classes.
        """
        problem = self.transformers_settings and classes and self.transformers_settings.problem_type
        if problem == "regression":
            return "none"
        is_single = self.naming == "huggingface" and classes == 1
        return "sigmoid" if is_single or problem == "multi_label_classification" else "softmax"


def refuse_transformers(config: Config) -> TransformersClass:
    """Raise `BadRequest`, because transformers has no class for networks of this kind.

    This is the default of `Architecture.transformers_class`, so `config` is not used.
    """
    raise BadRequest(
        "transformers has no class for a classifier of DINOv2's patches, nor for depth estimation "
        "on another network than DINOv2: write another format."
    )


def complete_from_settings(config: C, facts: CheckpointFacts) -> C:
    """Return the configuration with the fields that a checkpoint's `config.json` states; unchanged
    if there is no such file.

    This is the default of `Architecture.complete`. **Raises** `MappingError` for a value that a
    field cannot have.
    """
    return with_settings(config, facts.settings)


@dataclass(frozen=True, kw_only=True)
class ClassifierHead(Generic[C]):
    """Functions for the linear classifier that a network of features may have.

    - `with_classes`: returns the configuration with a classifier. Its second argument is the shape
      of the classifier's weight, such as `(classes, width)`; None gives a configuration without a
      classifier.
    - `from_network`: returns the configuration that a network in memory has. The network may differ
      from its first configuration, because a user may have removed its head or some of its blocks.
    - `describe_input`: returns a description of the vector that the classifier gets.
    - `custom_inputs`: returns a dictionary of the vectors that a custom head may get and that
      tensor shapes do not distinguish. Its keys are values of the setting `global_pool`, and its
      values are descriptions. It is empty if only one vector is possible. None means that no
      possible vector is known.
    """

    with_classes: Callable[[C, Shape | None], C]
    from_network: Callable[[C, Any], C]
    describe_input: Callable[[C], str]
    custom_inputs: Callable[[C], Mapping[str, str] | None] = lambda config: {}


@dataclass(frozen=True)
class LibraryOptions(Generic[C]):
    """Options of the architectures of another library, such as timm.

    - `readers`: functions by the name of an option. A function looks up in tensor shapes whether a
      checkpoint has this optional feature, and returns the configuration with or without it.
    - `find_unsupported`: a function of the name of timm's architecture. If that architecture uses
      an argument of timm's model class that no network of the zoo supports, such as `norm_layer`,
      it returns the argument; otherwise an empty text.
    """

    readers: Mapping[str, Callable[[C, Shapes], C]] = field(default_factory=dict)
    find_unsupported: Callable[[str], str] = lambda architecture: ""


@dataclass(frozen=True, kw_only=True)
class Architecture(Generic[C]):
    """Record of a kind of network, which is identified by the class of its configuration.

    The fields of the configuration say how they are read from tensors and settings, compared and
    bounded (`config_fields.py`). The functions here do what fields cannot express. If the
    configuration that a function gets contains networks, these are already complete.

    - `config`: the class of the configuration.
    - `network`: a function without arguments that returns the class of the network. The network is
      built by `network()(config, key=key)`. JAX is imported only then.
    - `read_sizes`: returns the configuration with the sizes that tensor shapes determine; None if a
      leaf is missing or a size is out of bounds.
    - `complete`: returns the configuration with the values that only settings beside a checkpoint
      state.
    - `transformers_class`: returns the transformers class that computes a network, one of
      `transformers_classes`. It raises `BadRequest` if there is none.
    - `equimo_settings`: the settings in Equimo's format; None if Equimo has no such networks.
    - `head`: the classifier of a kind that returns features; None for other kinds.
    - `options`: options of other libraries' architectures.
    """

    config: type[C]
    network: Callable[[], Callable[..., Any]]
    read_sizes: Callable[[C, Shapes], C | None] = with_sizes
    complete: Callable[[C, CheckpointFacts], C] = complete_from_settings
    transformers_class: Callable[[C], TransformersClass] = refuse_transformers
    transformers_classes: tuple[TransformersClass, ...] = ()
    equimo_settings: Template | None = None
    head: ClassifierHead[C] | None = None
    options: LibraryOptions[C] = LibraryOptions()

    @property
    def gives_features(self) -> bool:
        """Whether networks of this kind return features of a picture: tokens, and logits if there
        is a classifier."""
        return self.head is not None

    @property
    def has_backbone(self) -> bool:
        """Whether the configuration has a field `backbone`: a vision transformer whose features the
        network reads."""
        return any(part.name == "backbone" for part in fields(self.config))

    def describe_head_input(self, config: C) -> str:
        """Return a description of the vector that a classifier gets, for messages. A kind without
        `head` gives a general description."""
        return self.head.describe_input(config) if self.head else "what the network pools"

    def custom_head_inputs(self, config: C) -> Mapping[str, str] | None:
        """Return descriptions of the vectors that a custom head may get, as
        `ClassifierHead.custom_inputs` does; empty for a kind without `head`."""
        return self.head.custom_inputs(config) if self.head else {}


StagedConfig = TypeVar("StagedConfig", ConvNeXtConfig, SwinConfig)


def with_stage_classes(config: StagedConfig, head: Shape | None) -> StagedConfig:
    """Return the configuration of a network in stages (ConvNeXt or Swin) with another number of
    classes.

    **Arguments:**

    - `head`: the shape `(classes, width)` of the weight of a linear classifier. For None, or a
      shape that does not have two axes, the number of classes is 0.
    """
    return replace(config, classes=head[0] if head and len(head) == 2 else 0)


def _read_stages(config: StagedConfig, network: Any) -> StagedConfig:
    """Return the configuration with the number of classes that a network in memory has; 0 if its
    head was removed."""
    return replace(config, classes=len(network.head.weight) if network.head else 0)


staged_architecture = partial(
    Architecture[Any],
    head=ClassifierHead(
        with_classes=with_stage_classes,
        from_network=_read_stages,
        describe_input=lambda config: "the mean of the last map, normed",
    ),
)
