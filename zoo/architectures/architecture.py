"""Configurations of networks of any kind, and the record that says what the zoo asks of a kind.

Defaults are stated in configurations and nowhere else: layers get their arguments under the same
names. A caller asks the record of a configuration (`kinds.py`) and knows no kind of network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from weights.initializers import Shape
from zoo.architectures.config_fields import Shapes, with_sizes
from zoo.architectures.config_settings import Template, TransformersClass, with_settings
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.depth.depth_config import DepthConfig
from zoo.architectures.detection.detection_config import DeimConfig, DetectionConfig
from zoo.architectures.dual.dual_config import DualConfig, TextConfig
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


def no_class(config: Config) -> TransformersClass:
    """**Raises** `BadRequest`: transformers has no class for networks of this kind."""
    raise BadRequest(
        "transformers has no class for a classifier of DINOv2's patches, nor for depths on another "
        "network than DINOv2: write another format."
    )


def complete_from_settings(config: C, beside: CheckpointFacts) -> C:
    """Return the configuration with the fields that settings beside a checkpoint state."""
    return with_settings(config, beside.settings)


def as_they_are(got: Outputs, wanted: Outputs) -> tuple[Outputs, Outputs]:
    """Outputs whose order says something."""
    return got, wanted


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

    - `purpose`: what a network is for, in a sentence in which `{classes:,}`, `{such}` examples of
      them, `{stride}` and that there is a vector for the `{whole}` are put.
    - `exact`: outputs that are coordinates, which half precision computes in float32.
    - `compared`: batches of outputs, got and wanted, as what they say, where rounding may change
      their order: what low precisions are judged by.
    `similarity` says what cosines of images and texts are multiplied by and what is added, of a
    configuration and its leaves; only of kinds that compare them.

    `outputs` says what files may give, of a configuration and words about the pooled vector.
    `answer` is what outputs for one picture say of it. `thumbnail` draws what is in the outputs for
    a batch of one, of pictures of a size, and says what that is; it gets nothing that is not
    finite, and gives None where there is nothing to draw. `page_draws` are the outputs that the
    page of a network draws.
    """

    config: type[C]
    network: Callable[[], Callable[..., Any]]
    purpose: Callable[[C], str]
    sizes: Callable[[C, Shapes], C | None] = with_sizes
    complete: Callable[[C, CheckpointFacts], C] = complete_from_settings
    transformers: Callable[[C], TransformersClass] = no_class
    classes: tuple[TransformersClass, ...] = ()
    equimo: Template | None = None
    head: ClassifierHead[C] | None = None
    options: LibraryOptions[C] = LibraryOptions()
    exact: tuple[str, ...] = ()
    compared: Callable[[Outputs, Outputs], tuple[Outputs, Outputs]] = as_they_are
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
    head=ClassifierHead(
        with_classes=staged_with_head,
        as_built=_as_built,
        takes=lambda config: "the mean of the last map, normed",
    ),
)
