"""What networks have in common that give features, and logits if they are classifiers."""

from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from weights.initializers import Shape
from zoo.architectures.architecture import Architecture, GivenOutput
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.swin.swin_config import SwinConfig
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.tasks.answer import Outputs, Size, classes
from zoo.tasks.maps import components

TURNS_INTO_VECTORS = (
    "Turns a picture into vectors, one for each patch of {stride} x {stride} pixels{whole}: for "
    "search, classification, segmentation and what else is trained on top of them."
)
CLASSIFIES = "Says which of {classes:,} classes a picture shows{such}."


FeatureConfig = ViTConfig | ConvNeXtConfig | SwinConfig


def feature_outputs(
    config: FeatureConfig, pooler: str, rows: str, when: str = "after"
) -> dict[str, GivenOutput]:
    """Outputs that they give; `rows` says what those of tokens are, `when` is before or after the
    norm."""
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
