"""Models that look at their own arrays in Python: those are constants, the others parameters."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import converter

LAYERS = 6


class Layer(eqx.Module):
    weight: jax.Array
    threshold: jax.Array
    table: np.ndarray

    def __call__(self, x):
        if np.asarray(self.threshold) > 0.5:
            x = x + 1
        order = np.asarray(self.table).argsort()
        return x[order] * self.weight + jnp.ones(len(order))


class Network(eqx.Module):
    layers: list[Layer]
    count: jax.Array
    shift: jax.Array

    def __call__(self, x):
        for layer in self.layers:
            x = jnp.tanh(layer(x))
        return x * self.shift + jnp.arange(int(self.count)).sum()


def network() -> Network:
    rng = np.random.default_rng(0)
    weights = jnp.asarray(rng.standard_normal((LAYERS + 1, 4), np.float32))
    layers = [Layer(w, jnp.asarray(rng.random()), rng.standard_normal(4)) for w in weights[1:]]
    return Network(layers, jnp.asarray(5), weights[0])


def test_what_is_looked_at_is_constant():
    net, seen = network(), []

    def call(model, x):
        seen.append(1)
        return model(x)

    export = converter.to_onnx(call, [(4,)], params=net, fold=False)
    assert len(seen) <= 24  # the layers together, not each by itself
    weights = {f"layers.{i}.weight" for i in range(LAYERS)}
    assert {v.name for v in export.graph.params} == weights | {"shift"}
    assert converter.check(export, net).passed


def test_a_module_is_looked_at_too():
    names = {v.name for v in converter.to_onnx(network(), [(4,)], verify=True).graph.params}
    assert "layers.0.weight" in names
    assert not {"count", "layers.0.threshold"} & names


def test_what_cannot_be_looked_at():
    with pytest.raises(converter.UnsupportedError, match=r"jnp\.where.*test_concrete\.py"):
        converter.to_onnx(lambda p, x: x * p if x[0] > 0 else x, [(4,)], params=np.ones(4))
    abstract = jax.ShapeDtypeStruct((), np.int32)
    with pytest.raises(converter.UnsupportedError, match="known only when it runs"):
        converter.to_onnx(lambda n, x: x + int(n), [(4,)], params=abstract)


def test_a_dictionary_by_functions_is_no_obstacle():
    """JAX does not flatten one whose keys have no order, and it holds no parameters."""
    table = {jnp.sin: 1.0, jnp.cos: 2.0}
    converter.to_onnx(lambda x: x * sum(table.values()), [(3,)], verify=True)
