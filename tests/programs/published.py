"""Attention and rotary embeddings as published networks write them, at opsets with and without
these operators."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from tests.conformance import DEFAULT, Case

HEADS, QUERIES, KEYS = 3, 5, 7
KEEP = np.arange(KEYS) <= np.arange(QUERIES)[:, None] + 2
SCORED = ((2, HEADS, QUERIES, 8), (2, HEADS, KEYS, 8), (2, HEADS, KEYS, 6))

# ------------------------------------------------------------------------------ shifts of scores


def masked(scores):
    return jnp.where(KEEP, scores, jnp.finfo(scores.dtype).min)


def less(axis, scores, stop=True):
    maximum = scores.max(axis, keepdims=True)
    return scores - (jax.lax.stop_gradient(maximum) if stop else maximum)


def attend(change):
    def fn(q, k, v):
        scores = jnp.einsum("bhqc,bhkc->bhqk", q, k) / 4
        return jnp.einsum("bhqk,bhkc->bhqc", jax.nn.softmax(change(scores), -1), v)

    return fn


def guarded(scores):
    """Subtract the largest score of a row, or zero if the mask hides the row, as blockwise
    attention does."""
    scores = jnp.where(KEEP, scores, -jnp.inf)
    largest = scores.max(-1, keepdims=True)
    return scores - jnp.where(jnp.isfinite(largest), largest, 0)


def of_exponentials(x):
    exps = jnp.exp(less(None, x))
    return exps / exps.sum(-1, keepdims=True)


SHIFTS = {
    "of a row": lambda s: less(-1, masked(s)),
    "of a head": lambda s: less((-2, -1), masked(s), stop=False),  # TARFlow
    "of all": lambda s: less(None, masked(s)),
    "before the mask": lambda s: masked(less((-2, -1), s)),
    "before a factor": lambda s: less(-1, s / 32) * 32,  # CogView
    "guarded": guarded,
    "of hidden": lambda s: masked(s) - s.max(-1, keepdims=True),
    "behind fills": lambda s: masked(less(-1, s)),
}
SHIFTED = [
    *(Case(f"shift {name}", attend(fn), SCORED, ops={"Attention": 1, "ReduceMax": 0, "Sub": 0})
      for name, fn in SHIFTS.items()),
    Case("shift of a softmax alone", lambda x: jax.nn.softmax(less(0, x), 0), ((5, 3),),
         ops={"Softmax": 1, "ReduceMax": 0}),
    Case("softmax less the largest of all", of_exponentials, ((5, 3),), ops={"Softmax": 0},
         said="the maximum of several rows is subtracted"),
    Case("shift of queries", attend(partial(less, -2)), SCORED, ops={"Attention": 0},
         said="scores are used elsewhere"),
    Case("shift of all, strict", attend(SHIFTS["of all"]), SCORED, ops={"Attention": 0},
         said="an infinite or NaN maximum of several rows", strict=True),
    *(Case(f"shift {name}, strict", attend(SHIFTS[name]), SCORED, ops={"Attention": 0},
           said="or of hidden elements", strict=True) for name in ("of hidden", "behind fills")),
    Case("shift of all, float16", attend(SHIFTS["of all"]), [(s, np.float16) for s in SCORED],
         ops={"Attention": 0}, said="in float16, scores may overflow"),
]  # fmt: skip

# --------------------------------------------------------------------------------- groups of heads

SHARED, GROUP = 2, 3
GROUPED = ((2, QUERIES, 6, 8), (2, KEYS, SHARED, 8), (2, KEYS, SHARED, 8))


def grouped(merged, scored="btkgs", keep=KEEP[:, None]):
    """Return attention whose scores have two axes merged for the mask and the softmax, as in
    Gemma."""

    def fn(q, k, v):
        sizes = dict(b=q.shape[0], t=QUERIES, k=SHARED, g=GROUP, s=KEYS)
        scores = jnp.einsum(f"btkgc,bskc->{scored}", q.reshape(-1, QUERIES, SHARED, GROUP, 8), k)
        shape = [int(np.prod([sizes[i] for i in axis])) for axis in merged]
        scores = jnp.where(keep, scores.reshape(sizes["b"], *shape[1:]), -2.3819763e38)
        weights = jax.nn.softmax(scores, -1).reshape(sizes["b"], *(sizes[i] for i in scored[1:]))
        return jnp.einsum(f"{scored},bskc->btkgc", weights, v).reshape(q.shape)

    return fn


def rows_of_groups(q, k, v):
    """Attend with the heads of a group as further rows of the products."""
    q = jnp.moveaxis(q.reshape(2, QUERIES, SHARED, GROUP, 8), 1, 3)
    scores = jnp.einsum("bkrc,bskc->bkrs", q.reshape(2, SHARED, GROUP * QUERIES, 8), k)
    scores = scores.reshape(2, SHARED, GROUP, QUERIES, KEYS)
    weights = jax.nn.softmax(jnp.where(KEEP, scores, -1e30), -1)
    out = jnp.einsum("bkrs,bskc->bkrc", weights.reshape(2, SHARED, -1, KEYS), v)
    return jnp.moveaxis(out.reshape(2, SHARED, GROUP, QUERIES, 8), 3, 1)


OF_GROUPS = [
    Case("groups, queries first", grouped(("b", "t", "kg", "s")), GROUPED),
    Case("groups, heads first", grouped(("b", "kg", "t", "s"), "bkgts", KEEP), GROUPED),
    Case("groups before heads", grouped(("b", "gk", "t", "s"), "bgkts", KEEP), GROUPED),
    Case("groups and queries", grouped(("b", "k", "tg", "s"), "bktgs",
                                       np.repeat(KEEP, GROUP, 0)), GROUPED),
    Case("groups as rows", rows_of_groups, GROUPED),
]  # fmt: skip
OF_GROUPS = [replace(case, ops={"Attention": 1, "Softmax": 0}) for case in OF_GROUPS]

# ------------------------------------------------------------------------------ rotary embeddings

TOKENS, WIDTH = 5, 8
ROTATED = ((2, TOKENS, HEADS, 2 * WIDTH),)


def angles(count=WIDTH):
    return jnp.arange(TOKENS)[:, None, None] * 100.0 ** (-jnp.arange(count) / count)


def halves(a, b, count=WIDTH):
    cos, sin = jnp.cos(angles(count)), jnp.sin(angles(count))
    return a * cos - b * sin, b * cos + a * sin


def in_one(before, x):
    """Rotate two of four parts and concatenate all of them once, as Griffin does."""
    parts = jnp.split(x, 4, -1)
    parts[before : before + 2] = halves(*parts[before : before + 2], WIDTH // 2)
    return jnp.concatenate(parts, -1)


def written(x, start=jnp.zeros_like, count=WIDTH, order=(0, 1), step=2):
    """Rotate by overwriting every other element, or one half after the other."""
    stop = 2 * count
    parts = [np.s_[..., i:stop:2] if step == 2 else np.s_[..., i * count : (i + 1) * count]
              for i in (0, 1)]  # fmt: skip
    rotated, y = halves(*(x[i] for i in parts), count), start(x)
    for i in order:
        y = y.at[parts[i]].set(rotated[i])
    return y


def half_turn_written(x):
    cos, sin = (jnp.repeat(f(angles()), 2, -1) for f in (jnp.cos, jnp.sin))
    rotated = jnp.zeros_like(x).at[..., ::2].set(-x[..., 1::2]).at[..., 1::2].set(x[..., ::2])
    return x * cos + rotated * sin


def matrices(angles):
    """Return rotation matrices whose four entries are stacked along one axis first, as in FLUX."""
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    return jnp.stack([cos, -sin, sin, cos], -1).reshape(*angles.shape, 2, 2)


def by_columns(x, angles):
    m, pairs = matrices(angles), x.reshape(*x.shape[:-1], -1, 1, 2)
    return (m[..., 0] * pairs[..., 0] + m[..., 1] * pairs[..., 1]).reshape(x.shape)


def by_axes(x, rows, columns):
    """Rotate a part of the width by the row of a token and the rest by its column."""
    frequencies = 100.0 ** -(jnp.arange(WIDTH // 2) / WIDTH)
    parts = [matrices(p[:, :, None, None] * frequencies) for p in (rows, columns)]
    m, pairs = jnp.concatenate(parts, -3), x.reshape(*x.shape[:-1], -1, 1, 2)
    return (m[..., 0] * pairs[..., 0] + m[..., 1] * pairs[..., 1]).reshape(x.shape)


def by_product(labels, x):
    pairs = x.reshape(*x.shape[:-1], WIDTH, 2)
    return jnp.einsum(labels, matrices(angles()[:, 0]), pairs).reshape(x.shape)


def reflected(x):
    m = jnp.abs(matrices(angles()[:, 0]))
    pairs = x.reshape(*x.shape[:-1], WIDTH, 2)
    return jnp.einsum("ncij,bnhcj->bnhci", m, pairs).reshape(x.shape)


ONE = {"RotaryEmbedding": 1, "ScatterND": 0, "MatMul": 0}
ROTARY = [
    *(Case(f"rotated in one, {i}", partial(in_one, i), ROTATED) for i in (0, 1, 2)),
    Case("rotated by steps", written, ROTATED),
    Case("rotated by steps of an open batch", written, (("B", *ROTATED[0][1:]),)),
    Case("rotated by steps, odd first", partial(written, order=(1, 0)), ROTATED),
    Case("rotated by steps in place", partial(written, start=lambda x: x, count=3), ROTATED),
    Case("rotated by halves", partial(written, step=1), ROTATED),
    Case("rotated by halves in place", partial(written, step=1, start=jnp.copy, count=4), ROTATED),
    Case("half turn by steps", half_turn_written, ROTATED),
    Case("rotated by columns", lambda x: by_columns(x, angles()), ROTATED),
    Case("rotated by columns of positions", by_columns, (*ROTATED, (2, TOKENS, 1, WIDTH))),
    Case("rotated by two positions", by_axes, (*ROTATED, (2, TOKENS), (2, TOKENS))),
    Case("rotated by a product", partial(by_product, "ncij,bnhcj->bnhci"), ROTATED),
]
ROTARY = [replace(case, ops=ONE) for case in ROTARY]
REFLECTED = Case("reflected by a product", reflected, ROTATED, ops={"RotaryEmbedding": 0},
                 said="not shown to be rotations")  # fmt: skip

CASES = [*SHIFTED, *OF_GROUPS, *ROTARY, REFLECTED]
PROGRAMS = [
    *(replace(case, tags=DEFAULT) for case in CASES),
    *(replace(case, name=f"{case.name} at 18", opsets=(18,), said="",
              ops={op: 0 for op in case.ops if op in ("Attention", "RotaryEmbedding")})
      for case in CASES),
]  # fmt: skip
