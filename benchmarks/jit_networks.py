"""Networks for `against_jit.py`: layers, the zoo, steps of training, sequences and boxes."""

from collections.abc import Callable, Mapping
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
from benchmarks.jit_programs import Array, Make, integers, line, normal, of, positive, rows

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


def recurrent(cell: Any) -> Make:
    """A cell of Equinox over 32 steps, from zeros."""
    made = cell(WIDTH, WIDTH, key=KEY)
    zeros = jnp.zeros(WIDTH)
    start = (zeros, zeros) if cell is eqx.nn.LSTMCell else zeros

    def run(x: Array) -> Any:
        return lax.scan(lambda s, x: (made(x, s), None), start, x)[0]

    return lambda n: (jax.vmap(run), (normal(n, 32, WIDTH),))


def attention(x: Array) -> Array:
    return eqx.nn.MultiheadAttention(4, WIDTH, key=KEY)(x, x, x)


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


class Residual(nn.Module):
    """A block of a convolutional network."""

    @nn.compact
    def __call__(self, x: Array) -> Array:
        y = nn.relu(nn.GroupNorm(8)(nn.Conv(32, (3, 3))(x)))
        return nn.relu(x + nn.GroupNorm(8)(nn.Conv(32, (3, 3))(y)))


LAYERS = {
    "Equinox Linear": equinox(eqx.nn.Linear, WIDTH, WIDTH, inner=(WIDTH,)),
    "Equinox MLP": equinox(eqx.nn.MLP, WIDTH, WIDTH, 256, 3, inner=(WIDTH,)),
    "Equinox Conv2d": equinox(eqx.nn.Conv2d, 16, 32, 3, inner=(16, 32, 32)),
    "Equinox ConvTranspose2d": equinox(
        eqx.nn.ConvTranspose2d, 16, 16, 3, stride=2, inner=(16, 16, 16)),
    "Equinox attention": lambda n: (jax.vmap(attention), (normal(n, 49, WIDTH),)),
    "Equinox LSTM": recurrent(eqx.nn.LSTMCell),
    "Equinox GRU": recurrent(eqx.nn.GRUCell),
    "Linen Dense": linen(nn.Dense(WIDTH), WIDTH),
    "Linen Conv": linen(nn.Conv(32, (3, 3)), 32, 32, 16),
    "Linen LayerNorm": linen(nn.LayerNorm(), 49, WIDTH),
    "Linen GroupNorm": linen(nn.GroupNorm(8), 16, 16, 32),
    "Linen transformer block": linen(Block(), 49, WIDTH),
    "Linen residual block": linen(Residual(), 32, 32, 32),
    "Linen RNN": linen(nn.RNN(nn.LSTMCell(WIDTH)), 32, WIDTH),
    "message passing": graph_layer,
}  # fmt: skip


# ------------------------------------------------------------------------------------------- zoo


