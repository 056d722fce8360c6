"""Configurations of networks of any kind, and the record that says what the zoo asks of a kind.

Defaults are stated in configurations and nowhere else: layers get their arguments under the same
names. A caller asks the record of a configuration (`kinds.py`) and knows no kind of network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from weights.initializers import Shape
from zoo.architectures.common_config import Four
from zoo.architectures.config_fields import Shapes
from zoo.architectures.config_settings import TransformersClass
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.depth.depth_config import DepthConfig
from zoo.architectures.detection.detection_config import DeimConfig, DetectionConfig
from zoo.architectures.dual.dual_config import DualConfig, TextConfig
from zoo.architectures.parts.layer_options import OF_TRANSFORMERS, Activation
from zoo.architectures.segmentation.segmentation_config import MaskConfig, SegmenterConfig
from zoo.architectures.swin.swin_config import SwinConfig
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.common.errors import BadRequest
from zoo.tasks.answer import Outputs, PictureAnswer, Question, Scores, Size, classes, features
from zoo.tasks.maps import components

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


class GivenOutput(NamedTuple):
    """An output's shape, as cards write it, and what it is, in words."""

    shape: str
    words: str


Thumbnail = tuple[NDArray[np.uint8], str]
"""A picture [height, width, 3], and what is on it, in words."""


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


def as_they_are(got: Outputs, wanted: Outputs) -> tuple[Outputs, Outputs]:
    """Outputs whose order says something."""
    return got, wanted


@dataclass(frozen=True, kw_only=True)
class Architecture(Generic[C]):
    """A kind of network, by its configuration `config`.

    `network` gives its class: `network()(config, key=key)`; JAX is imported there.

    `parts` are the fields of a configuration that are networks of another kind, whose leaves lie
    under these names; those that folders have files of are `towers`, by transformers.js' names. All
    functions from configurations to configurations get one whose parts are done.

    - `purpose`: what a network is for, in a sentence in which `{classes:,}`, `{such}` examples of
      them, `{stride}` and that there is a vector for the `{whole}` are put.
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
    - `exact`: outputs that are coordinates, which half precision computes in float32.
    - `compared`: batches of outputs, got and wanted, as what they say, where rounding may change
      their order: what low precisions are judged by.
    - `head_takes`: the vector that the classifier is given, in words.
    - `head_inputs`: vectors that a custom head may take and that no tensor tells apart, in words by
      the `global_pool` that means each; empty where there is only one, None where none is known.
    - `refused_option`: an option of timm's architecture of a name that no network has; else empty.
    - `options`: readers of options that a library's networks have or not, by their names.

    `told` is the part of `config.json` that is about the network; `heads`, where there are any,
    says how many share the channels, which nothing else tells. `transformers` is the class of
    `classes` that computes a network, or **raises** `BadRequest`; `equimo` are Equimo's settings,
    where it has such networks. `similarity` says what cosines of images and texts are multiplied by
    and what is added, of a configuration and its leaves; only of kinds that compare them.

    A network that `crops` ignores what fills no patch at the right and bottom edge; others fill
    that up in JAX or refuse it, and their files take whole patches alone.

    `outputs` says what files may give, of a configuration and words about the pooled vector.
    `answer` is what outputs for one picture say of it. `thumbnail` draws what is in the outputs for
    a batch of one, of pictures of a size, and says what that is; it gets nothing that is not
    finite, and gives None where there is nothing to draw. `page_draws` are the outputs that the
    page of a network draws.
    """

    config: type[C]
    network: Callable[[], Callable[..., Any]]
    parts: tuple[str, ...] = ()
    towers: Mapping[str, str] = field(default_factory=dict)
    purpose: Callable[[C], str]
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
    exact: tuple[str, ...] = ()
    compared: Callable[[Outputs, Outputs], tuple[Outputs, Outputs]] = as_they_are
    head_takes: Callable[[C], str] = lambda config: "what the network pools"
    head_inputs: Callable[[C], Mapping[str, str] | None] = lambda config: {}
    refused_option: Callable[[str], str] = lambda architecture: ""
    options: Mapping[str, Callable[[C, Shapes], C]] = field(default_factory=dict)
    told: Callable[[Settings], Settings] = lambda settings: settings
    heads: Callable[[C], int] | None = None
    transformers: Callable[[C], TransformersClass] = no_class
    classes: tuple[TransformersClass, ...] = ()
    equimo: Callable[[C], dict[str, Any]] | None = None
    crops: bool = True
    outputs: Callable[[C, str], Mapping[str, GivenOutput]]
    answer: Callable[[C, Outputs, Question], PictureAnswer] = lambda config, outputs, question: (
        features(outputs)
    )
    thumbnail: Callable[[C, Outputs, Size], Thumbnail | None] = lambda config, outputs, size: None
    page_draws: Callable[[C], Set[str]] = lambda config: frozenset()
    similarity: Callable[[C, Mapping[str, Any]], tuple[float, float]] | None = None

    @property
    def gives_features(self) -> bool:
        """Whether its networks give tokens, and logits if they are classifiers."""
        return self.with_head is not None


