"""Gathers, scatters, slices and padding, with indices in range and out of range."""

import random

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.conformance import DEFAULT, JUDGES, Case

X = (5, 6, 7)
I = np.array([2, 0, 4], np.int32)  # noqa: E741
OUTSIDE = np.array([[1, -2, 4], [0, 9, -9]], np.int32)
START = np.array(4, np.int32)

GATHERS = [
    Case("first of an open axis", jax.vmap(lambda x: x[0] * 2), (("B", "N", 4),),
         ops={"Gather": 1, "Clip": 0, "Shape": 0}),
    Case("number of an index", lambda x, i: x[:, i[0]], (X, I[:1]),
         ops={"Reshape": 0, "Squeeze": 1}),
    Case("a slice of a slice", lambda x: x[1:7, 2:9][2:5, 1:4], ((9, 10),), ops={"Slice": 1}),
    Case("embedding", lambda x, i: x[i], ((10, 4), (("B", "N"), np.uint8)), ops={"Gather": 1}),
    Case("one node", lambda x, i: x[i], (X, I), ops={"Gather": 1, "Less": 0, "Where": 0}),
    Case("known indices", lambda x: (x[I], x[:, I], x[:, [3, 1]], x[..., -1], x[1, 2, 3]), (X,),
         ops={"Where": 0, "Clip": 0, "Less": 0}),
    Case("several axes", lambda x, i, j: (
        x[i, :, j], x[i, j], x[:, i, j], x[i, 1:3, j], x[i, j, i]), (X, I, I - 1)),
    Case("take_along_axis named", lambda x, i: jnp.take_along_axis(x, jnp.abs(i) % 3, 1),
         (("B", 3), (("B", 2), np.int32))),
    Case("fill", lambda x, i: (x.at[i].get(mode="fill", fill_value=9.0),
                               x.at[i, i].get(mode="fill"), jnp.take(x, i, 2)), (X, OUTSIDE),
                               tags=DEFAULT | {"nested vmap"}),
    Case("wide window", lambda x, i: lax.gather(
        x, jnp.stack([i, i], -1), lax.GatherDimensionNumbers((0, 2), (2,), (1, 2)), (3, 2, 1),
        mode="clip"), (X, I), tags=DEFAULT),
    Case("axis of one dropped", lambda x, i: lax.gather(
        x[:1], i[:, None], lax.GatherDimensionNumbers((1,), (0, 2), (2,)), (1, 6, 1), mode="clip"),
         ((5, 6, 7), I)),
]  # fmt: skip
SCATTERS = [
    Case("set", lambda x, i: (x.at[i].set(1.0), x.at[:, i].set(2.0), x.at[i, :, i].set(x[:3, :, 0]),
                              x.at[..., i].set(x[..., :3])), (X, I), tags=DEFAULT | {"vmap 1"}),
    Case("add", lambda x, i: (x.at[i].add(1.0), x.at[i, i].add(x[:3, 0]), x.at[:, i].add(2.0)),
         (X, np.array([1, 1, 4], np.int32)), (17, 18)),
    Case("max min", lambda x, i: (x.at[i].max(0.0), x.at[:, i].min(0.5)), (X, I), (18,),
         tags=DEFAULT | {JUDGES}),
    Case("known place", lambda x: (x.at[1, 2:4].set(5.0), x.at[:, -1].add(1.0), x.at[:].add(1.0),
                                   x.at[::2].set(0.0), x.at[1, 2, 3].set(9.0)), (X,)),
    Case("outside is dropped", lambda x, i: (x.at[i].add(1.0), x.at[i, i].set(7.0, mode="drop"),
                                             x.at[i].mul(2.0)), (X, OUTSIDE), tags=DEFAULT),
    Case("derivative of what is dropped", lambda x, i: jax.jvp(
        lambda y: y.at[i, i].set(7.0, mode="drop"), (x,), (jnp.cos(x),)), (X, OUTSIDE),
        tags=DEFAULT),
    Case("unindexed short window", lambda x, i, u: lax.scatter_add(
        x, i[:, None], u, lax.ScatterDimensionNumbers((1, 2), (0,), (0,)), mode="drop"),
        (X, np.array([2, 0, 7], np.int32), (3, 4, 7))),
    Case("named rows", lambda x, i: (x.at[i].set(1.0), x.at[:, 1].add(2.0)),
         (("B", 4), np.array([0, 2, 7], np.int32)), tags=DEFAULT),
]  # fmt: skip


