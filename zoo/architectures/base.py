"""Base classes of networks, and facts that a network knows of itself."""

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
    """Facts that a network knows of itself: what it is called, what is done to its images, what its
    classes are called in their order, and the configuration that it was made of."""

    name: str = ""
    preprocessing: Preprocessing | None = None
    labels: tuple[str, ...] = ()
    config: Config | None = None


UNKNOWN = Identity()


class FeatureRequest(NamedTuple):
    """Request of what only some networks give: states of layers, as maps or not, and attentions."""

    layers: Sequence[int]
    as_maps: bool
    attentions: bool


class Network(eqx.Module):
    """A network of the zoo, which takes one image or text, or images beside texts."""

    about: Identity = eqx.field(static=True)

    gives_features: ClassVar[bool] = False
    """Whether it gives tokens of an image, and logits if it is a classifier."""

    @property
    def name(self) -> str:
        """Name of the model; empty for one that was built by hand."""
        return self.about.name

    @property
    def preprocessing(self) -> Preprocessing | None:
        """Preprocessing of its images."""
        return self.about.preprocessing

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes, in their order."""
        return self.about.labels

    @property
    def config(self) -> Config | None:
        """Configuration that the network was made of."""
        return self.about.config

    @property
    def stride(self) -> int:
        """Pixels along a side of what becomes one row of the output; a text has no sides."""
        return 1

    @property
    def prefix_tokens(self) -> int:
        """Tokens in front of the patches; none where no tokens are given."""
        return 0

    @property
    def num_hidden_states(self) -> int:
        """How many layers there are to ask for; none where the answers are of the image."""
        return 0

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        """Outputs for what the network takes."""
        raise NotImplementedError

    def asked(self, asked: FeatureRequest, *inputs: Shaped[Array, "..."]) -> Returned:
        """The output, with what only some can be asked for."""
        return self(*inputs)

    def batched(self, asked: FeatureRequest, *inputs: Shaped[Array, "..."]) -> Returned:
        """The outputs for batches of what the network takes."""
        return jax.vmap(partial(self.asked, asked))(*inputs)


class FeatureNetwork(Network):
    """A network that gives tokens of one image, of its layers too, and logits if it classifies."""

    blocks: eqx.AbstractVar[tuple[eqx.Module, ...]]

    gives_features: ClassVar[bool] = True

    @property
    def num_hidden_states(self) -> int:
        """How many layers there are to ask for: the blocks, or the stages of blocks."""
        return len(self.blocks)

    def asked(self, asked: FeatureRequest, *inputs: Shaped[Array, "..."]) -> Returned:
        """Features of one image, with layers; attention is for a network that has it of tokens."""
        output: Returned = self(*inputs, asked.layers, as_maps=asked.as_maps)
        return output
