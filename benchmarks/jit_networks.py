"""Networks for `against_jit.py`: layers, the zoo, steps of training, sequences and boxes."""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

import zoo
from benchmarks.jit_programs import Array, Make, integers, normal, of, positive, rows

KEY = jax.random.key(0)
WIDTH = 64

# ------------------------------------------------------------------------------------ frameworks


def equinox(layer: Callable[..., Any], *args: Any, inner: tuple[int, ...], **options: Any) -> Make:
    """A layer of Equinox on a batch."""
    return lambda n: (jax.vmap(layer(*args, key=KEY, **options)), (normal(n, *inner),))


def linen(module: nn.Module, *inner: int) -> Make:
    """A module of Flax Linen on a batch."""

    def made(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        params = module.init(KEY, normal(1, *inner))
        return partial(module.apply, params), (normal(n, *inner),)

    return made


def graph_layer(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Messages along edges, summed where they arrive."""
    weight = jnp.asarray(normal(WIDTH, WIDTH)) / 8

    def run(x: Array, senders: Array, receivers: Array) -> Array:
        messages = jnp.tanh(x[senders] @ weight)
        return jax.ops.segment_sum(messages, receivers, n * 8)

    return run, (normal(n * 8, WIDTH), integers(n * 8, n * 32), integers(n * 8, n * 32))


class Block(nn.Module):
    """A block of a transformer."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        y = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(4)(y, y)
        y = nn.LayerNorm()(x)
        return x + nn.Dense(WIDTH)(nn.gelu(nn.Dense(4 * WIDTH)(y)))


LAYERS = rows("layers", (1, 32), {
    "Equinox MLP": equinox(eqx.nn.MLP, WIDTH, WIDTH, 256, 3, inner=(WIDTH,)),
    "Equinox Conv2d": equinox(eqx.nn.Conv2d, 16, 32, 3, inner=(16, 32, 32)),
    "Linen LayerNorm": linen(nn.LayerNorm(), 49, WIDTH),
    "Linen GroupNorm": linen(nn.GroupNorm(8), 16, 16, 32),
    "Linen transformer block": linen(Block(), 49, WIDTH),
    "Linen RNN": linen(nn.RNN(nn.LSTMCell(WIDTH)), 32, WIDTH),
    "message passing": graph_layer,
})  # fmt: skip


# ------------------------------------------------------------------------------------------- zoo


def zoo_network(name: str) -> Make:
    """A network of the zoo on pictures; its first output."""

    def made(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        model = zoo.create(name, key=KEY)
        return jax.vmap(lambda x: jax.tree.leaves(model(x))[0]), (normal(n, 3, 224, 224),)

    return made


NAMES = ("dinov3_vits16", "dinov2_vits14", "dinov3_convnext_tiny", "siglip2_vitb16_224")
NETWORKS = rows("zoo", (1, 8), {name: zoo_network(name) for name in NAMES})


# -------------------------------------------------------------------------------------- training


def training(optimiser: Any) -> Make:
    """A step of training a perceptron: what its parameters become."""
    model = eqx.nn.MLP(16, 10, WIDTH, 2, key=KEY)
    arrays, static = eqx.partition(model, eqx.is_inexact_array)
    state = optimiser.init(arrays)

    def loss(arrays: Any, x: Array, labels: Array) -> Array:
        logits = jax.vmap(eqx.combine(arrays, static))(x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    def step(x: Array, labels: Array) -> Any:
        gradient = jax.grad(loss)(arrays, x, labels)
        updates, _ = optimiser.update(gradient, state, arrays)
        return jax.tree.leaves(eqx.apply_updates(arrays, updates))

    return of(step, lambda n: normal(n, 16), lambda n: integers(10, n))


TRAINING = rows("training", (4, 128), {
    "sgd": training(optax.sgd(0.1)),
    "adam": training(optax.adam(1e-3)),
    "adamw, clipped": training(optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))),
    "linear regression": of(
        lambda x, y: lax.fori_loop(
            0, 20, lambda _, w: w - 0.1 * x.T @ (x @ w - y) / len(y), jnp.zeros(16)),
        lambda n: normal(n, 16), normal),
})  # fmt: skip


# ------------------------------------------------------------------------------------- sequences


def kalman(seen: Array) -> Array:
    move, noise = jnp.array([[1.0, 0.1], [0.0, 1.0]]), 0.01 * jnp.eye(2)

    def step(state: Any, y: Array) -> Any:
        mean, spread = state
        mean, spread = move @ mean, move @ spread @ move.T + noise
        gain = spread[:, 0] / (spread[0, 0] + 0.1)
        mean = mean + gain * (y - mean[0])
        return (mean, spread - jnp.outer(gain, spread[0])), mean

    return lax.scan(step, (jnp.zeros(2), jnp.eye(2)), seen)[1]


def edit_distance(a: Array, b: Array) -> Array:
    def line_of(above: Array, x: Array) -> tuple[Array, None]:
        cost = jnp.minimum(above[:-1] + (b != x), above[1:] + 1)

        def along(left: Array, c: Array) -> tuple[Array, Array]:
            here = jnp.minimum(left + 1, c)
            return here, here

        first = above[0] + 1
        return jnp.concatenate([first[None], lax.scan(along, first, cost)[1]]), None

    start = jnp.arange(b.shape[0] + 1)
    return lax.scan(line_of, start, a)[0][-1]


def smoothed(x: Array) -> Array:
    def step(mean: Array, x: Array) -> tuple[Array, Array]:
        mean = 0.9 * mean + 0.1 * x
        return mean, mean

    return lax.scan(step, x[0], x)[1]


def cached_attention(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Tokens one by one against a cache of keys and values."""

    def run(x: Array) -> Array:
        def step(state: Any, x: Array) -> Any:
            cache, at = state
            cache = lax.dynamic_update_slice(cache, x[None], (at, 0))
            scores = jnp.where(jnp.arange(n) <= at, cache @ x, -jnp.inf)
            return (cache, at + 1), jax.nn.softmax(scores) @ cache

        return lax.scan(step, (jnp.zeros((n, 32)), jnp.int32(0)), x)[1]

    return run, (normal(n, 32),)


SEQUENCES = rows("sequences", (8, 128), {
    "kalman filter": of(kalman, normal),
    "edit distance": of(edit_distance, lambda n: integers(4, min(n, 32)),
                        lambda n: integers(4, min(n, 40))),
    "moving average": of(smoothed, lambda n: normal(n, 16)),
    "cumulative sum": of(lambda x: jnp.cumsum(x, 0), lambda n: normal(n, 16)),
    "attention with a cache": cached_attention,
    "ctc loss": of(
        lambda x: optax.ctc_loss(x[None], jnp.zeros(x.shape[:1])[None],
                                 jnp.array([[1, 2, 3, 2]]), jnp.zeros((1, 4))),
        lambda n: normal(n, 8)),
    "discounted returns": of(
        lambda r: lax.scan(lambda g, r: ((r + 0.9 * g,) * 2), 0.0, r, reverse=True)[1], normal),
})  # fmt: skip


# ------------------------------------------------------------------------------------- detection


def boxes(n: int) -> np.ndarray:
    corners, sides = positive(n, 2), positive(n, 2)
    return np.concatenate([corners, corners + sides[::-1]], 1)


def overlaps(a: Array, b: Array) -> Array:
    low, high = jnp.maximum(a[:, None, :2], b[:, :2]), jnp.minimum(a[:, None, 2:], b[:, 2:])
    shared = jnp.prod(jnp.clip(high - low, 0), -1)
    areas = [jnp.prod(x[:, 2:] - x[:, :2], -1) for x in (a, b)]
    return shared / (areas[0][:, None] + areas[1] - shared)


def pooled_regions(features: Array, boxes: Array) -> Array:
    def one(box: Array) -> Array:
        ys, xs = (jnp.linspace(box[i], box[i + 2], 7) * 4 for i in (0, 1))
        places = jnp.stack(jnp.meshgrid(ys, xs, indexing="ij"))
        return jax.vmap(lambda f: jax.scipy.ndimage.map_coordinates(f, places, 1))(features)

    return jax.vmap(one)(boxes)


def soft_suppressed(boxes: Array, scores: Array) -> Array:
    shared = overlaps(boxes, boxes)

    def step(state: Any, _: Any) -> Any:
        scores = state
        top = jnp.argmax(scores)
        found = scores[top]
        scores = scores * jnp.exp(-(shared[top] ** 2) / 0.5)
        return scores.at[top].set(-1.0), (top, found)

    return lax.scan(step, jnp.abs(scores), None, length=8)[1]


DETECTION = rows("detection", (8, 256), {
    "overlaps": of(overlaps, boxes, boxes),
    "soft suppression": of(soft_suppressed, boxes, normal),
    "regions, pooled": of(pooled_regions, lambda n: normal(8, 16, 16), boxes),
    "focal loss": of(
        lambda x: optax.sigmoid_focal_loss(x, jnp.zeros_like(x)).sum(), lambda n: normal(n, 20)),
})  # fmt: skip

LARGE = (*LAYERS, *NETWORKS, *TRAINING, *SEQUENCES, *DETECTION)
