"""Build networks from configurations, and run networks of any kind."""

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
    """Return a network with initial parameters drawn from `key`.

    `name`, `preprocessing` and `labels` are stored in the network as its metadata.
    """
    identity = Identity(name, preprocessing, labels, config)
    model: Network = architecture_of(config).network()(config, identity=identity, key=key)
    return model


@cache
def abstract(
    config: Config,
    *,
    name: str = "",
    preprocessing: Preprocessing | None = None,
    labels: tuple[str, ...] = (),
) -> Network:
    """Return a network whose leaves are `jax.ShapeDtypeStruct`s instead of arrays.

    It needs no memory for parameters and no random numbers. `name`, `preprocessing` and `labels`
    are stored in the network as its metadata. The network is cached, so equal arguments return the
    same object.
    """
    make = partial(build_model, config, name=name, preprocessing=preprocessing, labels=labels)
    return eqx.filter_eval_shape(lambda key: make(key=key), jr.key(0))


def batched(
    model: Callable[..., Any],
    *inputs: Shaped[Array, "..."],
    layers: Sequence[int] = (),
    as_maps: bool = False,
    outputs: Sequence[str] = (),
) -> Any:
    """Compute a network on a batch, and return a dictionary of its outputs by their names in the
    exported file, as `by_name` does.

    This is the function that is exported.

    **Arguments:**

    - `model`: a network, or any other callable for one example. The results of such a callable are
      returned as they are, with a batch axis and without names.
    - `inputs`: batches of the arrays that the network takes, such as pictures `[batch, 3, H, W]`,
      and texts and their masks `[batch, tokens]`.
    - `layers`, `as_maps`: as in `FeatureRequest`.
    - `outputs`: names out of `output_choices`. Attention weights are computed only if any names are
      given. Empty for the outputs that the network returns without attention weights. Requested
      hidden states are always returned.
    """
    if not isinstance(model, Network):
        return jax.vmap(lambda *arrays: model(*arrays))(*inputs)
    output = model.compute_batch(FeatureRequest(layers, as_maps, bool(outputs)), *inputs)
    return by_name(output, layers, outputs)


def output_choices(config: Config, layers: Sequence[int] = ()) -> list[str]:
    """Return the names of all outputs that a network can return, such as `last_hidden_state` and
    `attentions`.

    They are names of fields of the network's result, without the numbers of layers that names in a
    file have. `layers` are the numbers of the layers whose states are requested; without any,
    `hidden_states` is left out. The network is evaluated abstractly, without parameters.
    """

    def run(model: Network, *inputs: Shaped[Array, "..."]) -> Returned:
        return model.compute_batch(FeatureRequest(layers, as_maps=False, attentions=True), *inputs)

    output = eqx.filter_eval_shape(run, abstract(config), *_small_input_shapes(config))
    return [field for field, value in output._asdict().items() if jax.tree.leaves(value)]


def _small_input_shapes(config: Config) -> list[jax.ShapeDtypeStruct]:
    """Return the shapes and dtypes of a network's inputs for a batch of one small picture or text.

    A picture has 4 patches along each side. An open text length is `SMALL_TEXT_TOKENS`. Integers
    are int32, as in JAX.
    """
    side = 4 * config.stride
    return [
        jax.ShapeDtypeStruct(
            (1, *(SMALL_TEXT_TOKENS if isinstance(n, str) else n for n in shape)),
            array.dtype.replace("int64", "int32"),
        )
        for network_input in config.inputs
        for array, shape in zip(
            network_input.arrays, network_input.shapes((side, side)), strict=True
        )
    ]


SMALL_TEXT_TOKENS = 8
"""Number of tokens of a small text whose length is open."""


def find_networks(model: object) -> list[Network]:
    """Return the networks in a module, in tree order: the module itself if it is a network,
    otherwise the outermost networks that it contains. Networks inside of a network are left out.
    """
    parts = jax.tree.leaves(model, is_leaf=lambda part: isinstance(part, Network))
    return [part for part in parts if isinstance(part, Network)]


def count_parameters(model: object) -> int:
    """Return the number of parameters of a module: the sum of the sizes of all array leaves, except
    those of rotary positions.

    The statistics of batch norms are counted too. Leaves may be arrays of JAX or
    `jax.ShapeDtypeStruct`s; arrays of NumPy are not counted.
    """
    leaves = jax.tree.leaves(model, is_leaf=lambda part: isinstance(part, RoPE))
    return sum(leaf.size for leaf in leaves if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct))
