"""What every model of the zoo returns, and how the outputs are called in a file."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Array, Float

from zoo.models.config import Config


class Output(NamedTuple):
    """Features of one image, after the final norm.

    The rows of `last_hidden_state` are the class token, the registers and the patches by rows; a
    ConvNeXt's are the mean and then the pixels of its last map. `pooler_output` is one vector for
    the image (`zoo info` says which), `logits` are a classifier's, and `hidden_states` are those
    of the layers that were asked for.
    """

    last_hidden_state: Float[Array, "tokens dim"]
    pooler_output: Float[Array, " dim"] | None = None
    logits: Float[Array, " classes"] | None = None
    hidden_states: tuple[Array, ...] = ()


def output_names(config: Config, layers: Sequence[int] = ()) -> list[str]:
    """Names of the outputs that a model has, in the order of their leaves."""
    names = ["last_hidden_state"]
    names += ["pooler_output"] if config.pool else []
    names += ["logits"] if config.classes else []
    return names + [f"hidden_state_{layer}" for layer in layers]
