"""Equinox: a module is a pytree, which is called for one example. ``jax.vmap`` adds a batch."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from equinox import nn

from tests.frameworks.rows import CARRY, Bound, Row, draw, spaces, subclasses

KEY = jax.random.key(0)
CHANNELS = {1: (("B", 4, 10),), 2: (("B", 4, 10, 8),), 3: (("B", 4, 4, 8, 6),)}
SEQUENCE = (("B", 5, 8),)


def batched(
    make: Callable[[], Any], call: Callable[..., Any] = lambda module, *xs: module(*xs)
) -> Callable[..., Bound]:
    """Return a row's ``bind`` for a module under ``vmap``, whose arrays are parameters. ``call``
    applies the module to one example."""

    def bind(*inputs: Any) -> Bound:
        def fn(module: Any, *xs: Any) -> Any:
            return jax.vmap(lambda *x: call(module, *x), axis_name="batch")(*xs)

        return fn, draw(eqx.filter_eval_shape(make))

    return bind


def of(layer: Any, *args: Any, **options: Any) -> Callable[..., Bound]:
    """Return ``bind`` for a layer that is made with a key."""
    return batched(lambda: layer(*args, **options, key=KEY))


def plain(layer: Any, *args: Any, **options: Any) -> Callable[..., Bound]:
    """Return ``bind`` for a layer that is made without a key."""
    return batched(lambda: layer(*args, **options))


def stateful(make: Callable[[], Any]) -> Callable[..., Bound]:
    """Return ``bind`` for a layer with running statistics, at inference."""
    return batched(
        lambda: eqx.nn.make_with_state(make)(),
        lambda pair, x: nn.inference_mode(pair[0])(x, pair[1])[0],
    )


def over_time(cell: Any) -> Callable[..., Bound]:
    """Return ``bind`` for a cell under ``lax.scan``, as in Equinox's examples."""

    def run(cell: Any, xs: jax.Array) -> Any:
        start = jnp.zeros(6) if isinstance(cell, nn.GRUCell) else (jnp.zeros(6), jnp.zeros(6))
        return jax.lax.scan(lambda carry, x: (cell(x, carry), None), start, xs)[0]

    return batched(lambda: cell(8, 6, key=KEY), run)


def attention(**options: Any) -> Callable[..., Bound]:
    return batched(lambda: nn.MultiheadAttention(2, 8, key=KEY, **options), lambda m, x: m(x, x, x))


def autoregressive(module: nn.MultiheadAttention, x: jax.Array) -> jax.Array:
    return module(x, x, x, mask=jnp.tril(jnp.ones((5, 5), bool)))


def tied() -> nn.Shared:
    """Return an embedding that shares its matrix with the last layer."""
    pair = (nn.Embedding(7, 4, key=KEY), nn.Linear(4, 7, key=KEY))
    return nn.Shared(pair, lambda p: p[1].weight, lambda p: p[0].weight)


def logits(shared: nn.Shared, token: jax.Array) -> jax.Array:
    embedding, head = shared()
    return head(embedding(token))


ROWS = [
    Row("Linear", of(nn.Linear, 4, 5)),
    Row("Linear, of scalars", of(nn.Linear, "scalar", "scalar"), (("B",),)),
    Row("Identity", plain(nn.Identity)),
    Row("MLP", of(nn.MLP, 4, 5, 6, 2, jax.nn.gelu)),
    Row("Sequential", batched(lambda: nn.Sequential([nn.Linear(4, 5, key=KEY),
        nn.Lambda(jax.nn.gelu), nn.Linear(5, 3, key=KEY)]))),
    Row("Lambda", plain(nn.Lambda, jax.nn.silu)),
    Row("PReLU", plain(nn.PReLU)),
    Row("Dropout", plain(nn.Dropout, inference=True)),
    Row("Embedding", of(nn.Embedding, 7, 4), ((("B",), np.int32),)),
    Row("Shared", batched(tied, logits), ((("B",), np.int32),)),
    *spaces(nn, of, "Conv{}d", 4, 6, 3, stride=2, shapes=CHANNELS),
    *spaces(nn, of, "ConvTranspose{}d", 4, 6, 3, stride=2, shapes=CHANNELS),
    Row("Conv", of(nn.Conv, 2, 4, 6, (3, 2), groups=2, dilation=2), CHANNELS[2]),
    Row("ConvTranspose", of(nn.ConvTranspose, 2, 4, 6, (3, 2), output_padding=1, stride=2),
        CHANNELS[2]),
    *spaces(nn, plain, "AvgPool{}d", 3, 2, shapes=CHANNELS),
    *spaces(nn, plain, "MaxPool{}d", 3, 2, shapes=CHANNELS),
    *spaces(nn, plain, "AdaptiveAvgPool{}d", 2, shapes=CHANNELS),
    *spaces(nn, plain, "AdaptiveMaxPool{}d", 2, shapes=CHANNELS),
    Row("AdaptiveAvgPool2d, of uneven parts", plain(nn.AdaptiveAvgPool2d, (4, 3)),
        (("B", 4, 9, 7),)),
    Row("Pool", plain(nn.Pool, -jnp.inf, jax.lax.max, 2, (3, 2), 2), CHANNELS[2]),
    Row("AdaptivePool", plain(nn.AdaptivePool, (4, 3), 2, jnp.max), CHANNELS[2]),
    Row("LayerNorm", plain(nn.LayerNorm, 4)),
    Row("RMSNorm", plain(nn.RMSNorm, 4)),
    Row("GroupNorm", plain(nn.GroupNorm, 2, 4), CHANNELS[2]),
    Row("BatchNorm", stateful(lambda: nn.BatchNorm(4, "batch", mode="ema")), CHANNELS[2]),
    Row("BatchNorm, batch statistics", stateful(lambda: nn.BatchNorm(4, "batch", mode="batch")),
        CHANNELS[2]),
    Row("SpectralNorm", stateful(
        lambda: nn.SpectralNorm(nn.Linear(4, 5, key=KEY), "weight", key=KEY))),
    Row("WeightNorm", batched(lambda: nn.WeightNorm(nn.Linear(4, 5, key=KEY)))),
    Row("MultiheadAttention", attention(), SEQUENCE),
    Row("MultiheadAttention, with biases", attention(use_query_bias=True, use_key_bias=True,
        use_value_bias=True, use_output_bias=True), SEQUENCE),
    Row("MultiheadAttention, causal", batched(lambda: nn.MultiheadAttention(2, 8, key=KEY),
        autoregressive), SEQUENCE),
    Row("RotaryPositionalEmbedding", plain(nn.RotaryPositionalEmbedding, 8), SEQUENCE),
    Row("LSTMCell", of(nn.LSTMCell, 8, 6), (("B", 8), CARRY)),
    Row("LSTMCell, over time", over_time(nn.LSTMCell), SEQUENCE),
    Row("GRUCell", of(nn.GRUCell, 8, 6), (("B", 8), ("B", 6))),
    Row("GRUCell, over time", over_time(nn.GRUCell), SEQUENCE),
]  # fmt: skip
EXCLUDED = {
    "StateIndex": "it stores the state of a layer and computes nothing",
    "StatefulLayer": "the base class of layers with state",
}
"""Public layers without a row, with the reason."""


def public() -> set[str]:
    return subclasses(nn, eqx.Module)
