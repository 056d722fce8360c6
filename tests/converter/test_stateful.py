"""Conversions of modules that store state (Flax NNX), of methods and of variadic functions."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import converter

SPECS = [("B", 9, 7, 3)]
NAMES = ["conv.kernel.value", "head.bias.value", "head.kernel.value"]
PICTURES = np.random.default_rng(0).standard_normal((2, 9, 7, 3)).astype(np.float32)


class Network(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.conv = nnx.Conv(3, 6, (3, 3), rngs=rngs)
        self.norm = nnx.BatchNorm(6, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.head = nnx.Linear(6, 4, rngs=rngs)
        self.norm.mean[...] = jnp.linspace(-1, 1, 6)

    def __call__(self, x):
        return self.head(self.features(x))

    def features(self, x):
        return self.drop(nnx.relu(self.norm(self.conv(x))).mean((1, 2)))


@pytest.mark.parametrize("expression", ["model", "model.__call__", "lambda x: model(x)"])
def test_modules_are_converted_with_parameter_names(expression):
    """A module in inference, its method or a lambda converts with the names of its parameters."""
    model = Network()
    model.eval()
    scope = {"model": model}
    export = converter.to_onnx(eval(expression, scope), SPECS)
    assert set(NAMES) <= export.model.graph.initializers.keys()
    assert [value.name for value in export.model.graph.inputs] == ["x"]
    assert converter.check(export.model, model, [PICTURES]).passed


def test_methods_are_converted_with_parameter_names():
    model = Network()
    model.eval()
    export = converter.to_onnx(model.features, SPECS)
    assert "conv.kernel.value" in export.model.graph.initializers
    assert converter.check(export.model, model.features, [PICTURES]).passed


def test_modules_in_training_give_a_warning():
    """A module in training converts, with a warning: one call of it is a function too."""
    with pytest.warns(UserWarning, match=r"norm\.mean\.value, norm\.var\.value.*model\.eval\(\)"):
        converter.to_onnx(Network(), SPECS)


def test_dimensions_of_none_are_rejected():
    with pytest.raises(converter.SpecError, match=r'has a None: call one .* such as "batch"'):
        converter.to_onnx(jnp.sin, [(None, 3)])


@pytest.mark.parametrize("spec", [(-1, 3), ((2, -3), "int32"), jax.ShapeDtypeStruct((2, -1), "f4")])
def test_negative_sizes_are_rejected(spec):
    """Other libraries write -1 for a size that is open; ONNX has no such dimension."""
    with pytest.raises(
        converter.SpecError, match=r'has a negative one: call one .* such as "batch"'
    ):
        converter.to_onnx(jnp.sin, [spec])


def test_inputs_of_variadic_functions_have_generated_names():
    model = nn.Dense(3)
    variables = model.init(nnx.Rngs(0).params(), jnp.ones((1, 4)))
    export = converter.to_onnx(model.apply, [("B", 4)], params=variables)
    assert [value.name for value in export.model.graph.inputs] == ["input_0"]
