"""Describe a user's model: the network of the zoo that it holds, and the values of its
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
from zoo.registry.lookup import architecture


@dataclass(frozen=True)
class Subject:
    """Model to export: its entry, the model with abstract leaves, and their values. `is_network` is
    false if the model contains a network of the zoo and more."""

    entry: ModelInfo
    model: Any
    weights: Weights
    is_network: bool


def describe_model(model: Callable[..., Any]) -> Subject:
    """Return a user's model with concrete leaves as a subject. **Raises** `BadRequest` if it does
    not hold exactly one network of the zoo."""
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
        path: LazyTensor(leaf.shape, "float32", partial(np.asarray, leaf, _dtype(leaf)))
        for path, leaf in values.items()
    }
    entry = architecture(network.name)
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
    return Subject(entry, jax.tree.map(_abstract, model), weights, network is model)


def _abstract(leaf: object) -> object:
    """Return the shape and dtype of an array, and any other leaf unchanged."""
    if not isinstance(leaf, jax.Array | np.ndarray):
        return leaf
    return jax.ShapeDtypeStruct(leaf.shape, _dtype(leaf))


def _dtype(leaf: jax.Array | np.ndarray) -> Any:
    """Return the dtype in a file: float32 for all floating-point types."""
    return jnp.float32 if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf.dtype


def hash_model(model: Any) -> str:
    """Return the sha256 of the file that `eqx.tree_serialise_leaves` writes for a model."""
    sha256 = hashlib.sha256()
    eqx.tree_serialise_leaves(SimpleNamespace(write=sha256.update), model)
    return sha256.hexdigest()