on_backbone = partial(Architecture[Any], parts=("backbone",), below=lambda config: config.backbone)
"""Makes the record of networks that read what a vision transformer gives."""


def count_rows(shapes: Shapes, leaf: str, axis: int = 0) -> int:
    """How many rows or columns a matrix has; 0 where there is none."""
    return (shapes(leaf) or (0, 0))[axis]


def as_four(numbers: list[int]) -> Four:
    """Four numbers of a list."""
    first, second, third, fourth = numbers
    return first, second, third, fourth


TURNS_INTO_VECTORS = (
    "Turns a picture into vectors, one for each patch of {stride} x {stride} pixels{whole}: for "
    "search, classification, segmentation and what else is trained on top of them."
)
CLASSIFIES = "Says which of {classes:,} classes a picture shows{such}."


FeatureConfig = ViTConfig | ConvNeXtConfig | SwinConfig


def feature_outputs(
    config: FeatureConfig, pooler: str, rows: str, when: str = "after"
) -> dict[str, GivenOutput]:
    """Return the outputs of a network that gives features; `rows` says what the rows of tokens are,
    `when` is before or after the norm."""
    patches = f"(height / {config.stride}) * (width / {config.stride})"
    return {
        "last_hidden_state": GivenOutput(
            f"[batch_size, {config.prefix_tokens} + {patches}, {config.dim}]",
            f"a vector for each patch of {config.stride} x {config.stride} pixels, {when} the "
            f"final norm; its rows are {rows}, by rows",
        ),
        "pooler_output": GivenOutput(
            f"[batch_size, {config.width}]", f"a vector for the whole picture: {pooler}"
        ),
        "logits": GivenOutput(
            f"[batch_size, {config.classes}]",
            "a linear classifier's number for each class, larger where it is likelier; id2label in "
            "config.json names the classes",
        ),
    }


def drawn_features(
    config: FeatureConfig, outputs: Outputs, size: Size
) -> tuple[NDArray[np.uint8], str] | None:
    """The principal components of patches."""
    tokens = outputs.get("last_hidden_state")
    rows, columns = (side // config.stride for side in size)
    if tokens is None or tokens.ndim != 3 or not tokens.shape[1] >= rows * columns >= 3:
        return None
    patches = tokens[:1, -rows * columns :].reshape(1, rows, columns, -1)
    return components(patches)[0], "Features of the photograph of a cat, as colours"


feature_architecture = partial(
    Architecture[Any],
    purpose=lambda config: CLASSIFIES if config.classes else TURNS_INTO_VECTORS,
    told=lambda settings: settings.network,
    answer=lambda config, outputs, question: classes(outputs, question.names, config.scores),
    thumbnail=drawn_features,
    page_draws=lambda config: {"last_hidden_state", *(("logits",) if config.classes else ())},
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
