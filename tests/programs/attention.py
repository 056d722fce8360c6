"""Attention with masks, with rows that are hidden throughout, with heads that share keys, and with
caches."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.conformance import DEFAULT, Case

ONE, NONE = {"Attention": 1}, {"Attention": 0}
HEADS, ROWS, COLUMNS = 3, 5, 7
SHAPES = ((HEADS, ROWS, 8), (HEADS, COLUMNS, 8), (HEADS, COLUMNS, 6))
LOWEST = float(jnp.finfo(jnp.float32).min)
RNG = np.random.default_rng(11)


def normal(*shape, dtype=np.float32, size=1.0):
    return np.asarray(size * RNG.standard_normal(shape)).astype(dtype)


BIAS = normal(HEADS, ROWS, COLUMNS)
CAUSAL = np.tri(ROWS, COLUMNS, 1, dtype=bool)
PADDING = np.arange(COLUMNS) < 4
# One row is hidden throughout, one is visible throughout, and the others are hidden in part.
VISIBLE = np.random.default_rng(5).random((ROWS, COLUMNS)) > 0.5
VISIBLE[1], VISIBLE[2], VISIBLE[[0, 3, 4], 2] = False, True, True


def hidden(number, shown=0.0):
    return np.where(VISIBLE, np.float32(shown), np.float32(number))


def attend(change):
    """Return attention whose scores are changed, also by further inputs."""

    def fn(q, k, v, *more_inputs):
        scores = change(jnp.einsum("hqd,hkd->hqk", q, k) / math.sqrt(q.shape[-1]), *more_inputs)
        return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, axis=-1), v)

    return fn


def masked(name, change, *more_inputs, size=1.0, ops=ONE, said="", tags=DEFAULT):
    operands = [normal(*shape, size=size) for shape in SHAPES]
    return Case(name, attend(change), [*operands, *more_inputs], ops=ops, said=said, tags=tags)


# Fill values and added masks: the lowest number, JAX's fill value, one that absorbs scores, two
# that do not, and infinity.
FILLS = (LOWEST, 0.7 * LOWEST, -1e30, -1e9, -1e4, -math.inf)
ADDED = (LOWEST, -1e30, -1e9, -1e4, -50.0, -math.inf)
MORE = [np.roll(hidden(number, 0.25), 1, 0) for number in (-1e9, -math.inf)]
WEAK = "how low the fill value"
MASKS = [
    # Scores of hundreds would exceed a fill value of -1e4.
    *(masked(f"filled with {fill:.1g}", lambda s, m, fill=fill: jnp.where(m, s, fill), VISIBLE,
             size=1.0 if fill == -1e4 else 9.0) for fill in FILLS),
    *(masked(f"added {number:.1g}", jnp.add, hidden(number)) for number in ADDED),
    *(masked(f"filled with {fill:.1g} {where} adding {more.min():.1g}", partial(change, fill),
             VISIBLE, more, tags=DEFAULT if fill == LOWEST else frozenset())
      for fill in (LOWEST, -1e30, -math.inf) for more in MORE for where, change in (
        ("after", lambda fill, s, m, more: jnp.where(m, s + more, fill)),
        ("before", lambda fill, s, m, more: jnp.where(m, s, fill) + more))),
    masked("scaled mask", lambda s, m: (0.5 * s + m) * 0.75, hidden(-math.inf, 0.5)),
    # The sum of two masks overflows where both hide: a row has -inf and the lowest number.
    masked("lowest twice", lambda s, m, p: s + (m + p), hidden(LOWEST),
           np.where(PADDING, 0, LOWEST).astype(np.float32)),
    masked("logarithm", lambda s, m: s + jnp.log(m), VISIBLE.astype(np.float32)),
    masked("converted", lambda s, m: s + m.astype(jnp.float16).astype(jnp.float32), hidden(-1e9)),
    masked("learnt, and a mild fill", lambda s, m: jnp.where(m, s + BIAS, -1e9), VISIBLE),
    masked("nested", lambda s, m, p: jnp.where(p, jnp.where(m, s, LOWEST), 2 * LOWEST / 3),
           VISIBLE, PADDING),
    *(masked(f"known, {name}", change, ops={**ONE, "Where": 0, "Add": 0, "ReduceMax": 0})
      for name, change in (("added", lambda s: s + hidden(LOWEST, 0.25)),
                           *((f"{fill:.1g}", lambda s, fill=fill: jnp.where(CAUSAL, s, fill))
                             for fill in FILLS if fill != -1e4))),  # which large scores reach
    *(masked(name, change, *given, ops=NONE, said=WEAK) for name, change, *given in (
        ("beside an unknown mask", lambda s, m, more: jnp.where(m, s + more, -1e9), VISIBLE,
         hidden(-1e9)),
        ("below a bias", lambda s, m: jnp.where(m, s, -1e4) + BIAS, VISIBLE),
        ("around a bias", lambda s, m, p: jnp.where(p, jnp.where(m, s, -1e4) + BIAS, -1e4),
         VISIBLE, PADDING),
        ("different fills", lambda s, m, p: jnp.where(p, jnp.where(m, s, -1e9), -2e9), VISIBLE,
         PADDING))),
]  # fmt: skip


def large_and_known(q, k, v):
    """Attend with a constant mask for each head that is too large to be folded."""
    heads, rows = (jnp.arange(n) for n in q.shape[:2])
    keep = rows[:, None] + heads[:, None, None] >= rows
    return jax.nn.softmax(jnp.where(keep, q @ k.mT * 0.25, -jnp.inf), axis=-1) @ v


def narrow(dtype, opset):
    """Return attention with a mask in a half precision. The node computes in float32: float16 has
    no number that absorbs all scores, and runtimes have no kernels of bfloat16."""
    operands = [normal(*shape, dtype=dtype, size=2.0) for shape in SHAPES]
    fn = attend(lambda s, m: jnp.where(m, s, jnp.finfo(s.dtype).min))
    return Case(f"mask of {np.dtype(dtype)} {opset}", fn, [*operands, VISIBLE], (opset,), ONE,
                tolerance=2, tags=DEFAULT)  # fmt: skip


NARROW = [
    narrow(*arguments) for arguments in ((np.float16, 23), (jnp.bfloat16, 23), (jnp.bfloat16, 25))
]

# --------------------------------------------------------------------------- heads that share keys

Q, K, V = (2, 6, 9, 8), (2, 2, 7, 8), (2, 2, 7, 4)
BTHD = ((2, 9, 6, 8), (2, 7, 2, 8), (2, 7, 2, 8))
KEEP = np.arange(7) < np.arange(9)[:, None] + 2
OUT = (2, 6, 9, 4)


def of_heads(q, k, v, change=lambda scores: scores):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * 0.3
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(change(scores), axis=-1), v)


def repeated(change=lambda scores: scores):
    """Return attention in which three heads share a key and a value."""
    return lambda q, k, v: of_heads(q, *(jnp.repeat(x, 3, axis=1) for x in (k, v)), change)


def grouped(scores, out, shape, result):
    """Return attention with grouped queries, or with one key for all heads."""

    def fn(q, k, v):
        weights = jax.nn.softmax(jnp.einsum(scores, q.reshape(shape), k) * 0.3, axis=-1)
        return jnp.einsum(out, weights, v).reshape(result)

    return fn


IN_GROUPS = grouped("bngqd,bnkd->bngqk", "bngqk,bnkd->bngqd", (2, 2, 3, 9, 8), OUT)
GEMMA = grouped("BTKGH,BSKH->BTKGS", "BTKGS,BSKH->BTKGH", (2, 9, 2, 3, 8), BTHD[0])
FORMS = {
    "repeated": (repeated(), (Q, K, V)),
    "groups": (IN_GROUPS, (Q, K, V)),
    "gemma": (GEMMA, BTHD),
    "capped": (repeated(lambda scores: 5 * jnp.tanh(scores / 5)), (Q, K, V)),
    "one key": (grouped("bhqd,bkd->bhqk", "bhqk,bkd->bhqd", Q, OUT), (Q, (2, 7, 8), (2, 7, 4))),
}
SHARED = {**ONE, "Expand": 0, "Tile": 0, "MatMul": 0, "Softmax": 0}


def heated(q, k, v, log_scales, least=0.01):
    """Attend with a temperature for each head, which is bounded, as Swin v2 does."""
    q, k = (x / jnp.linalg.norm(x, axis=-1, keepdims=True) for x in (q, k))
    scale = jnp.clip(jnp.exp(log_scales), least, 100)[:, None, None]
    return of_heads(q, k, v, lambda s: jnp.where(KEEP, s * scale, -1e30))


# ``keras.layers.Attention`` of Keras 3.15 lowers hidden scores by a constant.
LOWERED = lambda q, k, v, m: of_heads(q, k, v, lambda s: jnp.where(m > 0, s - 1e9, s))  # noqa: E731
ALONG_KEYS = lambda q, k, v, m: of_heads(q, k, v, lambda s: s * jnp.resize(m, 7))  # noqa: E731


def behind_the_mask(q, k, v, m):
    return of_heads(q, k, v, lambda s: jnp.where(KEEP, s, -1e30) * jnp.exp(m[0]))


FULL = (Q, (2, 6, 7, 8), (2, 6, 7, 4))
TEMPERATURES = np.log([0.5, 1, 2, 4, 8, 16])
GROUPS = [
    *(Case(name, fn, shapes, (23, 24), SHARED, tags=DEFAULT)
      for name, (fn, shapes) in FORMS.items()),
    *(Case(f"{name}, float16", fn, [(shape, np.float16) for shape in shapes], (23, 24), SHARED)
      for name, (fn, shapes) in FORMS.items()),
    # Other heads share a key than in ONNX's operator.
    Case("tiled", lambda q, k, v: of_heads(q, *(jnp.tile(x, (1, 3, 1, 1)) for x in (k, v))),
         (Q, K, V), ops={**ONE, "Tile": 2}),
    Case("keys alone", lambda q, k, v: of_heads(q, jnp.repeat(k, 3, axis=1), v),
         (Q, K, (2, 6, 7, 4)), ops={**ONE, "Expand": 1}),
    Case("lowered", LOWERED, (*FULL, (2, 1, 9, 7)), ops=ONE),
    Case("heated", heated, (*FULL, (6,)), ops=ONE),
    Case("heated by zero", partial(heated, least=None), (*FULL, (6,)), ops=NONE,
         said="may be infinite, huge or zero"),
    Case("heated, float16", heated, [(shape, np.float16) for shape in (*FULL, (6,))], ops=NONE,
         said="in float16, the queries may overflow"),
    Case("heated, bfloat16", heated,
         [*((shape, jnp.bfloat16) for shape in FULL), TEMPERATURES.astype(jnp.bfloat16)], ops=ONE,
         tolerance=2, tags=DEFAULT),
    Case("along keys", ALONG_KEYS, (*FULL, (6,)), ops=NONE, said="queries cannot be multiplied by"),
    Case("behind the mask", behind_the_mask, (*FULL, (6,)), ops=NONE,
         said="before they are multiplied"),
]  # fmt: skip

# ------------------------------------------------------------------------------------------ caches

LENGTH, WIDTH = 9, 8


def joined(q, k, v, past_k, past_v):
    k, v = (jnp.concatenate(pair, axis=2) for pair in ((past_k, k), (past_v, v)))
    return of_heads(q, k, v), k, v


def updated(x, y, i, axis=0):
    return lax.dynamic_update_slice_in_dim(x, y, i, axis)


def written(write):
    def fn(q, k, v, keys, values, index):
        keys, values = write(keys, k, index), write(values, v, index)
        visible = jnp.arange(LENGTH) <= index[..., None, None, None]
        return of_heads(q, keys, values, lambda s: jnp.where(visible, s, -1e30)), keys, values

    return fn


def cached(batch, length=LENGTH):
    return [(batch, HEADS, 1, WIDTH)] * 3 + [(batch, HEADS, length, WIDTH)] * 2


WRITERS = {
    "one": lambda x, y, i: updated(x, y, i, 2),
    "each": jax.vmap(lambda x, y, i: lax.dynamic_update_slice(x, y, (0, i, 0))),
    # An index out of range writes nothing.
    "by index": lambda x, y, i: x.at[:, :, i].set(y[:, :, 0]),
}
WRITTEN = {**ONE, "TensorScatter": 2, "ScatterND": 0, "Concat": 0, "Transpose": 0}
MAPPED = jax.vmap(updated, in_axes=(1, 1, 0), out_axes=1)
X, Y = (np.random.default_rng(3).integers(0, 2, (n, 4, 5)) for n in (9, 2))


def indices(name, index):
    """Return one index, or one for each entry of the batch."""
    return np.array([index] + [3] * 2 if name == "each" else index, np.int32)


CACHES = [
    Case("joined", joined, cached("B", "N"), ops={**ONE, "Concat": 2}),
    *(Case(f"written, {name}, {b} {i} at {opset}", written(write), [*cached(b), indices(name, i)],
           (opset,), ops)
      for name, write in WRITERS.items() for b in ("B", 3) for i in (4, LENGTH, -40)
      for opset, ops in ((24, WRITTEN), (23, ONE)) if name != "each" or b == 3),
    *(Case(f"index {i} of {kind}", updated, [X.astype(kind), Y.astype(kind), np.int32(i)[...]],
           (24,), {"TensorScatter": 1}, tags=DEFAULT if kind == "int8" else frozenset())
      for kind in ("int8", "float16", "bool") for i in (3, 7, 8, 40, -1, -40)),
    Case("indices of places", MAPPED, [X.astype("int8"), Y.astype("int8"),
         np.array([0, 5, 8, -3], np.int32)], (24,), {"TensorScatter": 1}, tags=DEFAULT),
]  # fmt: skip


def zeroed(q, k, v, visible):
    """Return attention whose weights are also set to zero where they are not visible."""
    weights = jax.nn.softmax(jnp.where(visible, q @ k.T * 0.5, -jnp.inf))
    return jnp.where(jnp.logical_not(visible), 0, weights) @ v


PROGRAMS = [
    *(*MASKS, *NARROW, *GROUPS, *CACHES),
    Case("zeroed where it is not visible", zeroed, [(3, 4), (5, 4), (5, 6), ((3, 5), bool)],
         ops=ONE, tags=DEFAULT),
    Case("large and known", large_and_known, [(4, 550, 4)] * 3, ops={**ONE, "ReduceMax": 0},
         tags=DEFAULT),
]  # fmt: skip
