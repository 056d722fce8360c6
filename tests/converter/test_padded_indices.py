"""Gathers at indices of padding, which are out of bounds, and masks that remove their rows.

Random programs are compared with JAX.
"""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import converter
from tests.conformance import assert_close

ROWS, WIDTH, EDGES = 5, 4, 6
WEIGHTS = np.random.default_rng(1).standard_normal((WIDTH, WIDTH)).astype(np.float32)

SOURCES = {
    "input": lambda e: e,
    "flat": lambda e: e.reshape(-1),
    "transposed": lambda e: e.T,
    "column": lambda e: e[:, 0],
    "sliced": lambda e: e[1:, ::2],
    "joined": lambda e: jnp.concatenate([e, e[:2]]),
    "converted": lambda e: e.astype(jnp.int16),
    "spread": lambda e: jnp.broadcast_to(e[:, None], (EDGES, 2, 2)),
    "reversed": lambda e: e[::-1],
}
"""Functions from the indices, [edges, 2], to the indices of the gather and of the mask."""

MASKS = {
    "below": lambda i: i < ROWS,
    "not padding": lambda i: i != ROWS,
    "within": lambda i: (i >= 0) & (i < ROWS),
    "below, as an integer": lambda i: (i < ROWS).astype(jnp.int32) > 0,
}
"""Functions from indices to the mask, which is true for indices that are no padding."""

NETWORKS = {
    "nothing": lambda y: y,
    "pointwise": lambda y: jnp.tanh(y) * 2,
    "product": lambda y: jax.nn.relu(y @ WEIGHTS),
    "joined product": lambda y: jnp.concatenate([y, y * 2], -1) @ np.tile(WEIGHTS, (2, 1)),
    "norm": lambda y: jax.nn.standardize(y) @ WEIGHTS,
    "softmax": jax.nn.softmax,
    "gated": lambda y: (y @ WEIGHTS) * jax.nn.sigmoid(y),
}
"""Functions of the gathered rows, between the gather and the mask."""

DROPS = {
    "product": lambda y, m: y * m[..., None],
    "product with floats": lambda y, m: m.astype(jnp.float32)[..., None] * y,
    "product with numbers": lambda y, m: y * jnp.where(m, 1.0, 0.0)[..., None],
    "choice": lambda y, m: jnp.where(m[..., None], y, 0),
    "sum": lambda y, m: jnp.sum(y, -2, where=m[..., None]),
    "largest": lambda y, m: jnp.max(jnp.where(m[..., None], y, -jnp.inf), -2, initial=-9.0),
    "contraction": lambda y, m: jnp.einsum("...e,...ef->...f", m.astype(jnp.float32), y),
    "attention": lambda y, m: jax.nn.softmax(jnp.where(m, y.sum(-1), -1e30), -1),
}
"""Functions of rows and a mask that remove the masked rows."""


def masked(source, mask, network, drop):
    """Return a function of rows and indices made of these entries of the tables."""

    def fn(x, e):
        rows = SOURCES[source](e)
        return DROPS[drop](NETWORKS[network](x[rows]), MASKS[mask](rows))

    return fn


def masked_and_scattered(source, mask, network, drop):
    """Return a function whose indices are used again in a scatter without a promise.

    It has no mask; the scatter drops indices out of bounds.
    """
    del mask, drop

    def fn(x, e):
        rows = SOURCES[source](e)
        y = NETWORKS[network](x[rows])
        return jax.ops.segment_sum(y.reshape(-1, WIDTH), rows.reshape(-1), ROWS)

    return fn


def masked_in_loop(source, mask, network, drop):
    """Return a function whose gather is in a loop over the rows of the indices."""

    def step(x, rows):
        return x, DROPS[drop](NETWORKS[network](x[rows]), MASKS[mask](rows))

    return lambda x, e: jax.lax.scan(step, x, jnp.atleast_2d(SOURCES[source](e)))[1]


def masked_under_vmap(source, mask, network, drop):
    fn = masked(source, mask, network, drop)
    return lambda x, e: jax.vmap(fn)(jnp.stack([x, -x]), jnp.stack([e, e[::-1]]))


FORMS = (masked, masked, masked_and_scattered, masked_in_loop, masked_under_vmap)


def draw_edges(rng):
    """Return pairs of indices of rows, of which some are padding, [edges, 2]."""
    return np.array(
        [
            [rng.choice((*range(-ROWS, ROWS), ROWS, ROWS, ROWS + 7)) for _ in range(2)]
            for _ in range(EDGES)
        ],
        np.int32,
    )


def check(seed):
    """Assert that a random program of the tables agrees with JAX."""
    rng = random.Random(seed)
    names = [rng.choice([*table]) for table in (SOURCES, MASKS, NETWORKS, DROPS)]
    form = rng.choice(FORMS)
    fn, e = form(*names), draw_edges(rng)
    x = np.random.default_rng(seed).standard_normal((ROWS, WIDTH)).astype(np.float32)
    export = converter.to_onnx(fn, [x, e], opset=rng.choice((17, 18, 21, 23)))
    (actual,) = converter.run(export, [x, e]).values()
    try:
        assert_close(actual, np.asarray(jax.jit(fn)(x, e)))
    except AssertionError as error:
        raise AssertionError(f"{form.__name__} {names} of {e.tolist()}: {error}") from error


@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(n, marks=pytest.mark.full) for n in range(10, 24))]
)
def test_masked_padding_agrees_with_jax(seed):
    check(seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 700))
def test_more_masked_padding_agrees_with_jax(seed):
    check(seed)


UNCHECKED = "indices are taken to be within bounds"


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, e: x[e],
        lambda x, e: jax.nn.relu(x[e] @ WEIGHTS),
        lambda x, e: (jax.nn.standardize(x[e]) @ WEIGHTS) * (e != 2)[..., None],
    ],
    ids=["plain", "network", "padding is a row"],
)
def test_gathers_that_rely_on_a_promise_are_reported(fn):
    """A gather without a mask of its padding is a deviation, which strict files do not have."""
    export = converter.to_onnx(fn, [(ROWS, WIDTH), ((EDGES, 2), "int32")])
    (sentence,) = [text for text in export.report.deviations if UNCHECKED in text]
    assert "test_padded_indices.py" in sentence
    strict = converter.to_onnx(fn, [(ROWS, WIDTH), ((EDGES, 2), "int32")], strict=True)
    assert not [text for text in strict.report.deviations if UNCHECKED in text]


@pytest.mark.parametrize("indices", [np.array([0, 4, -1]), slice(1, 3)])
def test_constant_indices_within_bounds_are_no_deviation(indices):
    export = converter.to_onnx(lambda x: x[indices], [(ROWS, WIDTH)])
    assert not export.report.deviations
