"""What every model of the zoo returns, and how the outputs are called in a file."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Array, Float


class Output(NamedTuple):
    """Features of one image, after the final norm.

    The rows of `last_hidden_state` are the class token, the registers and the patches by rows; a
    ConvNeXt's are the mean and then the pixels of its last map. `pooler_output` is one vector for
    the image (`zoo info` says which), `logits` are a classifier's, and `hidden_states` are those
    of the layers that were asked for, as tokens or as maps.
    """

    last_hidden_state: Float[Array, "tokens dim"]
    pooler_output: Float[Array, " dim"] | None = None
    logits: Float[Array, " classes"] | None = None
    hidden_states: tuple[Float[Array, "tokens dim"] | Float[Array, "dim height width"], ...] = ()


class Depth(NamedTuple):
    """How far away every pixel of an image is, in metres, or larger the nearer it is."""

    predicted_depth: Float[Array, "height width"]


def output_names(output: Output | Depth, layers: Sequence[int] = ()) -> list[str]:
    """Names of an output's leaves in their order; it may be abstract, or that of a batch.

    `layers` are those that were asked for: their hidden states are called by their numbers.
    """
    values = output._asdict()
    hidden = values.pop("hidden_states", ())
    names = [name for name, value in values.items() if value is not None]
    return names + [f"hidden_state_{layer}" for layer, _ in zip(layers, hidden, strict=True)]


def check_layers(layers: Sequence[int], count: int) -> None:
    """**Raises** `ValueError` if a layer is asked for that there is none of."""
    if not all(1 <= layer <= count for layer in layers):
        raise ValueError(f"layers are counted from 1 to {count}: got {list(layers)}")
