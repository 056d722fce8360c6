"""Configurations of networks of any kind, and the record that says what the zoo asks of a kind.

Defaults are stated in configurations and nowhere else: layers get their arguments under the same
names. A caller asks the record of a configuration (`kinds.py`) and knows no kind of network.
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
    """Facts beside a checkpoint's tensors: whose names they have, and what is in `config.json`. An
    `own_head` is one that somebody has put on the network, and whose input no library decides."""

    naming: str
    settings: Settings | None
    own_head: bool = False

    @property
    def of_transformers(self) -> Settings | None:
        """Settings of transformers, if the checkpoint is in its names."""
        return self.settings if self.naming == "huggingface" else None

    def scores(self, classes: int) -> Scores:
        """Function that makes answers of logits, as transformers' pipeline for classification does
        it; the usual one of a network without classes, which may be part of another."""
        problem = self.of_transformers and classes and self.of_transformers.problem_type
        if problem == "regression":
            return "none"
        alone = self.naming == "huggingface" and classes == 1
        return "sigmoid" if alone or problem == "multi_label_classification" else "softmax"


def no_class(config: Config) -> TransformersClass:
    """**Raises** `BadRequest`: transformers has no class for networks of this kind."""
    raise BadRequest(
        "transformers has no class for a classifier of DINOv2's patches, nor for depths on another "
        "network than DINOv2: write another format."
    )


def complete_from_settings(config: C, beside: CheckpointFacts) -> C:
    """Return the configuration with the fields that settings beside a checkpoint state."""
    return with_settings(config, beside.settings)


@dataclass(frozen=True, kw_only=True)
class ClassifierHead(Generic[C]):
    """The linear classifier that networks of a kind may have on the features that they give.

    - `with_classes`: the configuration with the classes of a linear layer of this shape, and the
      tokens that it takes; without a classifier for None.
    - `as_built`: the configuration of a network as it is now, which somebody may have cut.
    - `takes`: the vector that the classifier is given, in words.
    - `inputs`: vectors that a custom head may take and that no tensor tells apart, in words by the
      `global_pool` that means each; empty where there is only one, None where none is known.
    """

    with_classes: Callable[[C, Shape | None], C]
    as_built: Callable[[C, Any], C]
    takes: Callable[[C], str]
    inputs: Callable[[C], Mapping[str, str] | None] = lambda config: {}


@dataclass(frozen=True)
class LibraryOptions(Generic[C]):
    """Options of a library's architectures: `readers` of those that a network may have or not, by
    their names, and a function that returns the option of timm's architecture with a name that no
    network of the zoo has."""

    readers: Mapping[str, Callable[[C, Shapes], C]] = field(default_factory=dict)
    refused: Callable[[str], str] = lambda architecture: ""


@dataclass(frozen=True, kw_only=True)
class Architecture(Generic[C]):
    """A kind of network, by its configuration `config`.

    `network` gives its class: `network()(config, key=key)`; JAX is imported there.

    The fields of the configuration state what is read of tensors and settings, compared and
    bounded (`config_fields.py`). What fields cannot state are functions here, which get a
    configuration whose parts are done:

    - `sizes`: reads the sizes of leaves; None where one is missing.
    - `complete`: adds what only the settings beside a checkpoint state.
    - `transformers`: the class of `classes` that computes a network; it **raises** `BadRequest`
      where there is none.
    - `equimo`: Equimo's settings, where it has such networks.
    - `head`: the classifier of kinds that give features.
    - `options`: options of a library's architectures.
    """

    config: type[C]
    network: Callable[[], Callable[..., Any]]
    sizes: Callable[[C, Shapes], C | None] = with_sizes
    complete: Callable[[C, CheckpointFacts], C] = complete_from_settings
    transformers: Callable[[C], TransformersClass] = no_class
    classes: tuple[TransformersClass, ...] = ()
    equimo: Template | None = None
    head: ClassifierHead[C] | None = None
    options: LibraryOptions[C] = LibraryOptions()

    @property
    def gives_features(self) -> bool:
        """Whether its networks give tokens, and logits if they are classifiers."""
        return self.head is not None

    @property
    def is_on_backbone(self) -> bool:
        """Whether its networks read what a vision transformer gives."""
        return any(part.name == "backbone" for part in fields(self.config))

    def head_takes(self, config: C) -> str:
        """Return the vector that a classifier is given, in words."""
        return self.head.takes(config) if self.head else "what the network pools"

    def head_inputs(self, config: C) -> Mapping[str, str] | None:
        """Return the vectors that a custom head may take, as `ClassifierHead` describes them."""
        return self.head.inputs(config) if self.head else {}


StagedConfig = TypeVar("StagedConfig", ConvNeXtConfig, SwinConfig)


def staged_with_head(config: StagedConfig, head: Shape | None) -> StagedConfig:
    """Configuration of a network in stages with the classes of a linear layer."""
    return replace(config, classes=head[0] if head and len(head) == 2 else 0)


def _as_built(config: StagedConfig, network: Any) -> StagedConfig:
    return replace(config, classes=len(network.head.weight) if network.head else 0)


staged_architecture = partial(
    Architecture[Any],
    head=ClassifierHead(
        with_classes=staged_with_head,
        as_built=_as_built,
        takes=lambda config: "the mean of the last map, normed",
    ),
)
