"""JAX programs that each become one ONNX operator, and whose operands are all inputs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.ndimage import map_coordinates

from zoo.architectures.depth.aligned_resize import resize_aligned

Array = Any
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Program:
    """A function of float operands that becomes the operation ``op`` of the graph.

    ``since`` is the first opset at which it can be written, and ``opset`` the one that the default
    tier tests. ``deviation`` is the operation whose deviation is reported, if that is not ``op``.
    ``unseen`` is the reason why a reported deviation changes no result of this program.
    """

    name: str
    op: str
    fn: Callable[..., Any]
    shapes: Sequence[Shape]
    since: int = 17
    opset: int = 24
    deviation: str = ""
    unseen: str = ""


# ------------------------------------------------------------------------------ norms and softmax


def layer_norm(x: Array, scale: Array, bias: Array, axis: int = -1) -> Array:
    mean = x.mean(axis, keepdims=True)
    variance = jnp.square(x - mean).mean(axis, keepdims=True)
    shape = (-1, *(1,) * (-axis - 1))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale.reshape(shape) + bias.reshape(shape)


def difference_norm(x: Array) -> Array:
    """Compute the variance as E[x²] - E[x]²."""
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x).mean(-1, keepdims=True) - jnp.square(mean)
    return (x - mean) * lax.rsqrt(variance + 1e-5)


def rms_norm(x: Array, scale: Array) -> Array:
    return x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6) * scale


def group_norm(x: Array, scale: Array, bias: Array, groups: int) -> Array:
    """Normalize groups of channels of an array [batch, channels, positions]."""
    split = x.reshape(x.shape[0], groups, -1)
    mean = split.mean(-1, keepdims=True)
    variance = jnp.square(split - mean).mean(-1, keepdims=True)
    y = ((split - mean) * lax.rsqrt(variance + 1e-5)).reshape(x.shape)
    return y * scale[:, None] + bias[:, None]


def batch_norm(x: Array, scale: Array, mean: Array, variance: Array, bias: Array) -> Array:
    s = scale * lax.rsqrt(variance + 1e-3)
    return x * s[:, None] + (bias - mean * s)[:, None]


def constant_batch_norm(statistics: Sequence[Array], x: Array) -> Array:
    return batch_norm(x, *statistics)


STATISTICS = [np.linspace(start, start + 1, 3, dtype=np.float32) for start in (-1, -0.5, 1, 0)]
"""Scale, mean, variance and bias of `batch_norm` that are known when the file is written."""

NORMS = (
    Program("layer norm", "layer_norm", layer_norm, ((3, 5), (5,), (5,))),
    Program("layer norm of the axis before", "layer_norm", partial(layer_norm, axis=-2),
            ((2, 5, 4), (5,), (5,))),
    Program("layer norm by a difference", "layer_norm", difference_norm, ((3, 5),)),
    Program("rms norm", "rms_norm", rms_norm, ((3, 5), (5,)), 23),
    Program("instance norm", "group_norm", partial(group_norm, groups=4),
            ((2, 4, 6), (4,), (4,))),
    Program("group norm", "layer_norm", partial(group_norm, groups=2), ((2, 4, 6), (4,), (4,))),
    Program("batch norm", "batch_norm", eqx.Partial(constant_batch_norm, STATISTICS),
            ((2, 3, 4),)),
    Program("batch norm of a computed mean", "rsqrt", batch_norm,
            ((2, 3, 4), (3,), (3,), (3,), (3,))),
    Program("softmax", "softmax", jax.nn.softmax, ((3, 5),)),
    Program("softmax of the first axis", "softmax", partial(jax.nn.softmax, axis=0), ((3, 5),)),
    Program("softmax of some", "softmax",
            lambda x, m: jax.nn.softmax(x, where=m > 0), ((3, 5), (3, 5))),
    Program("log softmax", "log_softmax", jax.nn.log_softmax, ((3, 5),)),
    Program("log softmax of the first axis", "log_softmax", partial(jax.nn.log_softmax, axis=0),
            ((3, 5),)),
)  # fmt: skip

# ------------------------------------------------------------------------- attention and rotation

HEADS: Sequence[Shape] = ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 6))
SHARED: Sequence[Shape] = ((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 6))
VISIBLE = np.tri(5, 7, 1, dtype=bool)


def attention(change: Callable[..., Array]) -> Callable[..., Array]:
    """Return attention with the scores ``change(scores, *more)``, where ``more`` are inputs."""

    def fn(q: Array, k: Array, v: Array, *more: Array) -> Array:
        repeats = q.shape[1] // k.shape[1]
        k, v = (jnp.repeat(x, repeats, axis=1) for x in (k, v))
        scores = change(jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.float32(8**0.5), *more)
        return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), v)

    return fn


def rotary(x: Array, angles: Array) -> Array:
    """Rotate the halves of [batch, heads, positions, width]."""
    cos, sin = (jnp.concatenate([f(angles)] * 2, -1) for f in (jnp.cos, jnp.sin))
    a, b = jnp.split(x, 2, -1)
    return x * cos + jnp.concatenate([-b, a], -1) * sin


def rotary_pairs(x: Array, angles: Array) -> Array:
    cos, sin, a, b = jnp.cos(angles), jnp.sin(angles), x[..., ::2], x[..., 1::2]
    return jnp.stack([a * cos - b * sin, b * cos + a * sin], -1).reshape(x.shape)


def rotary_after_first(x: Array, angles: Array) -> Array:
    """Leave the first token as it is."""
    first, rest = x[..., :1, :], x[..., 1:, :]
    return jnp.concatenate([first, rotary(rest, angles)], -2)


ROTARY_SHAPES: Sequence[Shape] = ((2, 3, 5, 8), (5, 4))
ATTENTION = (
    Program("attention", "attention", attention(lambda s: s), HEADS, 23),
    Program("attention of shared keys", "attention", attention(lambda s: s), SHARED, 23),
    Program("attention with a cap", "attention", attention(lambda s: 5 * jnp.tanh(s / 5)), HEADS,
            23),
    Program("attention with an added mask", "attention", attention(jnp.add), (*HEADS, (5, 7)), 23,
            unseen="NaN that the maximum of a mask drops is in the softmax of its row"),
    *(Program(f"attention filled with {fill:g}", "attention",
              attention(lambda s, fill=fill: jnp.where(VISIBLE, s, fill)), HEADS, 23)
      for fill in (-np.inf, -1e9, float(np.finfo(np.float32).min))),
    Program("attention with a compared mask", "attention",
            attention(lambda s, m: jnp.where(m > 0, s, -1e9)), (*HEADS, (5, 7)), 23),
    Program("attention of JAX", "attention",
            lambda q, k, v, bias, m: jax.nn.dot_product_attention(q, k, v, bias, m > 0),
            ((2, 5, 3, 8), (2, 7, 3, 8), (2, 7, 3, 8), (1, 3, 5, 7), (2, 1, 5, 7)), 23),
    Program("causal attention of JAX", "attention",
            partial(jax.nn.dot_product_attention, is_causal=True), ((2, 6, 3, 8),) * 3, 23),
    Program("attention of hidden rows", "attention",
            attention(lambda s, m: jnp.where((m > 0)[:, None], s, -1e9)), (*HEADS, (5,)), 23),
    Program("rotary", "rotary_heads", rotary, ROTARY_SHAPES, 23),
    Program("rotary of pairs", "rotary_heads", rotary_pairs, ROTARY_SHAPES, 23),
    Program("rotary of the rest", "rotary_heads", rotary_after_first, ((2, 3, 5, 8), (4, 4)), 23,
            deviation="rotary"),
    Program("rotary written out", "mul", rotary_after_first, ((2, 3, 5, 8), (4, 4)), opset=20,
            deviation="rotary"),
)  # fmt: skip

# ------------------------------------------------------------------------------------- recurrence


def loop(step: Callable[..., Any], states: int, **options: Any) -> Callable[..., Any]:
    """Return a scan of `step` over [rounds, batch, width] with weights, a bias and states."""

    def fn(x: Array, w: Array, r: Array, b: Array, *initial: Array) -> Any:
        def scan_step(carry: Any, row: Array) -> Any:
            new = step(carry, row, w, r, b)
            return new, new[0]

        return lax.scan(scan_step, initial[:states], x, **options)

    return fn


def lstm(carry: Any, row: Array, w: Array, r: Array, b: Array) -> Any:
    i, o, f, g = jnp.split(row @ w + carry[0] @ r + b, 4, -1)
    c = jax.nn.sigmoid(f) * carry[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def gru(carry: Any, row: Array, w: Array, r: Array, b: Array) -> Any:
    x, h = jnp.split(row @ w + b, 3, -1), jnp.split(carry[0] @ r, 3, -1)
    z, reset = (jax.nn.sigmoid(x[i] + h[i]) for i in (0, 1))
    return ((1 - z) * jnp.tanh(x[2] + reset * h[2]) + z * carry[0],)


def rnn(activation: Callable[[Array], Array]) -> Callable[..., Any]:
    return lambda carry, row, w, r, b: (activation(row @ w + carry[0] @ r + b),)


def cell(gates: int, states: int) -> Sequence[Shape]:
    return ((5, 2, 4), (4, 3 * gates), (3, 3 * gates), (3 * gates,), *((2, 3),) * states)


RECURRENT = (
    Program("lstm", "lstm", loop(lstm, 2), cell(4, 2)),
    Program("lstm from the end", "lstm", loop(lstm, 2, reverse=True), cell(4, 2)),
    Program("gru", "gru", loop(gru, 1), cell(3, 1)),
    Program(
        "rnn",
        "rnn",
        loop(rnn(jnp.tanh), 1),
        cell(1, 1),
        unseen="the operator's tanh loses some digits, and is NaN for NaN",
    ),
    Program("rnn of relu", "rnn", loop(rnn(jax.nn.relu), 1), cell(1, 1)),
    Program("rnn of hard sigmoid", "rnn", loop(rnn(jax.nn.hard_sigmoid), 1), cell(1, 1)),
)

# ------------------------------------------------------------------------------ windows and images

IMAGE: Shape = (2, 3, 6, 8)


def window(op: Callable[..., Any], start: float, size: Shape, **more: Any) -> Callable[..., Array]:
    full = {"window_strides": (1,) * len(size), "padding": "VALID", **more}
    return lambda x: lax.reduce_window(x, np.asarray(start, x.dtype), op, size, **full)


def average(padding: str) -> Callable[..., Array]:
    """Return the average over windows of the elements that are not padding."""

    def fn(x: Array) -> Array:
        total, count = (
            lax.reduce_window(y, np.zeros((), x.dtype), lax.add, (1, 1, 3, 2), (1, 1, 2, 1),
                              padding)
            for y in (x, jnp.ones_like(x))
        )  # fmt: skip
        return total / count

    return fn


def conv(x: Array, w: Array, **options: Any) -> Array:
    return lax.conv_general_dilated(
        x, w, **{"window_strides": (1, 1), "padding": "SAME", **options}
    )


def resize(shape: Shape, method: str, **options: Any) -> Callable[..., Array]:
    return lambda x: jax.image.resize(x, shape, method, **options)


def sampled(mode: str) -> Callable[..., Array]:
    def fn(x: Array, points: Array) -> Array:
        coordinates = [2 + 2 * points[..., 0], 3 + 3 * points[..., 1]]
        return jax.vmap(lambda c: map_coordinates(c, coordinates, order=1, mode=mode))(x)

    return fn


SCALED = (
    ("nearest", (2, 3, 12, 16)),
    ("nearest", (2, 3, 7, 5)),
    ("linear", (2, 3, 12, 11)),
    ("linear", (2, 3, 4, 5)),
    ("cubic", (2, 3, 12, 11)),
    ("cubic", (2, 3, 4, 5)),
)
MAXIMUM = window(lax.max, -np.inf, (1, 1, 3, 2))
WINDOWS = (
    Program("maxima", "max_pool", MAXIMUM, (IMAGE,)),
    Program("padded maxima", "max_pool", window(lax.max, -np.inf, (1, 1, 3, 2), padding="SAME"),
            (IMAGE,)),
    Program("dilated maxima", "max_pool",
            window(lax.max, -np.inf, (1, 1, 3, 2), window_dilation=(1, 1, 2, 1)), (IMAGE,)),
    Program("maxima of lines", "max_pool", window(lax.max, -np.inf, (1, 1, 3)), ((2, 3, 9),)),
    Program("maxima of volumes", "max_pool", window(lax.max, -np.inf, (1, 1, 2, 3, 2)),
            ((1, 2, 4, 5, 3),)),
    Program("maxima of channels last", "max_pool", window(lax.max, -np.inf, (1, 2, 3, 1)),
            ((2, 6, 8, 3),)),
    Program("strided maxima", "max_pool",
            window(lax.max, -np.inf, (1, 1, 3, 2), window_strides=(1, 1, 2, 2)), (IMAGE,)),
    Program("minima", "max_pool", window(lax.min, np.inf, (1, 1, 2, 3)), (IMAGE,)),
    Program("gradient of maxima", "max_pool_scatter",
            lambda x, s: jax.vjp(MAXIMUM, x)[1](s)[0], (IMAGE, (2, 3, 4, 7))),
    Program("sums", "sum_pool", window(lax.add, 0.0, (1, 1, 3, 2)), (IMAGE,)),
    Program("averages", "avg_pool", average("VALID"), (IMAGE,)),
    Program("averages without padding", "avg_pool", average("SAME"), (IMAGE,)),
    Program("convolution", "conv", conv, (IMAGE, (4, 3, 3, 2))),
    Program("valid convolution", "conv", partial(conv, padding="VALID"), (IMAGE, (4, 3, 3, 2))),
    Program("dilated convolution", "conv", partial(conv, rhs_dilation=(2, 1)),
            (IMAGE, (4, 3, 3, 2))),
    Program("grouped convolution", "conv", partial(conv, feature_group_count=3),
            (IMAGE, (6, 1, 3, 2))),
    Program("convolution with a bias", "conv", lambda x, w, b: conv(x, w) + b[:, None, None],
            (IMAGE, (4, 3, 3, 2), (4,))),
    Program("transposed convolution", "conv_transpose",
            partial(conv, padding=((2, 2), (1, 1)), lhs_dilation=(2, 2)), (IMAGE, (4, 3, 3, 2))),
    *(Program(f"{method} to {shape[2]} and {shape[3]}{'' if smooth else ', sharp'}", "resize",
              resize(shape, method, antialias=smooth), (IMAGE,))
      for method, shape in SCALED for smooth in (True, False)
      if smooth or (method, shape[2]) != ("cubic", 4)),
    Program("transposed convolution in groups", "conv_transpose",
            partial(conv, padding=((2, 2), (1, 1)), lhs_dilation=(2, 2), feature_group_count=3),
            (IMAGE, (6, 1, 3, 2))),
    Program("aligned", "resize", jax.vmap(lambda x: resize_aligned(x, (11, 15))), (IMAGE,)),
    Program("sampled", "grid_sample", sampled("constant"), ((3, 5, 7), (11, 2))),
    Program("sampled to the edge", "grid_sample", sampled("nearest"), ((3, 5, 7), (11, 2))),
)  # fmt: skip

# ------------------------------------------------------------------ products, reductions, scatters

ROWS = np.array([2, 0, 2, 4], np.int32)
OUT_OF_RANGE = np.array([2, -9, 7, 4], np.int32)
TABLE: Sequence[Shape] = ((5, 3), (4, 3))


def reductions(name: str, op: str, fn: Callable[..., Array]) -> list[Program]:
    return [
        Program(f"{name} of rows", op, partial(fn, axis=-1), ((4, 7),)),
        Program(f"{name} of columns", op, partial(fn, axis=0), ((4, 7),)),
        Program(f"{name} of all", op, fn, ((4, 7),)),
    ]


def scatters(name: str, op: str, indices: Any, **options: Any) -> Program:
    def fn(x: Array, updates: Array) -> Array:
        return getattr(x.at[indices], name)(updates, **options)

    since = 18 if name in ("max", "min") else 17
    return Program(f"{name}{' dropped' if options else ''}", op, fn, TABLE, since)


REDUCTIONS = (
    *reductions("maxima", "reduce_max", jnp.max),
    *reductions("minima", "reduce_min", jnp.min),
    *reductions("sums", "reduce_sum", jnp.sum),
    *reductions("products", "reduce_prod", jnp.prod),
    *reductions("means", "reduce_sum", jnp.mean),
    *reductions("places of maxima", "argmax", jnp.argmax),
    *reductions("places of minima", "argmin", jnp.argmin),
    Program("logarithms of sums", "reduce_sum", partial(jax.nn.logsumexp, axis=-1), ((4, 7),),
            unseen="NaN that the maximum drops is in the sum"),
    Program("norms", "reduce_sum", partial(jnp.linalg.norm, axis=-1), ((4, 7),)),
    *(Program(f"{name}{' from the end' if end else ''}", name,
              partial(getattr(lax, name), axis=1, reverse=end), ((4, 7),))
      for name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
      for end in (False, True)),
    Program("largest", "top_k", lambda x: lax.top_k(x, 3), ((4, 7),)),
    Program("nearly largest", "approx_top_k", lambda x: lax.approx_max_k(x, 3), ((4, 7),)),
    Program("sorted", "sort", lambda x: lax.sort(x, dimension=1), ((4, 7),)),
    Program("order", "sort", lambda x: jnp.argsort(x, axis=1), ((4, 7),)),
    *(scatters(name, op, indices, **how)
      for name, op in (("set", "scatter"), ("add", "scatter-add"), ("multiply", "scatter-mul"),
                       ("max", "scatter-max"), ("min", "scatter-min"))
      for indices, how in ((ROWS if name != "set" else ROWS[1:], {}),
                           (OUT_OF_RANGE, {"mode": "drop"}))
      if name != "set" or how),
    Program("matrix product", "matmul", jnp.matmul, ((4, 5), (5, 3))),
    Program("contraction", "matmul", partial(jnp.einsum, "abc,cbd->ad"), ((2, 3, 4), (4, 3, 5))),
    Program("affine", "matmul", lambda x, w, b: x @ w + b, ((4, 5), (5, 3), (3,))),
    Program("determinant", "mul", jnp.linalg.det, ((2, 3, 3),)),
    Program("cache", "dynamic_update_slice",
            lambda x, y: lax.dynamic_update_slice(x, y, (0, 2, 0)), ((2, 6, 3), (2, 1, 3))),
    Program("clamp", "min", lax.clamp, ((), (4, 7), ())),
    Program("clip", "min", jnp.clip, ((4, 7), (7,), (7,))),
    Program("selection", "select_n", lambda c, x, y: jnp.where(c > 0, x, y),
            ((4, 7), (4, 7), (7,))),
    Program("gather", "take", lambda x: x[ROWS], ((5, 3),)),
    Program("gather filled", "take", lambda x: jnp.take(x, OUT_OF_RANGE, axis=0), ((5, 3),)),
)  # fmt: skip

PROGRAMS = (*NORMS, *ATTENTION, *RECURRENT, *WINDOWS, *REDUCTIONS)
