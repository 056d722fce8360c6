"""Functions that ONNX or its runtime lacks, against JAX, and scipy in float64."""

import itertools
import math

import jax
import numpy as np
import pytest
import scipy.special
from jax import lax

import converter
from converter.verify.sessions import run
from tests.converter.test_edges import units

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


# ------------------------------------------------------------- operators, or short formulas of them

OTHERS = np.random.default_rng(5)
AROUND = np.concatenate(
    [OTHERS.uniform(-30, 30, 300), OTHERS.uniform(-1, 1, 300), OTHERS.normal(0, 1e-4, 99)]
)
SINES = np.concatenate(
    [AROUND[300:], np.sign(AROUND[:300]) * (1 - np.exp(-OTHERS.uniform(0, 15, 300)))]
)

WRITTEN = {
    "erf": (lax.erf, scipy.special.erf, AROUND),
    "erfc": (lax.erfc, np.vectorize(math.erfc), AROUND[AROUND < 9.1]),
    "erf_inv": (lax.erf_inv, scipy.special.erfinv, SINES),
    "cbrt": (lax.cbrt, np.cbrt, AROUND),
    "expm1": (lax.expm1, np.expm1, AROUND),
    "log1p": (lax.log1p, np.log1p, np.abs(AROUND)),
    "sinh": (lax.sinh, np.sinh, AROUND),
    "cosh": (lax.cosh, np.cosh, AROUND),
    "asinh": (lax.asinh, np.arcsinh, AROUND),
    "acosh": (lax.acosh, np.arccosh, 1 + np.abs(AROUND)),
    "atanh": (lax.atanh, np.arctanh, SINES),
    "asin": (lax.asin, np.arcsin, SINES),
    "acos": (lax.acos, np.arccos, SINES),
    "atan": (lax.atan, np.arctan, AROUND),
    "logistic": (lax.logistic, scipy.special.expit, AROUND),
}
UNITS = {
    "erfc": (4, 8),
    "erf_inv": (64, 2**20),  # as JAX's own, near 1: log(1 - x^2) cancels
    "expm1": (6, 6),
    "log1p": (4, 4),
    "sinh": (4, 6),
    "cosh": (4, 6),
    "logistic": (2, 4),
}
"""Measured units in the last place, in float32 and in float64; of 1 for ``logistic``."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_accurate_everywhere(name, dtype):
    fn, truth, numbers = WRITTEN[name]
    x = numbers.astype(dtype)
    with jax.enable_x64(dtype == np.float64):
        got = converted(fn, [x])
    wanted = truth(x.astype(np.float64)).astype(dtype)
    worst = units(got, wanted, 1.0 if name == "logistic" and dtype == np.float32 else 0.0).max()
    assert worst <= UNITS.get(name, (3, 3))[dtype == np.float64]


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_zeros_of_gamma_functions(name, dtype):
    """What their formulas add up cancels there: XLA's are up to 67 units of 1 off in float32."""
    fn, truth = getattr(lax, name), {"lgamma": "gammaln", "digamma": "digamma"}[name]
    x = np.concatenate([OTHERS.uniform(-9, 9, 4000), OTHERS.uniform(0.5, 3, 4000)]).astype(dtype)
    got = converted(fn, [x])
    wanted = getattr(scipy.special, truth)(x.astype(np.float64)).astype(dtype)
    assert units(got, wanted).max() <= 1
