"""Windows that inputs start: the judge draws these inputs so that every window is inside."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

import converter
from converter.verify.samples import samples

WRITTEN = (lax.scatter, lax.scatter_add, lax.scatter_min, lax.scatter_max)
PROMISED = {"mode": lax.GatherScatterMode.PROMISE_IN_BOUNDS}
MADE = {
    "as they are": lambda i: i,
    "turned": lambda i: i[::-1],
    "in a row with known ones": lambda i: jnp.concatenate([i, jnp.zeros_like(i)]),
    "of another dtype": lambda i: i.astype(jnp.int32),
    "of a choice": lambda i: jnp.where(i > 2, i, i[::-1]),
    "the smaller": lambda i: jnp.minimum(i, i[::-1]),
    "in order": lambda i: jnp.sort(i, 0),
    "the largest": lambda i: jnp.max(i, 0, keepdims=True) + jnp.zeros_like(i),
    "of a table": lambda i: jnp.take(i, jnp.array([2, 0, 1]), 0),
    "some of them": lambda i: lax.dynamic_slice_in_dim(i, i[0, 0], 2),
    "the first": lambda i: lax.top_k(i.T, 2)[0].T,
}


def windows(window, axes, made, index, x, indices):
    """Read or write windows of a size, each of which a vector of indices starts."""
    vectors = MADE[made](indices)
    inside = tuple(range(1, x.ndim + 1))
    if index is lax.gather:
        how = lax.GatherDimensionNumbers(inside, (), axes)
        return lax.gather(x, vectors, how, window, **PROMISED)
    how = lax.ScatterDimensionNumbers(inside, (), axes)
    updates = jnp.ones((len(vectors), *window), x.dtype)
    return index(x, vectors, updates, how, **PROMISED)


@st.composite
def drawn_windows(draw):
    shape = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3).map(tuple))
    window = tuple(draw(st.integers(1, size)) for size in shape)
    some = draw(st.sets(st.sampled_from(range(len(shape))), min_size=1))
    index = draw(st.sampled_from((lax.gather, *WRITTEN)))
    return shape, window, tuple(sorted(some)), draw(st.sampled_from([*MADE])), index


@settings(max_examples=8, deadline=None, derandomize=True)
@given(drawn_windows(), st.sampled_from(["int32", "uint8"]))
def test_windows_are_drawn_inside(drawn, dtype):
    shape, *how = drawn
    window, axes, *_ = how
    limit = min(shape[axis] - window[axis] for axis in axes)
    fn = partial(windows, *how)
    export = converter.to_onnx(fn, [shape, ((3, len(axes)), dtype)], verify=True)
    assert export.verdict.passed
    if any(window[axis] > 1 for axis in axes):
        return  # the file itself brings them inside
    for sample, (_, indices) in samples(export.graph):
        assert indices.dtype == np.dtype(dtype)
        assert (indices >= 0).all() and (indices <= limit).all(), sample


@pytest.mark.parametrize(
    "fn",
    [
        lambda i, x: x[jnp.argsort(i)],
        lambda i, x: x[jnp.argsort(-i)[:2]],
        lambda i, x: x[lax.top_k(i, 2)[1]],
        lambda i, x: x[jnp.argmax(i)],
        lambda i, x: x[jnp.arange(3).at[i].get(mode="clip")],
    ],
)
def test_what_orders_or_is_searched_is_any(fn):
    export = converter.to_onnx(fn, [((4,), "int32"), (5, 3)], verify=True)
    drawn = dict(samples(export.graph))
    assert drawn["large"][0].max() > 5 and drawn["large"][0].min() < 0
