"""The task of networks that compute features of patches, and of classifiers on top of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Protocol

from zoo.tasks.answer import (
    InputPicture,
    Outputs,
    PictureAnswer,
    Question,
    Scores,
    Size,
    answer_classes,
)
from zoo.tasks.maps import principal_components
from zoo.tasks.task import Drawing, OutputDescription, Task

FEATURES, CLASSES = "image-feature-extraction", "image-classification"

TURNS_INTO_VECTORS = (
    "Turns a picture into vectors, one for each patch of {stride} x {stride} pixels{whole}: for "
    "search, classification, segmentation and other networks that are trained on them."
)
CLASSIFIES = "Says which of {classes:,} classes a picture shows{such}."


class FeatureSizes(Protocol):
    """The sizes of a network that computes features, which the descriptions of its outputs state.

    - `stride`: pixels along a side of a patch.
    - `prefix_tokens`: the number of tokens before the patches, such as the class token.
    - `dim`: the channels of a token.
    - `width`: the channels of the pooled vector.
    - `classes`: the number of classes. 0 means that the network has no classifier.
    - `scores`: the function that turns logits into scores.
    """

    @property
    def stride(self) -> int: ...
    @property
    def prefix_tokens(self) -> int: ...
    @property
    def dim(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def classes(self) -> int: ...
    @property
    def scores(self) -> Scores: ...


def feature_task(
    sizes: FeatureSizes,
    rows: str,
    norm_side: str = "after",
    pads_to_stride: bool = False,
    extra_outputs: Mapping[str, OutputDescription] | None = None,
) -> Task:
    """Return the task of a network: classification if it has classes, otherwise features.

    **Arguments**

    - `sizes`: the sizes of the network.
    - `rows`: the meaning of the rows of `last_hidden_state`, in words.
    - `norm_side`: `before` or `after`, for tokens before or after the final norm.
    - `pads_to_stride`: whether the network pads pictures to multiples of the stride. Other networks
      ignore the pixels beyond the last full patch.
    - `extra_outputs`: further outputs of the network, by name.
    """
    return Task(
        name=CLASSES if sizes.classes else FEATURES,
        purpose=CLASSIFIES if sizes.classes else TURNS_INTO_VECTORS,
        outputs=feature_outputs(sizes, rows, norm_side) | dict(extra_outputs or {}),
        answer=partial(_answer, sizes.scores),
        draw=partial(draw_components, sizes.stride, pads_to_stride),
        page_draws=frozenset({"last_hidden_state", *(("logits",) if sizes.classes else ())}),
    )


def feature_outputs(sizes: FeatureSizes, rows: str, norm_side: str) -> dict[str, OutputDescription]:
    """Return the descriptions of the outputs `last_hidden_state`, `pooler_output` and `logits`.

    **Arguments**

    - `sizes`: the sizes of the network.
    - `rows`: the meaning of the rows of `last_hidden_state`, in words.
    - `norm_side`: `before` or `after`, for tokens before or after the final norm.
    """
    stride = sizes.stride
    patches = f"(height / {stride}) * (width / {stride})"
    return {
        "last_hidden_state": OutputDescription(
            f"[batch_size, {sizes.prefix_tokens} + {patches}, {sizes.dim}]",
            f"a vector for each patch of {stride} x {stride} pixels, {norm_side} the final norm; "
            f"its rows are {rows}, by rows",
        ),
        "pooler_output": OutputDescription(
            f"[batch_size, {sizes.width}]", "a vector for the whole picture: {pooler}"
        ),
        "logits": OutputDescription(
            f"[batch_size, {sizes.classes}]",
            "the logit of a linear classifier for each class; id2label in config.json names the "
            "classes",
        ),
    }


def _answer(
    scores: Scores, outputs: Outputs, picture: InputPicture, question: Question
) -> PictureAnswer:
    """Return the best classes of a picture, or features if the outputs contain no logits.

    `scores` is the function that turns logits into scores.
    """
    return answer_classes(outputs, picture.names, scores)


def draw_components(
    stride: int, pads_to_stride: bool, outputs: Outputs, size: Size
) -> Drawing | None:
    """Return a picture of the patches' first three principal components, and its caption.

    The components are shown as red, green and blue. Return None if the outputs contain no tokens of
    patches, or fewer than three patches.

    **Arguments**

    - `stride`: pixels along a side of a patch.
    - `pads_to_stride`: whether the network pads pictures to multiples of the stride.
    - `outputs`: the outputs for a batch. Its first picture is drawn.
    - `size`: the (height, width) of the picture.
    """
    tokens = outputs.get("last_hidden_state")
    rows, columns = (-(-side // stride) if pads_to_stride else side // stride for side in size)
    if tokens is None or tokens.ndim != 3 or not tokens.shape[1] >= rows * columns >= 3:
        return None
    patches = tokens[:1, -rows * columns :].reshape(1, rows, columns, -1)
    return principal_components(patches)[0], "Features of the photograph of a cat, as colours"
