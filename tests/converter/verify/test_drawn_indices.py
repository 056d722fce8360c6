"""Inputs that are starts of windows: verification draws them so that windows are within bounds."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

import converter
from converter.verify.samples import draw_basic_samples

SCATTERS = (lax.scatter, lax.scatter_add, lax.scatter_min, lax.scatter_max)
PROMISE = {"mode": lax.GatherScatterMode.PROMISE_IN_BOUNDS}
INDEX_SOURCES = {
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
"""Functions from an input to the indices at which windows start."""


def windows(window, axes, source, operation, x, indices):
    """Read or write windows of ``x`` of one shape, which start at vectors of indices.

    The vectors have an index for each of ``axes``. ``operation`` is a gather or a scatter.
    """
    vectors = INDEX_SOURCES[source](indices)
    window_axes = tuple(range(1, x.ndim + 1))
    if operation is lax.gather:
        numbers = lax.GatherDimensionNumbers(window_axes, (), axes)
        return lax.gather(x, vectors, numbers, window, **PROMISE)
    numbers = lax.ScatterDimensionNumbers(window_axes, (), axes)
    updates = jnp.ones((len(vectors), *window), x.dtype)
    return operation(x, vectors, updates, numbers, **PROMISE)


@st.composite
def drawn_windows(draw):
    """Draw the shape of ``x`` and the first four arguments of `windows`."""
    shape = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3).map(tuple))
    window = tuple(draw(st.integers(1, size)) for size in shape)
    axes = draw(st.sets(st.sampled_from(range(len(shape))), min_size=1))
    operation = draw(st.sampled_from((lax.gather, *SCATTERS)))
    return shape, window, tuple(sorted(axes)), draw(st.sampled_from([*INDEX_SOURCES])), operation


@settings(max_examples=8, deadline=None, derandomize=True)
@given(drawn_windows(), st.sampled_from(["int32", "uint8"]))
def test_windows_are_drawn_within_bounds(case, dtype):
    shape, *arguments = case
    window, axes, *_ = arguments
    limit = min(shape[axis] - window[axis] for axis in axes)
    fn = partial(windows, *arguments)
    export = converter.to_onnx(fn, [shape, ((3, len(axes)), dtype)], verify=True)
    assert export.verdict.passed
    if any(window[axis] > 1 for axis in axes):
        return  # the file itself clips the starts
    for sample, (_, indices) in draw_basic_samples(export.graph):
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
def test_inputs_that_are_sorted_or_searched_are_drawn_freely(fn):
    export = converter.to_onnx(fn, [((4,), "int32"), (5, 3)], verify=True)
    inputs_by_sample = dict(draw_basic_samples(export.graph))
    assert inputs_by_sample["large"][0].max() > 5 and inputs_by_sample["large"][0].min() < 0
