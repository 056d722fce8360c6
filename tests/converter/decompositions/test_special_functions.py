"""Functions that are JAX functions in the graph, against JAX, and scipy in float64."""

import itertools

import jax
import numpy as np
import pytest
import scipy.special
from jax import lax

import converter
from converter.verify.sessions import run

RNG = np.random.default_rng(2)
LINE = np.concatenate([RNG.uniform(-30, 30, 500), RNG.uniform(-1, 1, 200), RNG.normal(0, 1e-3, 99)])
SHAPES, ENDS = RNG.uniform(0.02, 40, (2, 1500))
INSIDE = RNG.uniform(0, 1, 1500)
ORDERS = RNG.integers(0, 6, 1500).astype(float)

FUNCTIONS = {
    "igamma": (lax.igamma, scipy.special.gammainc, (SHAPES, ENDS)),
    "igammac": (lax.igammac, scipy.special.gammaincc, (SHAPES, ENDS)),
    "betainc": (lax.betainc, scipy.special.betainc, (SHAPES, ENDS, INSIDE)),
    "zeta": (lax.zeta, scipy.special.zeta, (1 + SHAPES, ENDS)),
    "polygamma": (lax.polygamma, scipy.special.polygamma, (ORDERS, ENDS)),
    "bessel_i0e": (lax.bessel_i0e, scipy.special.i0e, (LINE,)),
    "bessel_i1e": (lax.bessel_i1e, scipy.special.i1e, (LINE,)),
}


def converted(fn, inputs, **how):
    (got,) = run(converter.to_onnx(fn, inputs, **how), inputs).values()
    return got


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_as_near_to_the_truth_as_jax(name, dtype):
    fn, truth, numbers = FUNCTIONS[name]
    inputs = [x.astype(dtype) for x in numbers]
    with jax.enable_x64(dtype == np.float64):
        got, jax_own = converted(fn, inputs), np.asarray(fn(*inputs))
    wanted = truth(*(x.astype(np.float64) for x in inputs))
    unit = np.finfo(dtype).eps
    size = np.maximum(np.abs(wanted), np.finfo(dtype).tiny)
    ours, theirs = (np.abs(y - wanted) / size for y in (got, jax_own))
    assert np.quantile(ours, 0.99) <= 2 * np.quantile(theirs, 0.99) + 16 * unit
    assert ours.max() <= 2 * theirs.max() + 64 * unit


EDGES = [0.0, -0.0, 1.0, 0.5, 2.0, 3.0, -1.0, -2.5, 1e-3, 12.0, np.inf, -np.inf, np.nan]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_edges(name):
    """To the accuracy that the logarithms of XLA's gamma function leave."""
    fn, _, numbers = FUNCTIONS[name]
    inputs = list(np.array([*itertools.product(EDGES, repeat=len(numbers))], np.float32).T)
    np.testing.assert_allclose(converted(fn, inputs), fn(*inputs), rtol=1e-4, atol=2e-6)


def test_operands_broadcast():
    inputs = [
        SHAPES[:6].reshape(6, 1).astype(np.float32),
        ENDS[:5].reshape(1, 5).astype(np.float32),
    ]
    got = converted(lax.igamma_p.bind, inputs)
    np.testing.assert_allclose(got, lax.igamma_p.bind(*inputs), rtol=2e-5)
