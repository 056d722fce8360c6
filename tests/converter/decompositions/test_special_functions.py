"""Special functions that ONNX or its runtime lacks, against scipy in float64."""

import math
from dataclasses import replace

import jax
import numpy as np
import pytest
import scipy.special
from jax import lax

import converter
from converter.verify.sessions import run
from tests.arrays import FLUSHED, count_units
from tests.programs.primitives import edges

RNG = np.random.default_rng(2)
LINE = np.concatenate([RNG.uniform(-30, 30, 300), RNG.uniform(-1, 1, 300), RNG.normal(0, 1e-4, 99)])
SINES = np.concatenate([LINE[300:], np.sign(LINE[:300]) * (1 - np.exp(-RNG.uniform(0, 15, 300)))])
SHAPES, ENDS = RNG.uniform(0.02, 40, (2, 1500))
INSIDE = RNG.uniform(0, 1, 1500)
ORDERS = RNG.integers(0, 6, 1500).astype(float)

FUNCTIONS = {
    "igamma": (lax.igamma, scipy.special.gammainc, (SHAPES, ENDS)),
    "igamma, grid": (lax.igamma_p.bind, scipy.special.gammainc, (SHAPES[:9, None], ENDS[None, :9])),
    "igammac": (lax.igammac, scipy.special.gammaincc, (SHAPES, ENDS)),
    "betainc": (lax.betainc, scipy.special.betainc, (SHAPES, ENDS, INSIDE)),
    "zeta": (lax.zeta, scipy.special.zeta, (1 + SHAPES, ENDS)),
    "polygamma": (lax.polygamma, scipy.special.polygamma, (ORDERS, ENDS)),
    "bessel_i0e": (lax.bessel_i0e, scipy.special.i0e, (LINE,)),
    "bessel_i1e": (lax.bessel_i1e, scipy.special.i1e, (LINE,)),
}


def convert_and_run(fn, inputs, **options):
    (actual,) = run(converter.to_onnx(fn, inputs, **options), inputs).values()
    return actual


@pytest.mark.each("name", "dtype")
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_function_is_as_accurate_as_jax(name, dtype):
    fn, truth, numbers = FUNCTIONS[name]
    inputs = [x.astype(dtype) for x in numbers]
    with jax.enable_x64(dtype == np.float64):
        actual, jax_values = convert_and_run(fn, inputs), np.asarray(fn(*inputs))
    expected = truth(*(x.astype(np.float64) for x in inputs))
    unit = np.finfo(dtype).eps
    size = np.maximum(np.abs(expected), np.finfo(dtype).tiny)
    errors, jax_errors = (np.abs(y - expected) / size for y in (actual, jax_values))
    assert np.quantile(errors, 0.99) <= 2 * np.quantile(jax_errors, 0.99) + 16 * unit
    assert errors.max() <= 2 * jax_errors.max() + 64 * unit


# ------------------------------------------------------- functions that are operators or formulas

WRITTEN = {
    "erf": (lax.erf, scipy.special.erf, LINE),
    "erfc": (lax.erfc, np.vectorize(math.erfc), LINE[LINE < 9.1], 4, 8),
    # Near 1, log(1 - x^2) cancels, in JAX as well.
    "erf_inv": (lax.erf_inv, scipy.special.erfinv, SINES, 64, 2**20),
    "cbrt": (lax.cbrt, np.cbrt, LINE),
    "expm1": (lax.expm1, np.expm1, LINE, 6, 6),
    "log1p": (lax.log1p, np.log1p, np.abs(LINE), 4, 4),
    "sinh": (lax.sinh, np.sinh, LINE, 4, 6),
    "cosh": (lax.cosh, np.cosh, LINE, 4, 6),
    "asinh": (lax.asinh, np.arcsinh, LINE),
    "acosh": (lax.acosh, np.arccosh, 1 + np.abs(LINE)),
    "atanh": (lax.atanh, np.arctanh, SINES),
    "asin": (lax.asin, np.arcsin, SINES),
    "acos": (lax.acos, np.arccos, SINES),
    "atan": (lax.atan, np.arctan, LINE),
    "logistic": (lax.logistic, scipy.special.expit, LINE, 2, 4),
}
"""Functions with their truth, inputs, and the measured errors in units in the last place: one of
float32 and one of float64, by default three. The unit of ``logistic`` is that of 1."""


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_function_is_within_its_measured_error(name, dtype):
    fn, truth, numbers, *limits = WRITTEN[name]
    x = numbers.astype(dtype)
    with jax.enable_x64(dtype == np.float64):
        actual = convert_and_run(fn, [x])
    expected = truth(x.astype(np.float64)).astype(dtype)
    magnitude = 1.0 if name == "logistic" and dtype == np.float32 else 0.0
    worst = count_units(actual, expected, replace(FLUSHED, magnitude=magnitude)).max()
    assert worst <= (limits or (3, 3))[dtype == np.float64]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cube_roots_at_edges_are_exact(dtype):
    """XLA's cube roots are less exact than numpy's for some numbers, but those of files are not."""
    x = edges(dtype)
    with jax.enable_x64(dtype == np.float64):
        actual = convert_and_run(lax.cbrt, [x])
    expected = np.cbrt(x.astype(np.float64)).astype(dtype)
    assert actual.dtype == dtype and count_units(actual, expected, FLUSHED).max() <= 4


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_zeros_of_gamma_functions(name, dtype):
    """Near their zeros, where terms of their formulas cancel, the results have full precision.

    XLA's are up to 67 units in the last place of 1 off in float32.
    """
    fn, truth = getattr(lax, name), {"lgamma": "gammaln", "digamma": "digamma"}[name]
    x = np.concatenate([RNG.uniform(-9, 9, 4000), RNG.uniform(0.5, 3, 4000)]).astype(dtype)
    actual = convert_and_run(fn, [x])
    expected = getattr(scipy.special, truth)(x.astype(np.float64)).astype(dtype)
    assert count_units(actual, expected, FLUSHED).max() <= 1
