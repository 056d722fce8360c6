"""Models that read the values of some of their own arrays in Python while they are traced.

The arrays that are read become constants, and the others stay parameters.
"""

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


def test_arrays_read_in_python_are_constants():
    net, calls = network(), []

    def call(model, x):
        calls.append(1)
        return model(x)

    export = converter.to_onnx(call, [(4,)], params=net, fold=False)
    assert len(calls) <= 24  # the arrays of all layers are made constant together
    weights = {f"layers.{i}.weight" for i in range(LAYERS)}
    assert {v.name for v in export.graph.params} == weights | {"shift"}
    assert converter.check(export, net).passed


def test_arrays_of_a_module_read_in_python_are_constants():
    names = {v.name for v in converter.to_onnx(network(), [(4,)], verify=True).graph.params}
    assert "layers.0.weight" in names
    assert not {"count", "layers.0.threshold"} & names


def test_values_unknown_in_python_are_rejected():
    with pytest.raises(converter.UnsupportedError, match=r"jnp\.where.*test_concrete\.py"):
        converter.to_onnx(lambda p, x: x * p if x[0] > 0 else x, [(4,)], params=np.ones(4))
    abstract = jax.ShapeDtypeStruct((), np.int32)
    with pytest.raises(converter.UnsupportedError, match="known only when it runs"):
        converter.to_onnx(lambda n, x: x + int(n), [(4,)], params=abstract)


def test_captured_dictionaries_may_have_functions_as_keys():
    """JAX does not flatten a dictionary whose keys have no order; this one has no parameters."""
    table = {jnp.sin: 1.0, jnp.cos: 2.0}
    converter.to_onnx(lambda x: x * sum(table.values()), [(3,)], verify=True)
