"""Reductions by functions that ONNX has no operator for."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.conformance import Case, assert_exports

X = (5, 7)
N = (X, np.int32)


def _windows(op, start, x, window=(2, 3), strides=(1, 2), padding=((1, 0), (2, 1)), **more):
    return lax.reduce_window(x, start, op, window, strides, padding, **more)


def _log_sum(a, b):
    return jnp.logaddexp(a, b)


def _argmax(a, b):
    first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
    return jnp.where(first, a[0], b[0]), jnp.where(first, a[1], b[1])


def _pooled(x):
    return _windows(lax.max, -jnp.inf, x)


CASES = [
    Case("log-sum-exp", lambda x: lax.reduce(x, -jnp.inf, _log_sum, (0,)), [X], tolerance=2),
    Case("all axes", lambda x: lax.reduce(x, -jnp.inf, _log_sum, (1, 0)), [X], tolerance=4),
    Case("once the start", lambda x: lax.reduce(x, 3, lambda a, b: a + b + 0 * a, (1,)), [N]),
    Case("of one", lambda x: lax.reduce(x, 2.0, lambda a, b: a * b * 0.5, (1,)), [(4, 1)]),
    Case("of none", lambda x: lax.reduce(x, 2.0, lambda a, b: a * b * 0.5, (1,)), [(4, 0)]),
    Case(
        "pairs",
        lambda x, i: lax.reduce((x, i), (-jnp.inf, 99), _argmax, (1,)),
        [X, (X, np.int32)],
    ),
    Case("windows of products", lambda x: _windows(lax.mul, 1.0, x), [X]),
    Case("padded with others", lambda x: _windows(lax.add, 2, x), [N]),
    Case("maxima of at least one", lambda x: _windows(lax.max, 1.0, x), [X]),
    Case(
        "dilated",
        lambda x: _windows(
            lax.mul, 1.0, x, base_dilation=(2, 1), window_dilation=(2, 2), padding="SAME"
        ),
        [X],
    ),
    Case("windows without room", lambda x: _windows(lax.mul, 1.0, x, (6, 9)), [(2, 3)]),
    Case("a derivative of pooling", lambda x, t: jax.jvp(_pooled, (x,), (t,))[1], [X, X]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reduced(case):
    assert_exports(case)
