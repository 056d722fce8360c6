"""Spellings of attention, rotations and norms, built from tables of options.

A table has an axis for each step that people write differently, and options for each axis. Each of
``STRUCTURES`` builds a function and its operands from one option of each axis.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

B, H, Q, K, D, E = 2, 4, 5, 7, 8, 6
"""Batch, heads, query and key positions, widths of keys and of values."""


@dataclass(frozen=True)
class BuiltProgram:
    """A function, its operands, and the option of each axis from which it was built."""

    choices: Mapping[str, str]
    fn: Callable[..., Any]
    args: tuple[np.ndarray, ...]


Table = Mapping[str, Mapping[str, Any]]


def choices(table: Table, rng: np.random.Generator) -> dict[str, str]:
    """Return a random option of each axis."""
    return {axis: str(rng.choice([*options])) for axis, options in table.items()}


def covering(table: Table, seed: int) -> list[dict[str, str]]:
    """Return choices that contain between them every option of every axis.

    There are as many as the longest axis has options.
    """
    rng = np.random.default_rng(seed)
    orders = {
        axis: [str(o) for o in rng.permutation([*options])] for axis, options in table.items()
    }
    count = max(map(len, table.values()))
    return [{axis: order[i % len(order)] for axis, order in orders.items()} for i in range(count)]


# ---------------------------------------------------------------------------------------- attention

SCALES: dict[str, Callable[..., Any]] = {
    "none": lambda q, k, product: product(q, k),
    "divided": lambda q, k, product: product(q, k) / jnp.sqrt(D).astype(q.dtype),
    "multiplied": lambda q, k, product: product(q, k) * 0.3,
    "queries": lambda q, k, product: product(q * D**-0.5, k),
    "keys": lambda q, k, product: product(q, k / 3),
    "both": lambda q, k, product: product(q * D**-0.25, k * D**-0.25),
    "capped": lambda q, k, product: jnp.tanh(product(q, k) / 20) * 20,
}


def softmax_by_hand(s, **_):
    e = jnp.exp(s - jnp.max(s, -1, keepdims=True))
    return e / jnp.sum(e, -1, keepdims=True)


def softmax_times_inverse(s, **_):
    e = jnp.exp(s - jax.lax.stop_gradient(s.max(-1, keepdims=True)))
    return e * (1 / e.sum(-1, keepdims=True))


def softmax_in_float32(s, **where):
    return jax.nn.softmax(s.astype(jnp.float32), axis=-1, **where).astype(s.dtype)


SOFTMAXES: dict[str, Callable[..., Any]] = {
    "jax": lambda s, **where: jax.nn.softmax(s, axis=-1, **where),
    "float32": softmax_in_float32,
    "by hand": softmax_by_hand,
    "times the inverse": softmax_times_inverse,
    "of the logarithm": lambda s, **_: jnp.exp(jax.nn.log_softmax(s, axis=-1)),
}


def lowest(s):
    return jnp.asarray(jnp.finfo(s.dtype).min, s.dtype)


def zeroed_softmax(s, m, softmax):
    return jnp.where(m, softmax(jnp.where(m, s, lowest(s) / 2)), 0)


MASKS: dict[str, Callable[..., Any]] = {
    "none": lambda s, m, softmax: softmax(s),
    "where": lambda s, m, softmax: softmax(
        jnp.where(m, s, -1e4 if s.dtype == jnp.float16 else -1e9)
    ),
    "where lowest": lambda s, m, softmax: softmax(jnp.where(m, s, lowest(s))),
    "where infinite": lambda s, m, softmax: softmax(jnp.where(m, s, -jnp.inf)),
    "where not": lambda s, m, softmax: softmax(jnp.where(~m, lowest(s), s)),
    "added": lambda s, m, softmax: softmax(s + jnp.where(m, 0, lowest(s)).astype(s.dtype)),
    "added, scaled": lambda s, m, softmax: softmax(s + (1 - m.astype(s.dtype)) * -3e4),
    "subtracted": lambda s, m, softmax: softmax(s - (1 - m.astype(s.dtype)) * 3e4),
    "zeroed": zeroed_softmax,
    "zeroed by a product": lambda s, m, softmax: softmax(jnp.where(m, s, lowest(s) / 2)) * m,
    "softmax of where": lambda s, m, softmax: jax.nn.softmax(s, axis=-1, where=m),
    "zeros for nothing": lambda s, m, softmax: jnp.where(
        m.any(-1, keepdims=True), softmax(jnp.where(m, s, -jnp.inf)), 0
    ),
    "numbers for nothing": lambda s, m, softmax: jnp.nan_to_num(softmax(jnp.where(m, s, -jnp.inf))),
}

VISIBLE: dict[str, Callable[[np.ndarray], Any]] = {
    "of keys": lambda m: m[:, :, :1],
    "of pairs": lambda m: m,
    "causal": lambda m: jnp.tri(Q, K, dtype=bool),
    "causal and of keys": lambda m: jnp.tri(Q, K, dtype=bool)[None, None] & m,
    "window": lambda m: jnp.abs(jnp.arange(Q)[:, None] - jnp.arange(K)) < 3,
}


def swap_axes(x):
    return jnp.swapaxes(x, 1, 2)


LAYOUTS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]] = {
    "heads first": (
        lambda x: x,
        lambda q, k: jnp.einsum("bhqd,bhkd->bhqk", q, k),
        lambda w, v: jnp.einsum("bhqk,bhkd->bhqd", w, v),
    ),
    "heads second": (
        swap_axes,
        lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k),
        lambda w, v: jnp.einsum("bhqk,bkhd->bqhd", w, v),
    ),
    "matmul": (
        lambda x: x,
        lambda q, k: q @ jnp.swapaxes(k, -1, -2),
        lambda w, v: w @ v,
    ),
    "values first": (
        lambda x: x,
        lambda q, k: jnp.einsum("bhkd,bhqd->bhqk", k, q),
        lambda w, v: jnp.einsum("bhkd,bhqk->bqhd", v, w),
    ),
}

HEADS: dict[str, Callable[..., Any]] = {
    "own": lambda x: x,
    "repeated": lambda x: jnp.repeat(x[:, : H // 2], 2, axis=1),
    "one for all": lambda x: jnp.broadcast_to(x[:, :1], x.shape),
}

BIASES: dict[str, Callable[..., Any]] = {
    "none": lambda s, bias: s,
    "learnt": lambda s, bias: s + bias.astype(s.dtype),
}

ATTENTION = {
    "scale": SCALES,
    "bias": BIASES,
    "mask": MASKS,
    "shown": VISIBLE,
    "softmax": SOFTMAXES,
    "layout": LAYOUTS,
    "heads": HEADS,
}

ZERO_ROWS = (
    "zeroed",
    "zeroed by a product",
    "softmax of where",
    "zeros for nothing",
    "numbers for nothing",
)
"""Masks with which a row without visible keys is zero."""


def attention(chosen: Mapping[str, str], dtype: Any = np.float32, seed: int = 0) -> BuiltProgram:
    """Build attention of queries, keys and values [batch, heads, positions, width], and a mask."""
    rng = np.random.default_rng(seed)
    scale, mask, visible = SCALES[chosen["scale"]], MASKS[chosen["mask"]], VISIBLE[chosen["shown"]]
    order, product, weigh_values = LAYOUTS[chosen["layout"]]
    softmax, heads = SOFTMAXES[chosen["softmax"]], HEADS[chosen["heads"]]
    bias = BIASES[chosen["bias"]]
    learnt_bias = rng.standard_normal((H, Q, K)).astype(np.float32)

    def fn(q, k, v, m):
        q, k, v = order(q), order(heads(k)), order(heads(v))
        s = bias(scale(q, k, product), jnp.asarray(learnt_bias))
        return weigh_values(mask(s, visible(m), softmax), v)

    q, k, v = (rng.standard_normal(s) for s in ((B, H, Q, D), (B, H, K, D), (B, H, K, E)))
    m = rng.random((B, 1, Q, K)) < 0.6
    m[..., 0] = True
    if chosen["mask"] in ZERO_ROWS:
        m[1, 0, [0, 2]] = False
    return BuiltProgram(chosen, fn, (*(x.astype(dtype) for x in (q, k, v)), m))


# ---------------------------------------------------------------------------------------- rotations


def split_halves(x):
    return jnp.split(x, 2, axis=-1)


def join_halves(a, b):
    return jnp.concatenate([a, b], -1)


def interleave(a, b):
    return jnp.stack([a, b], -1).reshape(*a.shape[:-1], -1)


def rotate_by_roll(x):
    """Rotate halves as Llama does, by a roll and signs."""
    n = x.shape[-1] // 2
    return jnp.roll(x, n, -1) * jnp.where(jnp.arange(2 * n) < n, -1, 1).astype(x.dtype)


def rotate_half(x):
    a, b = split_halves(x)
    return join_halves(-b, a)


def rotate_pairs(x, cos, sin):
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    a, b = pairs[..., 0], pairs[..., 1]
    return jnp.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)


def rotate_halves(x, cos, sin):
    a, b = jnp.moveaxis(x.reshape(*x.shape[:-1], 2, -1), -2, 0)
    return join_halves(a * cos - b * sin, b * cos + a * sin)


def rotate_by_scatter(x, cos, sin):
    a, b = x[..., ::2], x[..., 1::2]
    return x.at[..., ::2].set(a * cos - b * sin).at[..., 1::2].set(b * cos + a * sin)


def rotate_as_complex(x, cos, sin):
    """Rotate neighbouring elements as complex numbers, as Meta's Llama does."""
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    in_float32 = (t.astype(jnp.float32) for t in (pairs[..., 0], pairs[..., 1], cos, sin))
    a, b, c, s = in_float32
    rotated = jax.lax.complex(a, b) * jax.lax.complex(c, s)
    return interleave(rotated.real, rotated.imag).astype(x.dtype)


