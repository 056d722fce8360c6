"""Configurations of networks of any kind, and the record that says what the zoo asks of a kind.

Defaults are stated in configurations and nowhere else: layers get their arguments under the same
names. A caller asks the record of a configuration (`kinds.py`) and knows no kind of network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from weights.initializers import Shape
from zoo.architectures.common_config import Four
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.depth.depth_config import DepthConfig
from zoo.architectures.detection.detection_config import DeimConfig, DetectionConfig
from zoo.architectures.dual.dual_config import DualConfig, TextConfig
from zoo.architectures.parts.layer_options import OF_TRANSFORMERS, Activation
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
)

C = TypeVar("C", bound=Config)


Shapes = Callable[[str], Shape | None]
"""The shape that a checkpoint gives a leaf; None where it has none."""


@dataclass(frozen=True)
class TransformersClass:
    """A class of transformers: its name, its configuration's, and the settings of a network.

    `antialias` says how it interpolates learned positions, `asks` that it only does where it is
    told to. `nested` is the part of its configuration that the settings are, where they are one.
    `auto` finds the class by its settings, `answers` are outputs that it has in place of features.
    One that is not `pooled` has a pooler of its own, which is no part of its classifiers. With
    `key_bias` it is told whether keys have a bias, and one that is `square` takes squares alone.
    `free` are settings that may have other values for the same network, `idle` those that change no
    answer.
    """

    name: str
    model_type: str
    settings: Callable[[Any], dict[str, Any]]
    antialias: bool = False
    asks: bool = False
    nested: str = ""
    auto: str = "AutoModel"
    answers: tuple[str, ...] = ()
    pooled: bool = True
    key_bias: bool = False
    square: bool = False
    free: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()


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


def told_of_blocks(settings: Settings | None, activation: Activation, eps: float) -> dict[str, Any]:
    """The activation and the epsilon of a network: told, or else the usual ones."""
    return {
        "activation": OF_TRANSFORMERS.get((settings and settings.hidden_act) or "", activation),
        "norm_eps": (settings and settings.layer_norm_eps) or eps,
    }


def no_class(config: Config) -> TransformersClass:
    """**Raises** `BadRequest`: transformers has no class for networks of this kind."""
    raise BadRequest(
        "transformers has no class for a classifier of DINOv2's patches, nor for depths on another "
        "network than DINOv2: write another format."
    )


def unchanged(config: C, *_: object) -> C:
    """A configuration as it is."""
    return config


@dataclass(frozen=True, kw_only=True)
class Architecture(Generic[C]):
    """A kind of network, by its configuration `config`.

    `network` gives its class: `network()(config, key=key)`; JAX is imported there.

    `parts` are the fields of a configuration that are networks of another kind, whose leaves lie
    under these names; those that folders have files of are `towers`, by transformers.js' names. All
    functions from configurations to configurations get one whose parts are done.

    - `sizes`: with those that leaves tell; None where not all are there that do.
    - `landmarks`: shapes of a few leaves that tell networks apart without building them.
    - `free`: without what somebody's own may have otherwise: classes, grid, details.
    - `unsized`: without its sizes.
    - `valued`: with what the values of leaves tell.
    - `settled`: with what no tensor tells, from the settings beside them.
    - `interpolated`: with positions brought to another size with antialiasing, or without.
    - `untold`: what no tensor of a network in sizes of no table tells, and the settings beside it
      do not say, in words that end in what to write there; empty where they do.
    - `below`: without what makes its features answers.
    - `with_head`: with the classes of a linear layer, and the tokens that it takes; only of kinds
      that give features, and logits if they are classifiers.
    - `as_built`: as a network is now, which somebody may have cut.
    - `head_takes`: the vector that the classifier is given, in words.
    - `head_inputs`: vectors that a custom head may take and that no tensor tells apart, in words by
      the `global_pool` that means each; empty where there is only one, None where none is known.
    - `refused_option`: an option of timm's architecture of a name that no network has; else empty.
    - `options`: readers of options that a library's networks have or not, by their names.

    `told` is the part of `config.json` that is about the network; `heads`, where there are any,
    says how many share the channels, which nothing else tells. `transformers` is the class of
    `classes` that computes a network, or **raises** `BadRequest`; `equimo` are Equimo's settings,
    where it has such networks.
    """

    config: type[C]
    network: Callable[[], Callable[..., Any]]
    parts: tuple[str, ...] = ()
    towers: Mapping[str, str] = field(default_factory=dict)
    sizes: Callable[[C, Shapes], C | None]
    landmarks: Callable[[C], dict[str, Shape]] = lambda config: {}
    free: Callable[[C], C] = unchanged
    unsized: Callable[[C], C] = unchanged
    valued: Callable[[C, Mapping[str, Any]], C] = unchanged
    settled: Callable[[C, CheckpointFacts], C] = unchanged
    interpolated: Callable[[C, bool], C] = unchanged
    untold: Callable[[C, Settings | None], str] = lambda config, settings: ""
    below: Callable[[C], Config] = unchanged
    with_head: Callable[[C, Shape | None], C] | None = None
    as_built: Callable[[C, Any], C] = unchanged
    head_takes: Callable[[C], str] = lambda config: "what the network pools"
    head_inputs: Callable[[C], Mapping[str, str] | None] = lambda config: {}
    refused_option: Callable[[str], str] = lambda architecture: ""
    options: Mapping[str, Callable[[C, Shapes], C]] = field(default_factory=dict)
    told: Callable[[Settings], Settings] = lambda settings: settings
    heads: Callable[[C], int] | None = None
    transformers: Callable[[C], TransformersClass] = no_class
    classes: tuple[TransformersClass, ...] = ()
    equimo: Callable[[C], dict[str, Any]] | None = None

    @property
    def gives_features(self) -> bool:
        """Whether its networks give tokens, and logits if they are classifiers."""
        return self.with_head is not None


on_backbone = partial(Architecture[Any], parts=("backbone",), below=lambda config: config.backbone)
"""Makes the record of networks that read what a vision transformer gives."""


def count_rows(shapes: Shapes, leaf: str, axis: int = 0) -> int:
    """How many rows or columns a matrix has; 0 where there is none."""
    return (shapes(leaf) or (0, 0))[axis]


def count_numbered(shapes: Shapes, leaf: str) -> int:
    """How many leaves of numbered names there are, from 0 on."""
    return sum(1 for _ in takewhile(lambda number: shapes(leaf.format(number)), count()))


def channels_between(shapes: Shapes, first: str, last: str, times: int) -> int:
    """The channels between two layers of a block; 0 where they are not those."""
    one, other = (shapes(f"blocks.0.mlp.{layer}.weight") or () for layer in (first, last))
    fitting = len(one) == len(other) == 2 and one[0] == times * other[1]
    return other[1] if fitting else 0


def as_four(numbers: list[int]) -> Four:
    """Four numbers of a list."""
    first, second, third, fourth = numbers
    return first, second, third, fourth


feature_architecture = partial(
    Architecture[Any],
    told=lambda settings: settings.network,
)

StagedConfig = TypeVar("StagedConfig", ConvNeXtConfig, SwinConfig)


def staged_with_head(config: StagedConfig, head: Shape | None) -> StagedConfig:
    """Configuration of a network in stages with the classes of a linear layer."""
    return replace(config, classes=head[0] if head and len(head) == 2 else 0)


def _as_built(config: StagedConfig, network: Any) -> StagedConfig:
    return replace(config, classes=len(network.head.weight) if network.head else 0)


staged_architecture = partial(
    feature_architecture,
    landmarks=lambda config: {"norm.weight": (config.dim,)},
    below=lambda config: replace(config, classes=0),
    with_head=staged_with_head,
    head_takes=lambda config: "the mean of the last map, normed",
    as_built=_as_built,
)
