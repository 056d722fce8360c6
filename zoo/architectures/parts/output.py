"""Outputs of networks, and their names in exported files."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from jaxtyping import Array, Float


class Output(NamedTuple):
    """Features of one picture or text.

    - `last_hidden_state`: rows for the class token, the registers, and the patches by rows, after
      the final norm. A ConvNeXt has the mean of its last map and then its pixels. A network for
      texts has the tokens.
    - `pooler_output`: one vector for the picture or text (`zoo info` describes it).
    - `logits`: the logits of a classifier.
    - `hidden_states`: the states of the requested layers, as tokens or as maps.
    - `attentions`: the attention weights of each token for each token, which sum to 1 in a row, in
      the requested layers, or in the last one if none are requested. Empty unless attentions are
      requested.
    - `class_attention`: the part of these weights that the class token has for the patches; empty
      without a class token.
    - `image_embeds`, `text_embeds`: the `pooler_output` of CLIP's networks again, under the name in
      transformers' classes, which other programs expect.
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
    """Distance of every pixel of a picture: in metres, or a relative number that is larger for
    nearer pixels."""

    predicted_depth: Float[Array, "height width"]


class Similarities(NamedTuple):
    """Similarities of pictures and texts.

    - `logits_per_image`, `logits_per_text`: the logits of each picture for each text, and their
      transpose.
    - `text_embeds`, `image_embeds`: the vectors of length 1 from which they are computed.
    """

    logits_per_image: Float[Array, "images texts"]
    logits_per_text: Float[Array, "texts images"]
    text_embeds: Float[Array, "texts dim"]
    image_embeds: Float[Array, "images dim"]


class Masks(NamedTuple):
    """Areas of a picture, one for each query.

    - `class_queries_logits`: softmax logits of the class of each area; the last class means that
      there is no area.
    - `masks_queries_logits`: sigmoid logits that a pixel of a map belongs to the area.
    """

    class_queries_logits: Float[Array, "queries classes"]
    masks_queries_logits: Float[Array, "queries height width"]


class Detections(NamedTuple):
    """Objects in a picture, one for each query.

    - `logits`: sigmoid logits of each class.
    - `pred_boxes`: centre (x, y), width and height of the box, as fractions of the picture's sides.
    - `pred_masks`: sigmoid logits that a pixel of a map belongs to the object; None for networks
      without masks.
    """

    logits: Float[Array, "queries classes"]
    pred_boxes: Float[Array, "queries 4"]
    pred_masks: Float[Array, "queries height width"] | None = None


class ClassMap(NamedTuple):
    """Softmax logits of the class of every patch of a picture."""

    logits: Float[Array, "classes height width"]


Returned: TypeAlias = Output | Depth | Masks | Detections | ClassMap | Similarities
"""Types of the results of networks."""


def by_name(
    output: Returned, layers: Sequence[int] = (), fields: Sequence[str] = ()
) -> OrderedDict[str, Any]:
    """Return the outputs of a network by their names in a file, in the order of the fields of
    `output`. The outputs may be abstract, or those of a batch. Outputs that are None or an empty
    tuple are left out.

    **Arguments:**

    - `output`: the result of a network.
    - `layers`: the requested layers. An output of a layer has the layer's number in its name:
      `hidden_state_3`, `attentions_3`, `class_attention_3`. Without requested layers, attention
      weights have the name of their field.
    - `fields`: names of the fields of `output` that are returned; empty for all. Hidden states,
      which exist only on request, are always included. Unknown names are ignored.

    **Raises** `ValueError` if a tuple in `output` is not empty and has another length than
    `layers`.
    """
    outputs: OrderedDict[str, Any] = OrderedDict()
    for field, value in output._asdict().items():
        if value is None or (fields and field not in {*fields, "hidden_states"}):
            continue
        if isinstance(value, tuple):
            stem = "hidden_state" if field == "hidden_states" else field
            names = [f"{stem}_{layer}" for layer in layers] or [stem]
            outputs.update(zip(names, value, strict=bool(value)))
        else:
            outputs[field] = value
    return outputs


def check_layers(layers: Sequence[int], count: int) -> None:
    """Raise `ValueError` if a requested layer is not between 1 and `count`."""
    if not all(1 <= layer <= count for layer in layers):
        raise ValueError(f"layers are counted from 1 to {count}: got {list(layers)}")
