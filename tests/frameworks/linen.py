"""Flax Linen: a module's ``apply`` is a function of its variables and inputs."""

from collections.abc import Callable
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import numpy as np

from tests.frameworks.rows import CARRY, IMAGE, SEQUENCE, TOKENS, Bound, Row, draw, subclasses

KEY = jax.random.key(0)


def linen(module: nn.Module, method: Callable[..., Any] | None = None) -> Callable[..., Bound]:
    """Return ``bind`` for a module, or for a method of it."""

    def bind(*inputs: Any) -> Bound:
        shapes = jax.eval_shape(partial(module.init, method=method), KEY, *inputs)
        return partial(module.apply, method=method), draw(shapes)

    return bind


def decoding(module: nn.Module) -> Callable[..., Bound]:
    """Return ``bind`` for one decoding step, with the cache as an input and an output."""

    def step(params: Any, cache: Any, x: jax.Array) -> Any:
        variables = {"params": params, "cache": cache}
        y, updated = module.apply(variables, x, mutable=["cache"])
        return y, updated["cache"]

    def bind(cache: Any, x: Any) -> Bound:
        shapes = jax.eval_shape(module.init, KEY, x)
        return step, draw(shapes["params"])

    return bind


class Block(nn.Module):
    """A block that a scan or a rematerialisation repeats."""

    @nn.compact
    def __call__(self, x: jax.Array, _: None = None) -> tuple[jax.Array, None]:
        y = nn.MultiHeadDotProductAttention(2)(nn.LayerNorm()(x))
        return x + nn.Dense(4)(nn.gelu(y)), None


class Tower(nn.Module):
    """A BatchNorm between convolutions, as in a ResNet."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        y = nn.Conv(6, (3, 3), use_bias=False)(x)
        y = nn.relu(nn.BatchNorm(use_running_average=True)(y))
        return nn.avg_pool(nn.Conv(4, (1, 1))(y) + x, (2, 2), (2, 2))


CACHE = {"cached_key": (3, 5, 2, 4), "cached_value": (3, 5, 2, 4), "cache_index": ((), np.int32)}
ROWS = [
    Row("Dense", linen(nn.Dense(5))),
    Row("DenseGeneral", linen(nn.DenseGeneral((2, 3), axis=(-2, -1))), SEQUENCE),
    Row("Einsum", linen(nn.Einsum((2, 4, 3), "btc,hcd->bthd")), SEQUENCE),
    Row("Embed", linen(nn.Embed(7, 4)), TOKENS),
    Row("Conv", linen(nn.Conv(6, (3, 2), strides=2)), IMAGE),
    Row("Conv, causal", linen(nn.Conv(6, (3,), padding="CAUSAL")), SEQUENCE),
    Row("Conv, grouped", linen(nn.Conv(6, (3, 3), feature_group_count=2)), IMAGE),
    Row("Conv, circular", linen(nn.Conv(6, (3, 3), padding="CIRCULAR")), IMAGE),
    Row("ConvLocal", linen(nn.ConvLocal(6, (3, 2))), IMAGE),
    Row("ConvTranspose", linen(nn.ConvTranspose(6, (3, 2), strides=(2, 2))), IMAGE),
    Row("BatchNorm", linen(nn.BatchNorm(use_running_average=True)), IMAGE),
    Row("BatchNorm, between convolutions", linen(Tower()), IMAGE),
    Row("LayerNorm", linen(nn.LayerNorm()), SEQUENCE),
    Row("LayerNorm, slow variance", linen(nn.LayerNorm(use_fast_variance=False)), SEQUENCE),
    Row("RMSNorm", linen(nn.RMSNorm()), SEQUENCE),
    Row("GroupNorm", linen(nn.GroupNorm(2)), IMAGE),
    Row("InstanceNorm", linen(nn.InstanceNorm()), IMAGE),
    Row("SpectralNorm", linen(nn.SpectralNorm(nn.Dense(5)), lambda m, x: m(x, update_stats=False))),
    Row("WeightNorm", linen(nn.WeightNorm(nn.Dense(5)))),
    Row("PReLU", linen(nn.PReLU())),
    Row("Dropout", linen(nn.Dropout(0.5, deterministic=True))),
    Row("Sequential", linen(nn.Sequential([nn.Dense(5), nn.gelu, nn.Dense(3)]))),
    Row("SelfAttention", linen(nn.SelfAttention(2)), SEQUENCE),
    Row("MultiHeadAttention", linen(nn.MultiHeadAttention(2)), (*SEQUENCE, ("B", 6, 4))),
    Row("MultiHeadDotProductAttention", linen(nn.MultiHeadDotProductAttention(2),
        lambda m, x: m(x, mask=nn.make_causal_mask(x[..., 0]))), SEQUENCE),
    Row("MultiHeadDotProductAttention, one step with a cache",
        decoding(nn.MultiHeadDotProductAttention(2, qkv_features=8, decode=True)),
        (CACHE, (3, 1, 4))),
    Row("LSTMCell", linen(nn.LSTMCell(6)), (CARRY, ("B", 4))),
    Row("OptimizedLSTMCell", linen(nn.OptimizedLSTMCell(6)), (CARRY, ("B", 4))),
    Row("GRUCell", linen(nn.GRUCell(6)), (("B", 6), ("B", 4))),
    Row("MGUCell", linen(nn.MGUCell(6)), (("B", 6), ("B", 4))),
    Row("SimpleCell", linen(nn.SimpleCell(6)), (("B", 6), ("B", 4))),
    Row("ConvLSTMCell", linen(nn.ConvLSTMCell(6, (3, 3))),
        ((("B", 5, 7, 6), ("B", 5, 7, 6)), ("B", 5, 7, 4))),
    Row("RNN", linen(nn.RNN(nn.GRUCell(6), reverse=True, keep_order=True)), SEQUENCE),
    Row("RNN, of LSTM", linen(nn.RNN(nn.OptimizedLSTMCell(6), return_carry=True)), SEQUENCE),
    Row("RNN, of two layers", linen(nn.Sequential([nn.RNN(nn.SimpleCell(6)),
        nn.RNN(nn.SimpleCell(3))])), SEQUENCE),
    Row("RNN, with lengths", linen(nn.RNN(nn.LSTMCell(6)),
        lambda m, x, n: m(x, seq_lengths=n)), ((3, 5, 4), ((3,), np.int32))),
    Row("Bidirectional", linen(nn.Bidirectional(nn.RNN(nn.GRUCell(6)), nn.RNN(nn.GRUCell(6)))),
        SEQUENCE),
    Row("Module, under nn.scan", linen(nn.scan(Block, length=3, variable_axes={"params": 0},
        split_rngs={"params": True})()), SEQUENCE),
    Row("Module, under nn.remat", linen(nn.remat(Block)()), SEQUENCE),
    Row("Module, under nn.vmap", linen(nn.vmap(nn.Dense, in_axes=1, out_axes=1,
        variable_axes={"params": 0}, split_rngs={"params": True})(6)), SEQUENCE),
    Row("Module, under nn.jit", linen(nn.jit(Block)()), SEQUENCE),
]  # fmt: skip

EIGHT = "8-bit products for training in float8, for which ONNX Runtime has no kernels"
EXCLUDED = {
    "RNNCellBase": "the base class of all cells",
    **dict.fromkeys(("Fp8DirectDotGeneralOp", "Fp8DotGeneralOp", "Fp8Einsum"), EIGHT),
    "NANOOFp8DotGeneralOp": EIGHT,
}
"""Public layers without a row, with the reason."""


def public() -> set[str]:
    return subclasses(nn, nn.Module)