def repeat_table(t):
    return join_halves(t, t)


ROTATIONS: dict[str, Callable[..., Any]] = {
    "turned": lambda x, c, s: x * repeat_table(c) + rotate_half(x) * repeat_table(s),
    "turned, swapped": lambda x, c, s: repeat_table(s) * rotate_half(x) + repeat_table(c) * x,
    "subtracted": lambda x, c, s: (
        x * repeat_table(c) - join_halves(*split_halves(x)[::-1]) * join_halves(s, -s)
    ),
    "other half negative": lambda x, c, s: x * repeat_table(c) - -rotate_half(x) * repeat_table(s),
    "rolled": lambda x, c, s: x * repeat_table(c) + rotate_by_roll(x) * repeat_table(s),
    "in pairs": lambda x, c, s: (lambda a, b: join_halves(a * c - b * s, b * c + a * s))(
        *split_halves(x)
    ),
    "in pairs, swapped": lambda x, c, s: (lambda a, b: join_halves(c * a - s * b, s * a + c * b))(
        *split_halves(x)
    ),
    "negated": lambda x, c, s: (lambda a, b: join_halves(a * c + (-b) * s, a * s + b * c))(
        *split_halves(x)
    ),
    "backwards": lambda x, c, s: (lambda a, b: join_halves(a * c + b * s, b * c - a * s))(
        *split_halves(x)
    ),
    "alternating": lambda x, c, s: (lambda a, b: interleave(a * c - b * s, b * c + a * s))(
        x[..., ::2], x[..., 1::2]
    ),
    "axis of two": rotate_pairs,
    "axis of halves": rotate_halves,
    "scattered": rotate_by_scatter,
    "complex": rotate_as_complex,
}


