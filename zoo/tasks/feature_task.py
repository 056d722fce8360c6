"""The task of networks that give feature vectors of patches, and of classifiers on top of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Protocol

from zoo.tasks.answer import (
    AskedPicture,
    Outputs,
    PictureAnswer,
    Question,
    Scores,
    Size,
    classes,
)
from zoo.tasks.maps import components
from zoo.tasks.task import Drawing, GivenOutput, Task

FEATURES, CLASSES = "image-feature-extraction", "image-classification"

TURNS_INTO_VECTORS = (
    "Turns a picture into vectors, one for each patch of {stride} x {stride} pixels{whole}: for "
    "search, classification, segmentation and what else is trained on top of them."
)
CLASSIFIES = "Says which of {classes:,} classes a picture shows{such}."


class FeatureSizes(Protocol):
    """Sizes of a network that gives features: pixels along a side of a patch, tokens in front of
    the patches, channels of a token and of the pooled vector, and the number of classes."""

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
    when: str = "after",
    fills: bool = False,
    more: Mapping[str, GivenOutput] | None = None,
) -> Task:
    """Return the task of a network of these sizes: features, or classes if it has any.

    **Arguments:** `rows` says what the rows of tokens are; tokens are those before or after the
    final norm (`when`). A network that `fills` a picture makes its sides multiples of the stride;
    others ignore what is left over. `more` are further outputs.
    """
    return Task(
        name=CLASSES if sizes.classes else FEATURES,
        purpose=CLASSIFIES if sizes.classes else TURNS_INTO_VECTORS,
        outputs=feature_outputs(sizes, rows, when) | dict(more or {}),
        answer=partial(_answer, sizes.scores),
        draw=partial(draw_components, sizes.stride, fills),
        page_draws=frozenset({"last_hidden_state", *(("logits",) if sizes.classes else ())}),
    )


def feature_outputs(sizes: FeatureSizes, rows: str, when: str) -> dict[str, GivenOutput]:
    """Return tokens, the pooled vector and logits."""
    stride = sizes.stride
    patches = f"(height / {stride}) * (width / {stride})"
    return {
        "last_hidden_state": GivenOutput(
            f"[batch_size, {sizes.prefix_tokens} + {patches}, {sizes.dim}]",
            f"a vector for each patch of {stride} x {stride} pixels, {when} the final norm; its "
            f"rows are {rows}, by rows",
        ),
        "pooler_output": GivenOutput(
            f"[batch_size, {sizes.width}]", "a vector for the whole picture: {pooler}"
        ),
        "logits": GivenOutput(
            f"[batch_size, {sizes.classes}]",
            "a linear classifier's number for each class, larger where it is likelier; id2label in "
            "config.json names the classes",
        ),
    }


def _answer(
    scores: Scores, outputs: Outputs, picture: AskedPicture, question: Question
) -> PictureAnswer:
    return classes(outputs, picture.names, scores)


def draw_components(stride: int, fills: bool, outputs: Outputs, size: Size) -> Drawing | None:
    """Draw the first three principal components of the patches as colours."""
    tokens = outputs.get("last_hidden_state")
    rows, columns = (-(-side // stride) if fills else side // stride for side in size)
    if tokens is None or tokens.ndim != 3 or not tokens.shape[1] >= rows * columns >= 3:
        return None
    patches = tokens[:1, -rows * columns :].reshape(1, rows, columns, -1)
    return components(patches)[0], "Features of the photograph of a cat, as colours"
