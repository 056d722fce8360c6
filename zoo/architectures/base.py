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
    """Base class of networks, which take one picture, one text, or pictures and texts to
    compare."""

    about: Identity = eqx.field(static=True)

    gives_features: ClassVar[bool] = False
    """Whether it returns tokens of a picture, and logits if it is a classifier."""

    @property
    def name(self) -> str:
        """Name of the model; empty for a network that was built directly from a configuration."""
        return self.about.name

    @property
    def preprocessing(self) -> Preprocessing | None:
        """Preprocessing of its pictures."""
        return self.about.preprocessing

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of its classes, in order."""
        return self.about.labels

    @property
    def config(self) -> Config | None:
        """Configuration that the network was built from."""
        return self.about.config

    @property
    def stride(self) -> int:
        """Number of pixels along a side of the area that one row of the output covers; 1 for
        texts."""
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
        """Return the outputs for one example."""
        raise NotImplementedError

    def compute(self, request: FeatureRequest, *inputs: Shaped[Array, "..."]) -> Returned:
        """Return the outputs for one example, with the requested features if the network has
        them."""
        return self(*inputs)

    def compute_batch(self, request: FeatureRequest, *inputs: Shaped[Array, "..."]) -> Returned:
        """Return the outputs for batches of inputs."""
        return jax.vmap(partial(self.compute, request))(*inputs)


class FeatureNetwork(Network):
    """Base class of networks that return the tokens of one picture, the states of layers, and
    logits if they are classifiers."""

    blocks: eqx.AbstractVar[tuple[eqx.Module, ...]]

    gives_features: ClassVar[bool] = True

    @property
    def num_hidden_states(self) -> int:
        """Number of layers whose states can be requested: the blocks or the stages."""
        return len(self.blocks)

    def compute(self, request: FeatureRequest, *inputs: Shaped[Array, "..."]) -> Returned:
        """Return the features of one picture, with the states of the requested layers."""
        output: Returned = self(*inputs, request.layers, as_maps=request.as_maps)
        return output
