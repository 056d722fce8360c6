"""Functions that ONNX or its runtime lacks, against scipy in float64."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from jax import lax

import converter
from converter.verify.sessions import run
from tests.converter.test_edges import units

RNG = np.random.default_rng(5)
LINE = np.concatenate([RNG.uniform(-30, 30, 300), RNG.uniform(-1, 1, 300), RNG.normal(0, 1e-4, 99)])
INSIDE = np.concatenate([LINE[300:], np.sign(LINE[:300]) * (1 - np.exp(-RNG.uniform(0, 15, 300)))])

FUNCTIONS = {
    "erf": (lax.erf, scipy.special.erf, LINE),
    "erfc": (lax.erfc, np.vectorize(math.erfc), LINE[LINE < 9.1]),
    "erf_inv": (lax.erf_inv, scipy.special.erfinv, INSIDE),
    "cbrt": (lax.cbrt, np.cbrt, LINE),
    "expm1": (lax.expm1, np.expm1, LINE),
    "log1p": (lax.log1p, np.log1p, np.abs(LINE)),
    "sinh": (lax.sinh, np.sinh, LINE),
    "cosh": (lax.cosh, np.cosh, LINE),
    "asinh": (lax.asinh, np.arcsinh, LINE),
    "acosh": (lax.acosh, np.arccosh, 1 + np.abs(LINE)),
    "atanh": (lax.atanh, np.arctanh, INSIDE),
    "asin": (lax.asin, np.arcsin, INSIDE),
    "acos": (lax.acos, np.arccos, INSIDE),
    "atan": (lax.atan, np.arctan, LINE),
    "logistic": (lax.logistic, scipy.special.expit, LINE),
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
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_accurate_everywhere(name, dtype):
    fn, truth, numbers = FUNCTIONS[name]
    x = numbers.astype(dtype)
    with jax.enable_x64(dtype == np.float64):
        (got,) = run(converter.to_onnx(fn, [x]), [x]).values()
    wanted = truth(x.astype(np.float64)).astype(dtype)
    worst = units(got, wanted, 1.0 if name == "logistic" and dtype == np.float32 else 0.0).max()
    assert worst <= UNITS.get(name, (3, 3))[dtype == np.float64]


DERIVED = {
    "logcdf": jax.scipy.stats.norm.logcdf,
    "log_ndtr": jax.scipy.special.log_ndtr,
    "ndtr": jax.scipy.special.ndtr,
    "erfcx": lambda x: jnp.exp(x**2 / 4) * lax.erfc(x / 2),
}


@pytest.mark.parametrize("name", DERIVED)
def test_tails(name):
    """`1 - erf(x)` was zero from 4 on."""
    fn, x = DERIVED[name], np.array([-20, -6, -5.5, -1, 0, 0.5, 3, 6], np.float32)
    (got,) = run(converter.to_onnx(fn, [x]), [x]).values()
    np.testing.assert_allclose(got, fn(x), rtol=2e-6)


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_zeros_of_gamma_functions(name, dtype):
    """What their formulas add up cancels there: XLA's are up to 67 units of 1 off in float32."""
    fn, truth = getattr(lax, name), {"lgamma": "gammaln", "digamma": "digamma"}[name]
    x = np.concatenate([RNG.uniform(-9, 9, 4000), RNG.uniform(0.5, 3, 4000)]).astype(dtype)
    (got,) = run(converter.to_onnx(fn, [x]), [x]).values()
    wanted = getattr(scipy.special, truth)(x.astype(np.float64)).astype(dtype)
    assert units(got, wanted).max() <= 1


@pytest.mark.parametrize("fn", [lax.lgamma, lax.digamma])
def test_poles(fn):
    """And beside them."""
    x = np.array([0, -1, -2, -3.4e38, np.inf, -np.inf, np.nan, -1.0000001, 1e-7], np.float32)
    (got,) = run(converter.to_onnx(fn, [x]), [x]).values()
    np.testing.assert_allclose(got, fn(x), rtol=1e-5)
