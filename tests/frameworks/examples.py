"""The frameworks, and how a model of each becomes a file: what the page shows and a test runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from tests.frameworks.rows import Row


@dataclass(frozen=True)
class Framework:
    """``tables`` are modules with rows; the last says what there is, where that can be listed."""

    title: str
    package: str
    tables: tuple[str, ...]
    example: str
    listed: bool = True

    @property
    def installed(self) -> bool:
        return find_spec(self.package) is not None

    def rows(self) -> Iterator[Row]:
        for table in self.tables:
            yield from import_module(f"tests.frameworks.{table}").ROWS

    def public(self) -> set[str]:
        return import_module(f"tests.frameworks.{self.tables[-1]}").public()

    def left(self) -> Mapping[str, str]:
        """What there is no row for, and why."""
        return import_module(f"tests.frameworks.{self.tables[-1]}").LEFT if self.listed else {}


EQUINOX = """
import equinox as eqx, jax
import converter

model = eqx.nn.MLP(4, 3, 8, 2, key=jax.random.key(0))
export = converter.to_onnx(jax.vmap(model), [("batch", 4)])
"""
LINEN = """
import flax.linen as nn, jax
import converter

model = nn.Sequential([nn.Dense(8), nn.gelu, nn.Dense(3)])
variables = model.init(jax.random.key(0), jax.numpy.ones((1, 4)))
export = converter.to_onnx(model.apply, [("batch", 4)], params=variables)
"""
NNX = """
from flax import nnx
import converter

model = nnx.Sequential(nnx.Linear(4, 8, rngs=nnx.Rngs(0)), nnx.gelu)
graph, state = nnx.split(model)
export = converter.to_onnx(lambda s, x: nnx.merge(graph, s)(x), [("batch", 4)], params=state)
"""
HAIKU = """
import haiku as hk, jax
import converter

model = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP((8, 3))(x)))
params = model.init(jax.random.key(0), jax.numpy.ones((1, 4)))
export = converter.to_onnx(model.apply, [("batch", 4)], params=params)
"""
KERAS = """
import os

os.environ["KERAS_BACKEND"] = "jax"
import keras
import converter

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="gelu")])
trained = [
    [v.value for v in kind] for kind in (model.trainable_variables, model.non_trainable_variables)
]
export = converter.to_onnx(
    lambda params, x: model.stateless_call(*params, x, training=False)[0],
    [("batch", 4)],
    params=trained,
)
"""
BRAX = """
import jax
from brax.training.agents.ppo import networks as ppo
import converter

networks = ppo.make_ppo_networks(7, 3)
params = (None, networks.policy_network.init(jax.random.key(0)))  # or what training gave
act = ppo.make_inference_fn(networks)
export = converter.to_onnx(
    lambda params, observation: act(params, deterministic=True)(observation, None)[0],
    [("batch", 7)],
    params=params,
)
"""
JRAPH = """
import jraph
import converter

network = jraph.GraphConvolution(lambda nodes: nodes * 2, add_self_edges=True)
graph = jraph.GraphsTuple(
    nodes=(6, 4),
    edges=(9, 3),
    globals=(1, 2),
    senders=((9,), "int32"),
    receivers=((9,), "int32"),
    n_node=((1,), "int32"),
    n_edge=((1,), "int32"),
)
export = converter.to_onnx(lambda graph: network(graph).nodes, [graph])
"""
OPTAX = """
import jax, optax
import converter

params = {"w": jax.numpy.ones((4, 3)), "b": jax.numpy.zeros(3)}
optimiser = optax.adamw(1e-3)


def step(params, state, x, y):
    loss = lambda p: jax.numpy.mean((x @ p["w"] + p["b"] - y) ** 2)
    updates, state = optimiser.update(jax.grad(loss)(params), state, params)
    return optax.apply_updates(params, updates), state


export = converter.to_onnx(step, [params, optimiser.init(params), ("batch", 4), ("batch", 3)])
"""

FRAMEWORKS = (
    Framework("Equinox", "equinox", ("equinox",), EQUINOX),
    Framework("Flax Linen", "flax", ("linen",), LINEN),
    Framework("Flax NNX", "flax", ("nnx",), NNX),
    Framework("Haiku", "haiku", ("haiku",), HAIKU),
    Framework("Keras 3", "keras", ("keras_layers", "keras_sequences", "keras_images"), KERAS),
    Framework("Brax", "brax", ("policies",), BRAX, listed=False),
    Framework("jraph", "jraph", ("graphs",), JRAPH),
    Framework("optax", "optax", ("training",), OPTAX, listed=False),
)
