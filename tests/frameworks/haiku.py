"""Haiku: a function that makes its modules, transformed into a function of parameters and state."""

from collections.abc import Callable
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np

from tests.frameworks.rows import IMAGE, SEQUENCE, TOKENS, Bound, Row, draw, spaces, subclasses

KEY = jax.random.key(0)
PHOTO = (("B", 33, 35, 3),)
INIT = hk.initializers.VarianceScaling(1.0)


def haiku(call: Callable[..., Any]) -> Callable[..., Bound]:
    """Return ``bind`` for a function that makes modules and calls them. Parameters and state become
    initializers."""
    module = hk.transform_with_state(call)

    def fn(variables: Any, *inputs: Any) -> Any:
        return module.apply(*variables, None, *inputs)[0]

    def bind(*inputs: Any) -> Bound:
        return fn, draw(jax.eval_shape(module.init, KEY, *inputs))

    return bind


def of(layer: Any, *args: Any, **options: Any) -> Callable[..., Bound]:
    return haiku(lambda *inputs: layer(*args, **options)(*inputs))


def at_inference(layer: Any, *args: Any, **options: Any) -> Callable[..., Bound]:
    """Return ``bind`` for a layer with running statistics, at inference. Statistics are made only
    if `init` runs in training."""
    return haiku(lambda x: layer(*args, **options)(x, is_training=hk.running_init()))


def cell(layer: Any) -> Callable[..., Bound]:
    """Return ``bind`` for one step of a core, which takes the input first and its state second."""
    return haiku(lambda state, x: layer(6)(x, state))


def unrolled(x: jax.Array) -> Any:
    core = hk.LSTM(6)
    return hk.dynamic_unroll(core, x, core.initial_state(x.shape[0]), time_major=False)


