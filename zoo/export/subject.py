"""Describe a user's model for an export: the network of the zoo in it, and the values of its
parameters."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from weights import LazyArrays, LazyTensor, Provenance, Weights, array_leaves
from zoo.architectures.builder import count_parameters, find_networks
from zoo.architectures.entry import ModelInfo
from zoo.architectures.kinds import architecture_of
from zoo.common.errors import BadRequest
from zoo.registry.lookup import find_model_or_family


@dataclass(frozen=True)
class Subject:
    """A model to export.

    Arguments:
        entry: registry entry that describes the network, adapted to its sizes and classes.
        model: the Equinox module, with shapes and dtypes (`jax.ShapeDtypeStruct`) in place of
            arrays.
        weights: the values of its array leaves, by path.
        is_network: whether the module is a network of the zoo. False if it contains one and has
            further layers around it.
    """

    entry: ModelInfo
    model: Any
    weights: Weights
    is_network: bool


def to_subject(model: Callable[..., Any]) -> Subject:
    """Return the `Subject` for a user's model, whose leaves are arrays.

    The entry is that of the network of the zoo inside the model, with the sizes, the classes and
    the preprocessing that it has now. **Raises** `BadRequest` if the model does not contain exactly
    one network that `zoo.from_pretrained` or `zoo.create` built, or if it has shapes in place of
    arrays.
    """
    networks = find_networks(model)
    if len(networks) != 1 or not (networks[0].name and networks[0].config):
        problem = f"{len(networks)} of them" if len(networks) != 1 else "one that was built by hand"
        raise BadRequest(
            "zoo.to_onnx takes models that hold one network of `zoo.from_pretrained` or "
            f"`zoo.create`, which knows its preprocessing and licence; this one holds {problem}. "
            "`converter.to_onnx` takes any function."
        )
    (network,), values = networks, array_leaves(model)
    if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in values.values()):
        raise BadRequest(
            "the model has shapes in place of parameters: give one of `zoo.from_pretrained`, or of "
            "`zoo.create` with a key."
        )
    tensors = {
        path: LazyTensor(leaf.shape, "float32", partial(np.asarray, leaf, _exported_dtype(leaf)))
        for path, leaf in values.items()
    }
    entry = find_model_or_family(network.name)
    # The user may have removed blocks or changed the classes.
    config = network.config or entry.config
    if (head := architecture_of(config).head) is not None:
        config = head.from_network(config, network)
    # The entry describes the changed network. It keeps the licence of the published one.
    entry = replace(
        entry,
        config=config,
        preprocessing=network.preprocessing or entry.preprocessing,
        labels=network.labels if len(network.labels) == config.classes else (),
        parameters=count_parameters(model),
        digest="",
    )
    weights = Weights(LazyArrays(tensors), Provenance("own", sha256=hash_model(model)))
    return Subject(entry, jax.tree.map(_to_shape_struct, model), weights, network is model)


def _to_shape_struct(leaf: object) -> object:
    """Return the shape and dtype of an array as a `jax.ShapeDtypeStruct`, and any other leaf
    unchanged."""
    if not isinstance(leaf, jax.Array | np.ndarray):
        return leaf
    return jax.ShapeDtypeStruct(leaf.shape, _exported_dtype(leaf))


def _exported_dtype(leaf: jax.Array | np.ndarray) -> Any:
    """Return the dtype that an array has in the ONNX file: float32 for every floating-point type,
    otherwise the array's own."""
    return jnp.float32 if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf.dtype


def hash_model(model: Any) -> str:
    """Return the sha256 of the bytes that `eqx.tree_serialise_leaves` would write for a model."""
    sha256 = hashlib.sha256()
    eqx.tree_serialise_leaves(SimpleNamespace(write=sha256.update), model)
    return sha256.hexdigest()
