"""What is fused can be chosen, and a report says what a newer opset would fuse."""

import jax
import jax.numpy as jnp
import pytest

import converter
from converter.fuse.user_recognisers import names

SHAPE = (2, 6, 4)


def normed(x, axes):
    centred = x - x.mean(axes, keepdims=True)
    return centred * jax.lax.rsqrt(x.var(axes, keepdims=True) + 1e-5)


def rotary(x):
    angles = jnp.arange(6.0)[:, None] * jnp.array([1.0, 0.1])
    cos, sin = (jnp.concatenate([f(angles)] * 2, -1) for f in (jnp.cos, jnp.sin))
    return x * cos + jnp.concatenate([-x[..., 2:], x[..., :2]], -1) * sin


def attention(x):
    return jax.nn.softmax(x @ jnp.swapaxes(x, 1, 2)) @ x


def rms_norm(x):
    return x * jax.lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-6)


def instance_norm(x):
    return normed(x, 2) * jnp.arange(6.0)[:, None] + 1


FORMS = {
    "attention": (attention, "Attention"),
    "rotary": (rotary, "RotaryEmbedding"),
    "softmax": (jax.nn.softmax, "Softmax"),
    "log_softmax": (jax.nn.log_softmax, "LogSoftmax"),
    "gelu": (jax.nn.gelu, "Gelu"),
    "resize": (lambda x: jax.image.resize(x, (2, 9, 4), "linear"), "Resize"),
    "layer_norm": (lambda x: normed(x, -1), "LayerNormalization"),
    "rms_norm": (rms_norm, "RMSNormalization"),
    "group_norm": (instance_norm, "InstanceNormalization"),
    "clip": (lambda x: jnp.minimum(jnp.maximum(x, -1), 2), "Clip"),
    "hard_swish": (jax.nn.hard_swish, "HardSwish"),
    "softplus": (jax.nn.softplus, "Softplus"),
    "leaky_relu": (jax.nn.leaky_relu, "LeakyRelu"),
    "selu": (jax.nn.selu, "Selu"),
}


COMMON = ("Softmax", "Clip")
"""What is written like a single operation of JAX's too, or is part of others."""


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.full
def test_one_by_its_name_and_nothing(name):
    fn, operator = FORMS[name]
    others = [other for other in names() if other not in (name, "attention", "group_norm")]
    for fuse, wanted in (([name], True), (others, False), (False, False)):
        export = converter.to_onnx(fn, [SHAPE], fuse=fuse)
        assert (operator in export.report.histogram) == wanted, export.graph
        assert (operator in export.report.fused) == (wanted and operator not in COMMON)
        assert converter.check(export, fn).passed


@pytest.mark.full
def test_batch_norms():
    def fn(params, x):
        inverse = jax.lax.rsqrt(params["variance"] + 1e-3) * params["scale"]
        return x * inverse[:, None] + (params["bias"] - params["mean"] * inverse)[:, None]

    leaves = ("variance", "scale", "bias", "mean")
    params = {name: jnp.arange(2.0, 8.0) / (i + 1) for i, name in enumerate(leaves)}
    for fuse, wanted in ((["batch_norm"], True), (["gelu"], False)):
        export = converter.to_onnx(fn, [SHAPE], params=params, fuse=fuse)
        assert ("BatchNormalization" in export.report.histogram) == wanted
        assert converter.check(export, lambda x: fn(params, x)).passed


def test_what_others_need_comes_with_them():
    def both(x):
        return attention(jax.nn.gelu(x)), rotary(x)

    chosen = converter.to_onnx(both, [SHAPE], fuse=["attention"]).report
    assert chosen.fused == {"Attention": 1}
    nothing = converter.to_onnx(both, [SHAPE], opset=18, fuse=False).report
    assert not nothing.fused
    assert not nothing.newer


def test_a_wrong_name_is_answered_with_all():
    with pytest.raises(converter.SpecError, match=r"a list of attention, rotary.*'attentoin'"):
        converter.to_onnx(attention, [SHAPE], fuse=["attentoin"])
    with pytest.raises(converter.SpecError, match="received 'attention'"):
        converter.to_onnx(attention, [SHAPE], fuse="attention")


def test_what_a_newer_opset_would_fuse():
    def network(x):
        return attention(rotary(rms_norm(x))) + jax.nn.gelu(x) + jax.nn.mish(x) * jax.nn.silu(x)

    newer = converter.to_onnx(network, [SHAPE], opset=17).report.newer
    assert newer == {
        18: {"Mish": 1},
        20: {"Gelu": 1},
        23: {"Attention": 1, "RMSNormalization": 1, "RotaryEmbedding": 1},
        24: {"Swish": 1},
    }
    for opset, told in newer.items():
        there = converter.to_onnx(network, [SHAPE], opset=opset).report
        assert {op: there.fused[op] for op in told} == told
    assert "would be fused at opset 18: 1 Mish" in str(
        converter.to_onnx(network, [SHAPE], opset=17).report
    )
    assert not there.newer


def test_a_report_in_words():
    assert str(converter.to_onnx(lambda x: x + 1, [SHAPE]).report) == "1 node"
    assert str(converter.to_onnx(jnp.tanh, [SHAPE]).report) == "1 node"
    several = converter.to_onnx(lambda x: jax.nn.gelu(x) + jax.nn.mish(x), [SHAPE]).report
    assert str(several).splitlines()[0] == "3 nodes: 1 Gelu, 1 Mish"