def windows(*sizes):
    """Return a gather of windows of axes 1 and 2 that start at index vectors.

    ONNX counts a negative index from the end, and rejects indices out of range.
    """
    numbers = lax.GatherDimensionNumbers((2, 3, 4), (), (1, 2))
    return lambda x, i: lax.gather(x, i, numbers, sizes)


STARTS = np.array([[[0, 1], [-1, 4], [9, 2], [2147483647, -3]]], np.int32)
WINDOWS = [
    Case(
        "windows, named", windows(2, 2, 3), ((4, 5, "3*W"), STARTS), tags=DEFAULT | {"vmap of grad"}
    ),
]
APPLIED = [
    Case("apply to a row", lambda x: x.at[1].apply(jnp.square), (X,), ops={"Loop": 0}),
    Case("apply again and again", lambda x: x.at[I[[0, 1, 0]]].apply(lambda v: v * v - 2), (X,),
         tags=DEFAULT),
    Case("apply outside", lambda x: x.at[jnp.array([1, 9])].apply(jnp.negative, mode="drop"), (X,)),
    Case("apply to named rows", lambda x: x.at[1].apply(jnp.abs), (("B", 5),)),
    *(Case(f"apply to {np.dtype(dtype).name}", lambda x: x.at[I[[0, 1, 0]]].apply(
        lambda v: (v * 2).astype(v.dtype)), (((5, 3), dtype),))
      for dtype in (jnp.bfloat16, np.int8, np.uint32, np.bool_)),
]  # fmt: skip
SLICES = [
    Case("dynamic_slice", lambda x, k: (lax.dynamic_slice(x, (k, k, 0), (2, 3, 7)),
                                        lax.dynamic_slice(x, (1, k, 9), (2, 3, 4)),
                                        lax.dynamic_index_in_dim(x, k, 1)), (X, START),
                                        tags=DEFAULT | {"open batch"}),
    Case("known start", lambda x: lax.dynamic_slice(x, (1, -2, 9), (2, 3, 4)), (X,),
         ops={"Slice": 1, "Max": 0}),
    Case("dynamic_update_slice", lambda x, k: (
        lax.dynamic_update_slice(x, x[:, :3] * 9, (0, k, 0)),
        lax.dynamic_update_slice(x, x[:2, :3] * 9, (k, k, 0)),
        lax.dynamic_update_slice(x, x[:2, :3, :2] * 9, (k, -1, k)),
        lax.dynamic_update_slice(x, x * 9, (k, k, k))), (X, START), tags=DEFAULT),
    Case("cache", lambda x, u, k: lax.dynamic_update_slice_in_dim(x, u, k, 1),
         (("B", 6, 4), ("B", 1, 4), START), tags=DEFAULT),
    Case("lanes named", jax.vmap(lambda x, k: lax.dynamic_update_slice(x, x[:2] * 3, (k, 0))),
         (("B", 4, 7), (("B",), np.int32))),
    Case("named slices", lambda x: (x[1:], x[:-1], x[::-1], jnp.roll(x, 1, 0)), (("B", 4),),
         tags=DEFAULT),
    Case("split stack", lambda x: (*jnp.split(x, 3, 1), jnp.stack([x[0], x[1]], 1),
                                   *jnp.array_split(x, 2, 2)), (X,), (17, 18)),
]  # fmt: skip
PADS = [
    Case("interior and negative", lambda x: lax.pad(x, 2.0, ((-1, -2, 2), (-3, 1, 1), (0, 0, 0))),
         (X,), tags=DEFAULT),
    Case("filler is an input", lambda x, v: lax.pad(x, v, ((1, 1, 0), (0, 0, 1), (0, 0, 0))),
         (X, ())),
    *[Case(mode, lambda x, mode=mode: jnp.pad(x, 2, mode=mode), ((4, 5),))
      for mode in ("reflect", "edge", "wrap")],
    Case("named padding", lambda x: (
        jnp.pad(x, ((1, 2), (0, 1))), lax.pad(x, 0.0, ((0, 0, 1), (0, 0, 0)))), (("B", 4),)),
]  # fmt: skip


