"""Flax NNX: a module holds its state, which ``nnx.split`` separates as parameters."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from tests.frameworks.rows import CARRY, IMAGE, SEQUENCE, TOKENS, Bound, Row, draw, subclasses


def nnx_(
    make: Callable[[nnx.Rngs], Any],
    call: Callable[..., Any] = lambda module, *xs: module(*xs),
    abstractly: Callable[..., Any] = nnx.eval_shape,
) -> Callable[..., Bound]:
    """Return ``bind`` for a module that ``make`` builds from random generators. ``call`` applies
    the module."""

    def bind(*inputs: Any) -> Bound:
        graph, state = nnx.split(abstractly(lambda: make(nnx.Rngs(0))))

        def fn(state: Any, *xs: Any) -> Any:
            return call(nnx.merge(graph, state), *xs)

        return fn, draw(state)

    return bind


def of(layer: Any, *args: Any, **options: Any) -> Callable[..., Bound]:
    """Return ``bind`` for a layer that is called with its inputs."""
    return nnx_(lambda rngs: layer(*args, **options, rngs=rngs))


class Block(nnx.Module):
    """A block that a scan or a rematerialisation repeats."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.norm = nnx.LayerNorm(4, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(2, 4, decode=False, rngs=rngs)
        self.dense = nnx.Linear(4, 4, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + self.dense(nnx.gelu(self.attention(self.norm(x))))


class Tower(nnx.Module):
    """A BatchNorm between convolutions, as in a ResNet."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.first = nnx.Conv(4, 6, (3, 3), use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(6, use_running_average=True, rngs=rngs)
        self.last = nnx.Conv(6, 4, (1, 1), rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        y = self.last(nnx.relu(self.norm(self.first(x))))
        return nnx.avg_pool(x + y, (2, 2), (2, 2))


@nnx.vmap(in_axes=0, out_axes=0)
def blocks(rngs: nnx.Rngs) -> Block:
    return Block(rngs=rngs)


@nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)
def through(block: Block, x: jax.Array) -> jax.Array:
    return block(x)


def one_step(module: nnx.MultiHeadAttention, cache: Any, x: jax.Array) -> Any:
    """Decode one step, with the cache as an input and an output."""
    nnx.update(module, cache)
    y = module(x)
    return y, nnx.to_pure_dict(nnx.state(module, nnx.Cache))


def decoding(rngs: nnx.Rngs) -> nnx.MultiHeadAttention:
    module = nnx.MultiHeadAttention(2, 4, 8, decode=True, rngs=rngs)
    module.init_cache((3, 5, 4))
    return module


CACHE = {"cached_key": (3, 5, 2, 4), "cached_value": (3, 5, 2, 4), "cache_index": ((), np.int32)}
ROWS = [
    Row("Linear", of(nnx.Linear, 4, 5)),
    Row("LinearGeneral", of(nnx.LinearGeneral, (5, 4), (2, 3), axis=(-2, -1)), SEQUENCE),
    Row("Einsum", of(nnx.Einsum, "btc,hcd->bthd", (2, 4, 3), (2, 3)), SEQUENCE),
    Row("Embed", of(nnx.Embed, 7, 4), TOKENS),
    Row("Conv", of(nnx.Conv, 4, 6, (3, 2), strides=2), IMAGE),
    Row("Conv, causal", of(nnx.Conv, 4, 6, (3,), padding="CAUSAL"), SEQUENCE),
    Row("ConvTranspose", of(nnx.ConvTranspose, 4, 6, (3, 2), strides=(2, 2)), IMAGE),
    Row("BatchNorm", of(nnx.BatchNorm, 4, use_running_average=True), IMAGE),
    Row("BatchNorm, between convolutions", of(Tower), IMAGE),
    Row("LayerNorm", of(nnx.LayerNorm, 4), SEQUENCE),
    Row("RMSNorm", of(nnx.RMSNorm, 4), SEQUENCE),
    Row("GroupNorm", of(nnx.GroupNorm, 4, 2), IMAGE),
    Row("InstanceNorm", of(nnx.InstanceNorm, 4), IMAGE),
    Row("SpectralNorm", nnx_(lambda rngs: nnx.SpectralNorm(nnx.Linear(4, 5, rngs=rngs), rngs=rngs),
        lambda m, x: m(x, update_stats=False))),
    # Its constructor reads a concrete matrix.
    Row("WeightNorm", nnx_(lambda rngs: nnx.WeightNorm(nnx.Linear(4, 5, rngs=rngs), rngs=rngs),
        abstractly=lambda make: make())),
    Row("PReLU", nnx_(lambda rngs: nnx.PReLU())),
    Row("Dropout", of(nnx.Dropout, 0.5, deterministic=True)),
    Row("LoRA", of(nnx.LoRA, 4, 2, 5)),
    Row("LoRALinear", of(nnx.LoRALinear, 4, 5, lora_rank=2)),
    Row("Sequential", nnx_(lambda rngs: nnx.Sequential(nnx.Linear(4, 5, rngs=rngs), nnx.gelu,
        nnx.Linear(5, 3, rngs=rngs)))),
    Row("List", nnx_(lambda rngs: nnx.List([nnx.Linear(4, n, rngs=rngs) for n in (5, 3)]),
        lambda m, x: [layer(x) for layer in m])),
    Row("Dict", nnx_(lambda rngs: nnx.Dict(head=nnx.Linear(4, 5, rngs=rngs)),
        lambda m, x: {"head": m["head"](x)})),
    Row("MultiHeadAttention", of(nnx.MultiHeadAttention, 2, 4, decode=False), SEQUENCE),
    Row("MultiHeadAttention, causal", nnx_(lambda rngs: nnx.MultiHeadAttention(2, 4, decode=False,
        rngs=rngs), lambda m, x: m(x, mask=nnx.make_causal_mask(x[..., 0]))), SEQUENCE),
    Row("MultiHeadAttention, one step with a cache", nnx_(decoding, one_step), (CACHE, (3, 1, 4))),
    Row("LSTMCell", of(nnx.LSTMCell, 4, 6), (CARRY, ("B", 4))),
    Row("OptimizedLSTMCell", of(nnx.OptimizedLSTMCell, 4, 6), (CARRY, ("B", 4))),
    Row("GRUCell", of(nnx.GRUCell, 4, 6), (("B", 6), ("B", 4))),
    Row("SimpleCell", of(nnx.SimpleCell, 4, 6), (("B", 6), ("B", 4))),
    Row("RNN", nnx_(lambda rngs: nnx.RNN(nnx.LSTMCell(4, 6, rngs=rngs), rngs=rngs)), SEQUENCE),
    Row("RNN, reversed", nnx_(lambda rngs: nnx.RNN(nnx.GRUCell(4, 6, rngs=rngs), reverse=True,
        keep_order=True, rngs=rngs)), SEQUENCE),
    Row("Bidirectional", nnx_(lambda rngs: nnx.Bidirectional(
        nnx.RNN(nnx.GRUCell(4, 6, rngs=rngs), rngs=rngs),
        nnx.RNN(nnx.GRUCell(4, 6, rngs=rngs), rngs=rngs), rngs=rngs)), SEQUENCE),
    Row("Module, under nnx.scan", nnx_(lambda rngs: blocks(rngs.split(3)), through), SEQUENCE),
    Row("Module, under nnx.remat", nnx_(lambda rngs: Block(rngs=rngs),
        lambda m, x: nnx.remat(lambda m, x: m(x))(m, x)), SEQUENCE),
    Row("Module, under nnx.jit", nnx_(lambda rngs: Block(rngs=rngs),
        lambda m, x: nnx.jit(lambda m, x: m(x))(m, x)), SEQUENCE),
    Row("Module, its gradient", nnx_(lambda rngs: nnx.Linear(4, 5, rngs=rngs),
        lambda m, x: nnx.grad(lambda m: jnp.sum(m(x) ** 2))(m))),
]  # fmt: skip
EXCLUDED = {"RNNCellBase": "the base class of all cells"}
"""Public layers without a row, with the reason."""


def public() -> set[str]:
    return subclasses(nnx, nnx.Module)