def tower(x: jax.Array) -> jax.Array:
    """Apply a BatchNorm between convolutions, as in a ResNet."""
    y = hk.Conv2D(6, 3, with_bias=False)(x)
    y = jax.nn.relu(hk.BatchNorm(True, True, 0.9)(y, is_training=hk.running_init()))
    return hk.avg_pool(hk.Conv2D(4, 1)(y) + x, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def conv_lstm(dims: int) -> tuple[Callable[..., Bound], Any]:
    shape = (5, 7, 6)[:dims]
    state = (("B", *shape, 6), ("B", *shape, 6))
    layer = getattr(hk, f"Conv{dims}DLSTM")
    bind = haiku(lambda s, x: layer(shape, 6, 3)(x, hk.LSTMState(*s)))
    return bind, (state, ("B", *shape, 4))


def quantised(layer: Any, **options: Any) -> Callable[..., Bound]:
    def call(x: jax.Array) -> jax.Array:
        result = layer(4, 6, 0.25, **options)(x, is_training=False)
        return result["quantize"], result["encoding_indices"]

    return haiku(call)


NORMED: dict[str, Any] = {"create_scale": True, "create_offset": True}
ROWS = [
    Row("Linear", of(hk.Linear, 5)),
    Row("Bias", of(hk.Bias)),
    Row("Sequential", haiku(lambda x: hk.Sequential([hk.Linear(5), jax.nn.gelu, hk.Linear(3)])(x))),
    Row("nets.MLP", of(hk.nets.MLP, (5, 6, 3))),
    Row("Flatten", of(hk.Flatten), SEQUENCE),
    Row("Reshape", of(hk.Reshape, (2, -1)), SEQUENCE),
    Row("Embed", of(hk.Embed, 7, 4), TOKENS),
    *spaces(hk, of, "Conv{}D", 6, 3, stride=2),
    *spaces(hk, of, "Conv{}DTranspose", 6, 3, stride=2),
    *spaces(hk, of, "DepthwiseConv{}D", 2, 3),
    Row("ConvND", of(hk.ConvND, 2, 6, (3, 2), rate=2), IMAGE),
    Row("ConvNDTranspose", of(hk.ConvNDTranspose, 2, 6, (3, 2), 2), IMAGE),
    Row("SeparableDepthwiseConv2D", of(hk.SeparableDepthwiseConv2D, 2, (3, 2)), IMAGE),
    Row("AvgPool", of(hk.AvgPool, (1, 3, 2, 1), (1, 2, 2, 1), "SAME"), IMAGE),
    Row("MaxPool", of(hk.MaxPool, (1, 3, 2, 1), (1, 2, 2, 1), "VALID"), IMAGE),
    Row("BatchNorm", at_inference(hk.BatchNorm, True, True, 0.9), IMAGE),
    Row("BatchNorm, between convolutions", haiku(tower), IMAGE),
    Row("LayerNorm", of(hk.LayerNorm, -1, **NORMED), SEQUENCE),
    Row("RMSNorm", of(hk.RMSNorm, -1), SEQUENCE),
    Row("GroupNorm", of(hk.GroupNorm, 2), IMAGE),
    Row("InstanceNorm", of(hk.InstanceNorm, **NORMED), IMAGE),
    Row("SpectralNorm", haiku(
        lambda x: x @ hk.SpectralNorm()(hk.get_parameter("w", (4, 5), init=jnp.ones), False))),
    Row("ExponentialMovingAverage", haiku(
        lambda x: hk.ExponentialMovingAverage(0.9)(x, update_stats=False)), ((3, 4),)),
    Row("MultiHeadAttention", haiku(lambda x: hk.MultiHeadAttention(2, 3, w_init=INIT)(x, x, x)),
        SEQUENCE),
    Row("MultiHeadAttention, causal", haiku(lambda x: hk.MultiHeadAttention(2, 3, w_init=INIT)(x,
        x, x, jnp.tril(jnp.ones((1, 1, 5, 5))))), SEQUENCE),
    Row("LSTM", haiku(lambda s, x: hk.LSTM(6)(x, hk.LSTMState(*s))),
        ((("B", 6), ("B", 6)), ("B", 4))),
    Row("LSTM, over time", haiku(unrolled), SEQUENCE),
    Row("GRU", cell(hk.GRU), (("B", 6), ("B", 4))),
    Row("VanillaRNN", cell(hk.VanillaRNN), (("B", 6), ("B", 4))),
    *(Row(f"Conv{n}DLSTM", *conv_lstm(n)) for n in (1, 2, 3)),
    Row("DeepRNN", haiku(lambda s, x: hk.DeepRNN([hk.VanillaRNN(6), jax.nn.relu, hk.GRU(5)])(x, s)),
        ((("B", 6), ("B", 5)), ("B", 4))),
    Row("IdentityCore", haiku(lambda x: hk.IdentityCore()(x, ())[0])),
    Row("ResetCore", haiku(lambda s, x, r: hk.ResetCore(hk.GRU(6))((x, r), s)),
        (("B", 6), ("B", 4), (("B",), np.bool_))),
    Row("Module, under hk.layer_stack", haiku(
        lambda x: hk.layer_stack(3)(lambda h: h + hk.Linear(4)(jax.nn.gelu(h)))(x))),
    Row("Module, under hk.remat", haiku(
        lambda x: hk.remat(lambda h: jax.nn.gelu(hk.Linear(5)(h)))(x))),
    # One ResNet for each kind of block: the others differ in the number of blocks only.
    *(Row(f"nets.{name}", at_inference(vars(hk.nets)[name], num_classes=5), PHOTO)
        for name in ("ResNet18", "ResNet50", "MobileNetV1")),
    Row("nets.VectorQuantizer", quantised(hk.nets.VectorQuantizer), SEQUENCE),
    Row("nets.VectorQuantizerEMA", quantised(hk.nets.VectorQuantizerEMA, decay=0.9), SEQUENCE),
]  # fmt: skip

TREE = "it changes parameters between training steps and is not a layer"
EXCLUDED = {
    "RNNCore": "the base class of all cores",
    "EMAParamsTree": TREE,
    "SNParamsTree": TREE,
    "nets.ResNet": "the base class of all ResNets",
    **{f"nets.ResNet{blocks}": "a ResNet with more blocks" for blocks in (34, 101, 152, 200)},
}
"""Public layers without a row, with the reason."""


def public() -> set[str]:
    return subclasses(hk, hk.Module) | {f"nets.{n}" for n in subclasses(hk.nets, hk.Module)}