def scatter(seed: int) -> Case:
    """Draw a scatter with random dimension numbers, some of whose indices are out of range.

    Negative numbers in the batch axes are axes of the indices that no operand axis has. If index
    vectors are empty, XLA keeps only the last of several updates; then the indices have no such
    axes.
    """
    rng = random.Random(seed)
    shape = (2, 3, 5, 4)[: rng.randint(1, 4)]
    roles = rng.choices(("shared", "indexed", "inserted", "whole"), k=len(shape))
    shared, inserted = ([d for d, r in enumerate(roles) if r == k] for k in ("shared", "inserted"))
    indexed = [d for d, role in enumerate(roles) if role in ("indexed", "inserted")]
    window = [d for d, role in enumerate(roles) if role in ("indexed", "whole")]
    batch = [*shared, *range(-rng.randint(0, 2 * bool(indexed)), 0)]
    rng.shuffle(indexed)
    rng.shuffle(batch)
    window_axes = sorted(rng.sample(range(len(window) + len(batch)), len(window)))
    index_shape = [shape[d] if d >= 0 else 1 - d for d in batch]
    updates = list(index_shape)
    for position, d in zip(window_axes, window, strict=True):
        updates.insert(position, rng.randint(1, shape[d]))
    numbers = lax.ScatterDimensionNumbers(
        *map(tuple, (window_axes, inserted, indexed, shared, map(batch.index, shared)))
    )
    mode, rule = (
        rng.choice(options)
        for options in (("clip", "drop"), (lax.scatter_add, lax.scatter_mul, lax.scatter_max))
    )
    ends = np.array([shape[d] for d in indexed], np.int32)
    indices = np.random.default_rng(seed).integers(
        -2, ends + 2, (*index_shape, len(indexed)), np.int32
    )
    fn = lambda x, i, u: rule(x, i, u, numbers, mode=mode)  # noqa: E731
    tags = frozenset({"vmap of grad"} if seed == 0 else ())
    return Case(f"scatter {seed}", fn, (shape, indices, updates), tags=tags)


def alternate(first, second):
    """Return a function that overwrites two parts of the columns of its first operand with those of
    its second operand."""
    return lambda x, y: x.at[:, first].set(y[:, first]).at[:, second].set(-y[:, second])


EVEN, ODD = np.s_[::2], np.s_[1::2]
ALTERNATING = [
    *(Case(f"alternating updates, {name}", alternate(*parts), ((3, size), (3, size)), tags=DEFAULT)
      for name, size, parts in (
        ("even and odd", 7, (EVEN, ODD)),
        ("odd and even", 7, (ODD, EVEN)),
        ("odd and even, of an even size", 8, (ODD, EVEN)),
        ("apart", 8, (np.s_[:4:2], np.s_[5::2])),
        ("of other counts", 8, (EVEN, np.s_[1:5:2])),
      )),
    *(Case(f"{count} entries of a vector", lambda x, i: x[i],
           ((9,), np.arange(count, dtype=np.int32).reshape(5, -1) % 9), ops={operator: 1},
           tags=DEFAULT) for count, operator in ((255, "Gather"), (260, "GatherElements"))),
    Case("alternating updates of zeros", lambda x: jnp.zeros_like(x).at[:, EVEN].set(x[:, EVEN]),
         ((3, 7),), tags=DEFAULT),
]  # fmt: skip


PROGRAMS = [
    *ALTERNATING,
    *GATHERS,
    *SCATTERS,
    *WINDOWS,
    *APPLIED,
    *SLICES,
    *PADS,
    *map(scatter, range(8)),
]
