"""Outputs of networks, and their names in exported files."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from jaxtyping import Array, Float


class Output(NamedTuple):
    """Features of one image, after the final norm.

    The rows of `last_hidden_state` are the class token, the registers and the patches by rows; a
    ConvNeXt's are the mean and then the pixels of its last map. `pooler_output` is one vector for
    the image (`zoo info` says which), `logits` are a classifier's, and `hidden_states` are those
    of the layers that were asked for, as tokens or as maps.

    `attentions` says how much each token attends to each, the sum of a row being one, in the layers
    that were asked for, or in the last one if none were. `class_attention` is how much of that the
    class token gives to the patches. Both are empty unless they are asked for.

    `image_embeds` and `text_embeds` are the `pooler_output` of CLIP's towers once more, by the name
    that transformers' classes for them have, and those who call these.
    """

    last_hidden_state: Float[Array, "tokens dim"]
    pooler_output: Float[Array, " width"] | None = None
    logits: Float[Array, " classes"] | None = None
    hidden_states: tuple[Float[Array, "tokens dim"] | Float[Array, "dim height width"], ...] = ()
    attentions: tuple[Float[Array, "heads tokens tokens"], ...] = ()
    class_attention: tuple[Float[Array, "heads patches"], ...] = ()
    image_embeds: Float[Array, " width"] | None = None
    text_embeds: Float[Array, " width"] | None = None


class Depth(NamedTuple):
    """How far away every pixel of an image is, in metres, or larger the nearer it is."""

    predicted_depth: Float[Array, "height width"]


class Similarities(NamedTuple):
    """How well images and texts fit each other, and the vectors of length 1 that say so."""

    logits_per_image: Float[Array, "images texts"]
    logits_per_text: Float[Array, "texts images"]
    text_embeds: Float[Array, "texts dim"]
    image_embeds: Float[Array, "images dim"]


class Masks(NamedTuple):
    """Areas of an image, one for each query: how much its class is each, and the last none, and how
    much every pixel of a map is in it. Both are logits, of a softmax and of a sigmoid."""

    class_queries_logits: Float[Array, "queries classes"]
    masks_queries_logits: Float[Array, "queries height width"]


class Detections(NamedTuple):
    """Things in an image, one for each query: how much it is of each class, before a sigmoid, and
    the box that it is in: centre (x, y), width and height, as shares of the image's sides. Some say
    too how much every pixel of a map is of it, before a sigmoid."""

    logits: Float[Array, "queries classes"]
    pred_boxes: Float[Array, "queries 4"]
    pred_masks: Float[Array, "queries height width"] | None = None


class ClassMap(NamedTuple):
    """How much every patch of an image is of each class, before a softmax."""

    logits: Float[Array, "classes height width"]


Returned: TypeAlias = Output | Depth | Masks | Detections | ClassMap | Similarities
"""What networks return."""


def by_name(
    output: Returned, layers: Sequence[int] = (), fields: Sequence[str] = ()
) -> OrderedDict[str, Any]:
    """Outputs by their names in a file, in its order. They may be abstract, or those of a batch.

    **Arguments:**

    - `layers`: those that were asked for. What there is of each is called by its number, as in
      `attentions_3`.
    - `fields`: fields of the output. Hidden states, which nobody gets unasked, are given as well.
      By default all fields.
    """
    named: OrderedDict[str, Any] = OrderedDict()
    for field, value in output._asdict().items():
        if value is None or (fields and field not in {*fields, "hidden_states"}):
            continue
        if isinstance(value, tuple):
            stem = "hidden_state" if field == "hidden_states" else field
            names = [f"{stem}_{layer}" for layer in layers] or [stem]
            named.update(zip(names, value, strict=bool(value)))
        else:
            named[field] = value
    return named


def check_layers(layers: Sequence[int], count: int) -> None:
    """**Raises** `ValueError` if a layer is asked for that there is none of."""
    if not all(1 <= layer <= count for layer in layers):
        raise ValueError(f"layers are counted from 1 to {count}: got {list(layers)}")
