"""Base classes of networks, and the metadata that a network carries."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
from jaxtyping import Array, Shaped

from zoo.architectures.architecture import Config
from zoo.architectures.parts.output import Returned
from zoo.images.preprocessing import Preprocessing


@dataclass(frozen=True)
class Identity:
    """Metadata of a network.

    **Arguments:**

    - `name`: the name of the model; empty for a network that was built directly from a
      configuration.
    - `preprocessing`: the preprocessing of its pictures.
    - `labels`: the names of its classes, in order.
    - `config`: the configuration that it was built from.
    """

    name: str = ""
    preprocessing: Preprocessing | None = None
    labels: tuple[str, ...] = ()
    config: Config | None = None


NO_IDENTITY = Identity()


class FeatureRequest(NamedTuple):
    """Request for features inside a network.

    **Arguments:**

    - `layers`: numbers of the layers whose states are returned, counted from 1.
    - `as_maps`: whether states are maps `[dim, height, width]` instead of tokens.
    - `attentions`: whether attention weights are returned too.
    """

    layers: Sequence[int]
    as_maps: bool
    attentions: bool


class Network(eqx.Module):
    """Base class of networks. A network takes one example: a picture, a text, or pictures and texts
    to compare."""

    identity: Identity = eqx.field(static=True)

    gives_features: ClassVar[bool] = False
    """Whether the network returns tokens of a picture, and logits if it is a classifier."""

    @property
    def name(self) -> str:
        """Name of the model; empty for a network that was built directly from a configuration."""
        return self.identity.name

    @property
    def preprocessing(self) -> Preprocessing | None:
        """Preprocessing of the network's pictures; None if it is not known."""
        return self.identity.preprocessing

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the logits."""
        return self.identity.labels

    @property
    def config(self) -> Config | None:
        """Configuration that the network was built from; None if it is not known."""
        return self.identity.config

    @property
    def stride(self) -> int:
        """Side, in pixels, of the square of the picture that one patch or one pixel of an output
        map covers. It is 1 unless a subclass defines it, as for texts."""
        return 1

    @property
    def prefix_tokens(self) -> int:
        """Number of tokens before the patches; 0 if the network returns no tokens."""
        return 0

    @property
    def num_hidden_states(self) -> int:
        """Number of layers whose states can be requested; 0 if the network does not return
        states."""
        return 0

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Return the outputs for one example, whose arrays have no batch axis. Subclasses implement
        it and have their own arguments."""
        raise NotImplementedError

    def compute(self, request: FeatureRequest, *inputs: Shaped[Array, "..."]) -> Returned:
        """Return the outputs for one example: the result of a call with `inputs`.

        `inputs` are arrays without a batch axis. This base class ignores `request`. Networks that
        can return states of layers or attention weights override the method.
        """
        return self(*inputs)

    def compute_batch(self, request: FeatureRequest, *inputs: Shaped[Array, "..."]) -> Returned:
        """Return the outputs for a batch of examples, with the requested features if the network
        has them.

        `inputs` are arrays with a batch axis, and so are the outputs.
        """
        return jax.vmap(partial(self.compute, request))(*inputs)


class FeatureNetwork(Network):
    """Base class of networks that return the tokens of one picture, the states of layers on
    request, and logits if they are classifiers."""

    blocks: eqx.AbstractVar[tuple[eqx.Module, ...]]

    gives_features: ClassVar[bool] = True

    @property
    def num_hidden_states(self) -> int:
        """Number of layers whose states can be requested: the number of blocks, or of stages."""
        return len(self.blocks)

    def compute(self, request: FeatureRequest, *inputs: Shaped[Array, "..."]) -> Returned:
        """Return the features of one picture, with the states of the layers in `request`, as tokens
        or as maps.

        Attention weights are not returned, even if the request has them.
        """
        output: Returned = self(*inputs, request.layers, as_maps=request.as_maps)
        return output