def angles(positions):
    return positions[..., None].astype(jnp.float32) / 100 ** (jnp.arange(D // 2) / D)


TABLES: dict[str, Callable[..., Any]] = {
    "of numbers": lambda ids: angles(jnp.arange(Q)),
    "outer": lambda ids: jnp.outer(jnp.arange(Q), 100 ** -(jnp.arange(D // 2) / D)),
    "of a product": lambda ids: jnp.einsum("i,j->ij", jnp.arange(Q) * 1.0, 1 / (jnp.arange(4) + 2)),
    "of each sample": lambda ids: angles(ids)[:, None],
    "gathered": lambda ids: angles(jnp.arange(32))[ids][:, None],
    "taken": lambda ids: jnp.take(angles(jnp.arange(32)), ids, axis=0, mode="clip")[:, None],
    "cut": lambda ids: jax.lax.dynamic_slice_in_dim(angles(jnp.arange(32)), ids[0, 0], Q),
}


def add_head_axis(table):
    return swap_axes(table) if table.ndim == 4 else table[:, None]


PLACES: dict[str, Callable[..., Any]] = {
    "heads first": lambda x, rotate, *tables: rotate(x, *tables),
    "heads second": lambda x, rotate, *tables: swap_axes(
        rotate(swap_axes(x), *map(add_head_axis, tables))
    ),
    "some of the width": lambda x, rotate, *tables: join_halves(
        rotate(x[..., :D], *tables), x[..., D:]
    ),
}

ROTARY = {"turn": ROTATIONS, "tables": TABLES, "places": PLACES}


def rotary(chosen: Mapping[str, str], dtype: Any = np.float32, seed: int = 0) -> BuiltProgram:
    """Build a rotation of a value [batch, heads, positions, width] by each sample's positions."""
    rng = np.random.default_rng(seed)
    rotate, table, apply_to = (t[chosen[a]] for a, t in ROTARY.items())

    def fn(x, ids):
        angle = table(ids)
        cos, sin = jnp.cos(angle).astype(x.dtype), jnp.sin(angle).astype(x.dtype)
        return apply_to(x, rotate, cos, sin)

    width = D + 4 if chosen["places"] == "some of the width" else D
    x = rng.standard_normal((B, H, Q, width)).astype(dtype)
    return BuiltProgram(chosen, fn, (x, rng.integers(0, 20, (B, Q)).astype(np.int32)))


# -------------------------------------------------------------------------------------------- norms

SQUARES: dict[str, Callable[..., Any]] = {
    "square": jnp.square,
    "product": lambda x: x * x,
    "power": lambda x: x**2,
    "power of a number": lambda x: jnp.power(x, jnp.asarray(2.0, x.dtype)),
    "absolute": lambda x: jnp.abs(x) ** 2,
}

MEANS: dict[str, Callable[..., Any]] = {
    "mean": lambda x: x.mean(-1, keepdims=True),
    "sum": lambda x: x.sum(-1, keepdims=True) / x.shape[-1],
    "expanded": lambda x: jnp.expand_dims(jnp.mean(x, axis=-1), -1),
    "times": lambda x: x.sum(-1, keepdims=True) * (1 / x.shape[-1]),
}

INVERSES: dict[str, Callable[..., Any]] = {
    "rsqrt": lambda x, v: x * jax.lax.rsqrt(v),
    "sqrt": lambda x, v: x / jnp.sqrt(v),
    "inverse": lambda x, v: x * (1 / jnp.sqrt(v)),
    "reciprocal": lambda x, v: x * jnp.reciprocal(jnp.sqrt(v)),
    "power": lambda x, v: x * jnp.power(v, -0.5),
    "power of a number": lambda x, v: x * v**-0.5,
    "over a power": lambda x, v: x / v**0.5,
}

NORM_SCALES: dict[str, Callable[..., Any]] = {
    "none": lambda x, w: x,
    "weight": lambda x, w: x * w,
    "weight first": lambda x, w: w * x,
    "one more": lambda x, w: x * (1 + w),
    "bias": lambda x, w: x * w + (w - 1),
}


def centre_first(norm):
    return lambda x, square, mean, inverse: norm(x, x - mean(x), square, mean, inverse)


def moments(x, square, mean, inverse):
    average = mean(x)
    return inverse(x - average, mean(square(x)) - square(average) + 1e-5)


KINDS: dict[str, Callable[..., Any]] = {
    "root mean square": lambda x, square, mean, inverse: inverse(x, mean(square(x)) + 1e-5),
    "centred": centre_first(lambda x, c, square, mean, inverse: inverse(c, mean(square(c)) + 1e-5)),
    "jax's variance": centre_first(
        lambda x, c, square, mean, inverse: inverse(c, x.var(-1, keepdims=True) + 1e-5)
    ),
    "moments": moments,
    "epsilon beside": lambda x, square, mean, inverse: x / (jnp.sqrt(mean(square(x))) + 1e-5),
}

PRECISIONS: dict[str, Callable[..., Any]] = {
    "no": lambda x, norm: norm(x),
    "float32": lambda x, norm: norm(x.astype(jnp.float32)).astype(x.dtype),
}

NORM = {
    "kind": KINDS,
    "square": SQUARES,
    "mean": MEANS,
    "inverse": INVERSES,
    "scale": NORM_SCALES,
    "widened": PRECISIONS,
}


def norm(chosen: Mapping[str, str], dtype: Any = np.float32, seed: int = 0) -> BuiltProgram:
    """Build a norm of a value [batch, positions, width] with a weight of its width."""
    rng = np.random.default_rng(seed)
    kind, square, mean, inverse, scale, in_precision = (t[chosen[a]] for a, t in NORM.items())

    def fn(x, w):
        return scale(in_precision(x, lambda x: kind(x, square, mean, inverse)), w)

    x, w = rng.standard_normal((B, Q, 12)), rng.standard_normal(12)
    return BuiltProgram(chosen, fn, (x.astype(dtype), w.astype(dtype)))


@dataclass(frozen=True)
class Structure:
    """A table of options, the function that builds a program from them, and its fused operators.

    ``names`` are these operators in a report. A program with one of the options ``unfused`` is not
    fused. A program with one of ``may_stay_unfused`` may be fused or not.
    """

    table: Table
    build: Callable[..., BuiltProgram]
    names: tuple[str, ...]
    unfused: frozenset[str]
    may_stay_unfused: frozenset[str] = frozenset()


STRUCTURES = {
    "attention": Structure(
        ATTENTION,
        attention,
        ("Attention",),
        frozenset({"numbers for nothing"}),
        frozenset({"zeroed by a product", "capped"}),
    ),
    "rotary": Structure(ROTARY, rotary, ("RotaryEmbedding",), frozenset({"subtracted", "rolled"})),
    "norm": Structure(
        NORM, norm, ("LayerNormalization", "RMSNormalization"), frozenset({"epsilon beside"})
    ),
}