def zoo_network(name: str) -> Make:
    """A network of the zoo on pictures; its first output."""

    def made(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        model = zoo.create(name, key=KEY)
        side = 28 if name.endswith("digits") else 224
        channels = 1 if name.endswith("digits") else 3
        return jax.vmap(lambda x: jax.tree.leaves(model(x))[0]), (normal(n, channels, side, side),)

    return made


NETWORKS = {
    name: zoo_network(name)
    for name in ("dinov3_vits16", "dinov2_vits14", "dinov3_convnext_tiny", "siglip2_vitb16_224")
}


# -------------------------------------------------------------------------------------- training


def training(optimiser: Any, model: Any = None) -> Make:
    """A step of training a perceptron: what its parameters become."""
    mlp = model or eqx.nn.MLP(16, 10, WIDTH, 2, key=KEY)
    arrays, static = eqx.partition(mlp, eqx.is_inexact_array)
    state = optimiser.init(arrays)

    def loss(arrays: Any, x: Array, labels: Array) -> Array:
        logits = jax.vmap(eqx.combine(arrays, static))(x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    def step(x: Array, labels: Array) -> Any:
        gradient = jax.grad(loss)(arrays, x, labels)
        updates, _ = optimiser.update(gradient, state, arrays)
        return jax.tree.leaves(eqx.apply_updates(arrays, updates))

    return of(step, lambda n: normal(n, 16), lambda n: integers(10, n))


def gradient_of_convolution(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    kernel = jnp.asarray(normal(8, 3, 3, 3))

    def loss(kernel: Array, x: Array) -> Array:
        y = jax.nn.relu(lax.conv(x, kernel, (1, 1), "SAME"))
        return (lax.reduce_window(y, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")).sum()

    return partial(jax.grad(loss), kernel), (normal(n, 3, 16, 16),)


TRAINING = {
    "sgd": training(optax.sgd(0.1)),
    "adam": training(optax.adam(1e-3)),
    "adamw, clipped": training(optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))),
    "lamb": training(optax.lamb(1e-3)),
    "gradient of a convolution": gradient_of_convolution,
    "linear regression": of(
        lambda x, y: lax.fori_loop(
            0, 20, lambda _, w: w - 0.1 * x.T @ (x @ w - y) / len(y), jnp.zeros(16)),
        lambda n: normal(n, 16), line),
}  # fmt: skip


# ------------------------------------------------------------------------------------- sequences


def viterbi(scores: Array) -> Array:
    moves = jnp.asarray(normal(8, 8))

    def forward(best: Array, here: Array) -> tuple[Array, Array]:
        both = best[:, None] + moves
        return both.max(0) + here, both.argmax(0)

    best, back = lax.scan(forward, scores[0], scores[1:])
    last = best.argmax()
    _, path = lax.scan(lambda at, row: (row[at], at), last, back, reverse=True)
    return path


def forward_probabilities(scores: Array) -> Array:
    moves = jnp.asarray(normal(8, 8))

    def step(alpha: Array, here: Array) -> tuple[Array, None]:
        return jax.nn.logsumexp(alpha[:, None] + moves, 0) + here, None

    return jax.nn.logsumexp(lax.scan(step, scores[0], scores[1:])[0])


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


def state_space(x: Array) -> Array:
    def join(a: Any, b: Any) -> Any:
        return a[0] * b[0], b[0] * a[1] + b[1]

    decay = jnp.full_like(x, 0.9)
    return lax.associative_scan(join, (decay, x))[1]


def smoothed(x: Array) -> Array:
    def step(mean: Array, x: Array) -> tuple[Array, Array]:
        mean = 0.9 * mean + 0.1 * x
        return mean, mean

    return lax.scan(step, x[0], x)[1]


def decode(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Greedily: each token from the one before and a state."""
    table, mix, out = (jnp.asarray(a) / 8 for a in (normal(32, 64), normal(64, 64), normal(64, 33)))

    def step(state: Any, _: Any) -> Any:
        hidden, token = state
        hidden = jnp.tanh(hidden @ mix + table[token])
        token = jnp.argmax((hidden @ out)[:32])
        return (hidden, token), token

    return lambda h: lax.scan(step, (h, jnp.int32(0)), None, length=n)[1], (normal(64),)


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


SEQUENCES = {
    "viterbi": of(viterbi, lambda n: normal(n, 8)),
    "forward algorithm": of(forward_probabilities, lambda n: normal(n, 8)),
    "kalman filter": of(kalman, line),
    "edit distance": of(edit_distance, lambda n: integers(4, min(n, 32)),
                        lambda n: integers(4, min(n, 40))),
    "linear recurrence": of(state_space, lambda n: normal(n, 16)),
    "moving average": of(smoothed, lambda n: normal(n, 16)),
    "cumulative sum": of(lambda x: jnp.cumsum(x, 0), lambda n: normal(n, 16)),
    "cumulative maximum": of(lambda x: lax.cummax(x, 0), lambda n: normal(n, 16)),
    "cumulative logsumexp": of(lambda x: lax.cumlogsumexp(x, 0), lambda n: normal(n, 16)),
    "greedy decoding": decode,
    "attention with a cache": cached_attention,
    "ctc loss": of(
        lambda x: optax.ctc_loss(x[None], jnp.zeros(x.shape[:1])[None],
                                 jnp.array([[1, 2, 3, 2]]), jnp.zeros((1, 4))),
        lambda n: normal(n, 8)),
    "discounted returns": of(
        lambda r: lax.scan(lambda g, r: ((r + 0.9 * g,) * 2), 0.0, r, reverse=True)[1], line),
}  # fmt: skip


# ------------------------------------------------------------------------------------- detection


def boxes(n: int) -> np.ndarray:
    corners, sides = positive(n, 2), positive(n, 2)
    return np.concatenate([corners, corners + sides[::-1]], 1)


def overlaps(a: Array, b: Array) -> Array:
    low, high = jnp.maximum(a[:, None, :2], b[:, :2]), jnp.minimum(a[:, None, 2:], b[:, 2:])
    shared = jnp.prod(jnp.clip(high - low, 0), -1)
    areas = [jnp.prod(x[:, 2:] - x[:, :2], -1) for x in (a, b)]
    return shared / (areas[0][:, None] + areas[1] - shared)


def suppressed(boxes: Array, scores: Array) -> Array:
    """Which boxes no better one covers."""
    order = jnp.argsort(-scores)
    shared = overlaps(boxes[order], boxes[order])
    places = jnp.arange(len(scores))

    def step(i: Any, kept: Array) -> Array:
        gone = kept[i] & (shared[i] > 0.5) & (places > i)
        return kept & ~gone

    return lax.fori_loop(0, len(scores), step, jnp.ones(len(scores), bool))[jnp.argsort(order)]


def pooled_regions(features: Array, boxes: Array) -> Array:
    def one(box: Array) -> Array:
        ys, xs = (jnp.linspace(box[i], box[i + 2], 7) * 4 for i in (0, 1))
        places = jnp.stack(jnp.meshgrid(ys, xs, indexing="ij"))
        return jax.vmap(lambda f: jax.scipy.ndimage.map_coordinates(f, places, 1))(features)

    return jax.vmap(one)(boxes)


def best(boxes: Array, scores: Array) -> tuple[Array, Array]:
    values, places = lax.top_k(scores, 4)
    return boxes[places], values


def moved(boxes: Array, deltas: Array) -> Array:
    size = boxes[:, 2:] - boxes[:, :2]
    centre = boxes[:, :2] + size / 2 + deltas[:, :2] * size
    half = size * jnp.exp(jnp.clip(deltas[:, 2:], -4, 4)) / 2
    return jnp.concatenate([centre - half, centre + half], 1)


def soft_suppressed(boxes: Array, scores: Array) -> Array:
    shared = overlaps(boxes, boxes)

    def step(state: Any, _: Any) -> Any:
        scores = state
        top = jnp.argmax(scores)
        found = scores[top]
        scores = scores * jnp.exp(-(shared[top] ** 2) / 0.5)
        return scores.at[top].set(-1.0), (top, found)

    return lax.scan(step, jnp.abs(scores), None, length=8)[1]


DETECTION = {
    "overlaps": of(overlaps, boxes, boxes),
    "suppression": of(suppressed, boxes, line),
    "soft suppression": of(soft_suppressed, boxes, line),
    "regions, pooled": of(pooled_regions, lambda n: normal(8, 16, 16), boxes),
    "best boxes": of(best, boxes, line),
    "boxes moved": of(moved, boxes, lambda n: normal(n, 4)),
    "focal loss": of(
        lambda x: optax.sigmoid_focal_loss(x, jnp.zeros_like(x)).sum(), lambda n: normal(n, 20)),
    "peaks of a heat map": of(
        lambda x: lax.top_k(jnp.where(lax.reduce_window(
            x, -jnp.inf, lax.max, (3, 3), (1, 1), "SAME") == x, x, 0).ravel(), 8),
        lambda n: normal(n, n)),
}  # fmt: skip

TABLES: Mapping[str, tuple[tuple[int, int], Mapping[str, Make]]] = {
    "layers": ((1, 32), LAYERS),
    "zoo": ((1, 8), NETWORKS),
    "training": ((4, 128), TRAINING),
    "sequences": ((8, 128), SEQUENCES),
    "detection": ((8, 256), DETECTION),
}
LARGE = tuple(row for group, (sizes, table) in TABLES.items() for row in rows(group, sizes, table))
