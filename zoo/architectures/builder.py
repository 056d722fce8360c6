"""Build models from configurations, and run models of any kind."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.random as jr
from jaxtyping import Array, PRNGKeyArray, Shaped

from zoo.architectures.architecture import Config
from zoo.architectures.base import FeatureRequest, Identity, Network
from zoo.architectures.kinds import architecture_of
from zoo.architectures.parts.attention import RoPE
from zoo.architectures.parts.output import Returned, by_name
from zoo.images.preprocessing import Preprocessing


def build_model(
    config: Config,
    *,
    name: str = "",
    preprocessing: Preprocessing | None = None,
    labels: tuple[str, ...] = (),
    key: PRNGKeyArray,
) -> Network:
    """A model with initial parameters drawn from `key`.

    `name`, `preprocessing` and `labels` are what the model knows of itself.
    """
    about = Identity(name, preprocessing, labels, config)
    made: Network = architecture_of(config).network()(config, about=about, key=key)
    return made


@cache
def abstract(
    config: Config,
    *,
    name: str = "",
    preprocessing: Preprocessing | None = None,
    labels: tuple[str, ...] = (),
) -> Network:
    """A model whose leaves are `jax.ShapeDtypeStruct`s: no memory, no random numbers."""
    make = partial(build_model, config, name=name, preprocessing=preprocessing, labels=labels)
    return eqx.filter_eval_shape(lambda key: make(key=key), jr.key(0))


def batched(
    model: Callable[..., Any],
    *inputs: Shaped[Array, "..."],
    layers: Sequence[int] = (),
    as_maps: bool = False,
    outputs: Sequence[str] = (),
) -> Any:
    """The function that an exported file computes: a network's outputs by their names in the file,
    or what a model gives.

    **Arguments:** a model, and batches of what it takes: of images `[batch, 3, H, W]`, of texts and
    of what is no padding in them `[batch, tokens]`. `outputs` are some of `output_choices`; by
    default what the network gives unasked.
    """
    if not isinstance(model, Network):
        return jax.vmap(lambda *arrays: model(*arrays))(*inputs)
    output = model.batched(FeatureRequest(layers, as_maps, bool(outputs)), *inputs)
    return by_name(output, layers, outputs)


def output_choices(config: Config, layers: Sequence[int] = ()) -> list[str]:
    """Fields of all outputs that a network can give where those layers are asked for."""

    def run(model: Network, *inputs: Shaped[Array, "..."]) -> Returned:
        return model.batched(FeatureRequest(layers, as_maps=False, attentions=True), *inputs)

    output = eqx.filter_eval_shape(run, abstract(config), *_least(config))
    return [field for field, value in output._asdict().items() if jax.tree.leaves(value)]


def _least(config: Config) -> list[jax.ShapeDtypeStruct]:
    """Shapes of the arrays for a small picture, a text, or both, as a network takes them."""
    side = 4 * config.stride
    return [
        jax.ShapeDtypeStruct(
            (1, *(LEAST_TOKENS if isinstance(n, str) else n for n in shape)),
            array.dtype.replace("int64", "int32"),
        )
        for each in config.inputs
        for array, shape in zip(each.arrays, each.shapes((side, side)), strict=True)
    ]


LEAST_TOKENS = 8
"""Words of a small text whose length is open."""


def networks_in(model: object) -> list[Network]:
    """The networks that a module is or holds."""
    parts = jax.tree.leaves(model, is_leaf=lambda part: isinstance(part, Network))
    return [part for part in parts if isinstance(part, Network)]


def count_parameters(model: object) -> int:
    """How many numbers training adjusts: every array leaf but those of rotary positions."""
    leaves = jax.tree.leaves(model, is_leaf=lambda part: isinstance(part, RoPE))
    return sum(leaf.size for leaf in leaves if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct))
