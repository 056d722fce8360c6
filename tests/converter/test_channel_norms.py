"""Norms of channels: operators, layouts."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from jax import lax

import converter
from tests.converter.test_channels import conv, drawn, stats

NHWC, NCHW = (2, 5, 7, 6), (2, 6, 5, 7)
SCALE, BIAS = drawn(6) + 1.5, drawn(6)
SIX = stats(6)


def keras_groups(x):
    """``keras.layers.GroupNormalization``, Keras 3.15: scaled before the channels are merged."""
    split = x.reshape(*x.shape[:-1], 3, -1)
    axes = (1, 2, 4)
    mean, variance = split.mean(axes, keepdims=True), split.var(axes, keepdims=True)
    inverse = lax.rsqrt(variance + 1e-3) * SCALE.reshape(3, -1)
    return (split * inverse + (-mean * inverse + BIAS.reshape(3, -1))).reshape(x.shape)


def by_hand(x):
    """A mean and a variance of each channel, the variance as E[x^2] - E[x]^2."""
    mean = x.mean((1, 2), keepdims=True)
    variance = jnp.maximum((x * x).mean((1, 2), keepdims=True) - mean * mean, 0)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * SCALE + BIAS


def known_by_hand(p, x):
    """The mean comes off first, which keeps digits that the operator loses."""
    norm = {k: p[k].reshape(6, 1, 1) for k in SIX}
    return (x - norm["mean"]) / jnp.sqrt(norm["var"] + 1e-5) * norm["gamma"] + norm["beta"]


def equinox_groups(groups):
    norm = eqx.nn.GroupNorm(groups, 6)
    norm = eqx.tree_at(lambda n: (n.weight, n.bias), norm, (jnp.asarray(SCALE), jnp.asarray(BIAS)))
    return jax.vmap(norm)


GROUPS = {"Reshape": 2, "InstanceNormalization": 1, "Mul": 1, "Add": 1}
TURNED = {"Transpose": 2}
CASES = {
    "eqx_groups": (equinox_groups(3), NCHW, GROUPS),
    "eqx_channels": (equinox_groups(6), NCHW, {"InstanceNormalization": 1}),
    "keras_groups": (keras_groups, NHWC, GROUPS | TURNED),
    "by_hand": (by_hand, NHWC, {"InstanceNormalization": 1} | TURNED),
}


FIXED = [pytest.param(1, opset, marks=pytest.mark.full) for opset in (17, 23)]


@pytest.mark.parametrize(("batch", "opset"), [("B", 23), *FIXED])
@pytest.mark.parametrize("name", CASES)
def test_operators(name, batch, opset):
    fn, shape, wanted = CASES[name]
    x = drawn(3 if batch == "B" else batch, *shape[1:]) * 2 + 1
    export = converter.to_onnx(fn, [(batch, *shape[1:])], opset=opset, verify=[x])
    assert export.report.histogram == wanted, export.graph


@pytest.mark.parametrize("norm", [keras_groups, pytest.param(by_hand, marks=pytest.mark.full)])
def test_a_network_keeps_the_transposes_of_its_ends(norm):
    params = {"one": drawn(3, 3, 4, 6), "two": drawn(3, 3, 6, 6), "three": drawn(1, 1, 6, 5)}

    def fn(p, x):
        y = jax.nn.relu(norm(conv(x, p["one"], 2)))
        y = y + jax.nn.silu(norm(conv(y, p["two"])))
        return conv(y, p["three"])

    images = drawn(3, 12, 10, 4)
    export = converter.to_onnx(fn, [("B", 12, 10, 4)], params=params, verify=[images])
    assert export.report.histogram["Transpose"] == 2, export.graph
    assert export.report.fused["InstanceNormalization"] == 2


def test_a_norm_before_the_activation_keeps_its_parameters():
    """What follows a residual sum has no convolution to go into."""
    params = {"one": drawn(3, 3, 4, 6), "two": drawn(3, 3, 6, 6), "norm": stats(6)}

    def fn(p, x):
        x = conv(x, p["one"])
        n = p["norm"]
        inverse = lax.rsqrt(n["var"] + 1e-3) * n["gamma"]
        y = jax.nn.relu(x * inverse + (n["beta"] - n["mean"] * inverse))
        return x + conv(y, p["two"])

    images = drawn(2, 9, 7, 4)
    export = converter.to_onnx(fn, [images], params=params, verify=[images])
    wanted = {"Conv": 2, "BatchNormalization": 1, "Relu": 1, "Add": 1, "Transpose": 2}
    assert export.report.histogram == wanted
    assert {f"norm.{k}" for k in params["norm"]} <= set(export.model.graph.initializers)


# ------------------------------------------------------------------------------------ near misses


def other_groups(x):
    """The channels are split the other way round."""
    split = x.reshape(*x.shape[:-1], 2, 3)
    axes = (1, 2, 3)
    y = (split - split.mean(axes, keepdims=True)) * lax.rsqrt(split.var(axes, keepdims=True) + 1e-3)
    return y.reshape(x.shape) * SCALE


def tiled(x):
    """Statistics of groups that are tiled, so that they are those of other channels."""
    split = x.reshape(*x.shape[:-1], 3, 2)
    mean, variance = (jnp.tile(v, 2) for v in (split.mean((1, 2, 4)), split.var((1, 2, 4))))
    return (x - mean[:, None, None]) * lax.rsqrt(variance + 1e-3)[:, None, None]


def scaled_by_place(x):
    """The scale has the size of another axis."""
    y = (x - x.mean((2, 3), keepdims=True)) * lax.rsqrt(x.var((2, 3), keepdims=True) + 1e-3)
    return y * NUMBERS["place"]


def known_of_another(p, x):
    """Twice the mean is taken off."""
    inverse = lax.rsqrt(p["var"].reshape(6, 1, 1) + 1e-3)
    return x * inverse - 2 * p["mean"].reshape(6, 1, 1) * inverse


NUMBERS = SIX | {"place": drawn(7)}


@pytest.mark.parametrize("fn", [known_of_another, known_by_hand])
def test_near_misses_of_known_statistics(fn):
    x = drawn(*NCHW)
    export = converter.to_onnx(fn, [x], params=NUMBERS, verify=[x])
    assert "BatchNormalization" not in export.report.histogram


@pytest.mark.parametrize(
    ("fn", "shape"), [(other_groups, NHWC), (tiled, NHWC), (scaled_by_place, NCHW)]
)
def test_near_misses(fn, shape):
    x = drawn(*shape) * 2 + 1
    export = converter.to_onnx(fn, [x], verify=[x])
    if fn is not other_groups:
        assert "InstanceNormalization" not in export.report.histogram, export.graph
