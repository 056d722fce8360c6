"""Special functions, against scipy in float64."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
from jax import lax

from tests.converter.expand.accuracy import assert_as_accurate, both

RNG = np.random.default_rng(3)
LINE = np.concatenate([RNG.uniform(-30, 30, 100), RNG.normal(0, 1e-3, 20), [0, 100, -300, 10, 20]])
A = np.exp(RNG.uniform(-3, 4, 200))
X = A * np.exp(RNG.normal(0, 0.7, 200))

FUNCTIONS = {
    "bessel_i0e": (lax.bessel_i0e, scipy.special.i0e, [LINE]),
    "bessel_i1e": (lax.bessel_i1e, scipy.special.i1e, [LINE]),
    "zeta": (lax.zeta, scipy.special.zeta, [1.1 + A / 4, X]),
    "polygamma": (
        lax.polygamma,
        lambda n, x: scipy.special.polygamma(n.astype(int), x),
        [np.arange(200) % 5 + 0.0, X + 0.5],
    ),
    "igamma": (lax.igamma, scipy.special.gammainc, [A, X]),
    "igammac": (lax.igammac, scipy.special.gammaincc, [A, X]),
    "betainc": (lax.betainc, scipy.special.betainc, [A, X[::-1], RNG.uniform(0, 1, 200)]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.full)])
def test_accurate(name, dtype):
    fn, truth, args = FUNCTIONS[name]
    args = [x.astype(dtype) for x in args]
    assert_as_accurate(fn, truth, args)


@pytest.mark.full
@pytest.mark.parametrize("name", FUNCTIONS)
def test_by_the_element(name):
    """Small results have as many right digits as JAX's, or nearly."""
    fn, truth, args = FUNCTIONS[name]
    args = [x.astype(np.float32) for x in args]
    (ours,), (theirs,) = both(fn, args, 18)
    right = truth(*(x.astype(np.float64) for x in args))
    with np.errstate(divide="ignore", invalid="ignore"):
        ours, theirs = (np.nan_to_num(abs(y / right - 1)) for y in (ours, theirs))
    ordinary = abs(right) > 1e-30
    assert ours[ordinary].max() <= 10 * max(theirs[ordinary].max(), 1e-7)


EDGES = {
    "igamma": [[0, 1, 1, 1, -1, np.inf, 1, np.nan, 2], [1, 0, np.inf, -1, 1, 1, np.nan, 1, 1e-30]],
    "igammac": [[1, 1, 1, -1, 1, np.nan, 2], [0, np.inf, -1, 1, np.nan, 1, 1e30]],
    "betainc": [[1, 1, 1, 1, -1, 1, np.nan], [1, 1, 1, 1, 1, -1, 1], [0, 1, -1, 2, 0.5, 0.5, 0.5]],
    "zeta": [[1, 0.5, 2, 2.5, 3, 2, np.nan], [2, 2, 0, -1.5, -2, 1e30, 1]],
    "bessel_i0e": [[0, np.inf, -np.inf, np.nan, -0.0]],
    "bessel_i1e": [[0, np.inf, -np.inf, np.nan, -0.0]],
    "polygamma": [[0, 1, -1, 0.5, 2], [1, np.inf, 1, 1, np.nan]],
}


@pytest.mark.parametrize("name", EDGES)
def test_edges(name):
    args = [np.array(x, np.float32) for x in EDGES[name]]
    (ours,), (theirs,) = both(FUNCTIONS[name][0], args, 23)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
