"""Functions of complex numbers: as near to the truth as JAX, and on its sides of branch cuts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from tests.converter.complex.draws import axes, joined, normal, plane

UNITS = 4
"""How many roundings a result may be off, as a vector in the plane; the worst seen was 2.6."""

TRUTH = {
    **{
        name: getattr(np, name)
        for name in (
            *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "conj", "cos", "cosh"),
            *("exp", "expm1", "imag", "log", "log1p", "real", "sign", "sin", "sinh", "sqrt"),
            *("square", "tan", "tanh"),
        )
    },
    "logistic": lambda z: 1 / (1 + np.exp(-z)),
    "neg": np.negative,
    "rsqrt": lambda z: 1 / np.sqrt(z),
}
FUNCTIONS = {name: getattr(lax, name) for name in TRUTH}
POWERS = (-3, -1, 0, 1, 2, 5)


def functions(z):
    return {name: fn(z) for name, fn in FUNCTIONS.items()}


def powers(z):
    return [lax.integer_pow(z, n) for n in POWERS]


def run(fn, *inputs):
    specs = [(("N",), x.dtype) for x in inputs]
    found = converter.run(converter.to_onnx(fn, specs), inputs)
    types = jax.tree.leaves(jax.eval_shape(fn, *inputs))
    pairs = zip(found.values(), types, strict=True)
    return [joined(x) if jnp.iscomplexobj(y) else x for x, y in pairs]


def units(got, truth):
    """Differences in roundings, where the truth is neither subnormal nor out of range."""
    size = np.abs(truth)
    inside = (size > 1e-37) & (size < 1e37)
    return (np.abs(got - truth)[inside] / size[inside] / 2**-23).max(initial=0)


def test_products_and_quotients():
    """Of the whole range of floats, numbers known to be real among them."""
    x, y = normal(60), normal(60)
    large, small = np.complex64(1e18) * x, np.complex64(1e-18) * x
    a, b, c, d, e = run(
        lambda x, y, large, small: (x * y, x / y, large / (1e12 * large), small / large, x / 4),
        *(x, y, large, small),
    )
    exact = [z.astype(np.complex128) for z in (x, y, large, small)]
    assert units(a, exact[0] * exact[1]) < UNITS
    assert units(b, exact[0] / exact[1]) < UNITS
    assert units(c, np.full(60, 1e-12)) < UNITS
    assert units(d, exact[3] / exact[2]) < UNITS
    assert np.array_equal(e, x / 4)


@pytest.mark.full
def test_every_function_is_near_the_truth():
    z = plane()
    got = run(functions, z)
    wide = z.astype(np.complex128)
    with np.errstate(all="ignore"):
        truth = {name: TRUTH[name](wide) for name in sorted(FUNCTIONS)}
        spread = dict.fromkeys(truth, 1.0)
        # Next to its poles the rounding of 1 + exp(-z) is what counts, in JAX as here.
        spread["logistic"] = 1 + np.abs(z * (1 - truth["logistic"]))
        for x, (name, right) in zip(got, truth.items(), strict=True):
            far = units(right + (x - right) / spread[name], right)
            assert far < UNITS, (name, far)
        modest = np.abs(z) > 1e-4
        for power, x in zip(POWERS, run(powers, z), strict=True):
            assert units(x[modest], wide[modest] ** power) < UNITS, power


CUT = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "log", "log1p", "rsqrt", "sqrt")


@pytest.mark.full
def test_branch_cuts_are_where_they_are_in_jax():
    def functions(z):
        return [FUNCTIONS[name](z) for name in CUT]

    z = axes()
    for name, x, y in zip(CUT, run(functions, z), functions(z), strict=True):
        limit = 4e-6 * np.maximum(np.abs(y), 1e-30)
        with np.errstate(invalid="ignore"):
            parts = [(np.real(x), np.real(y)), (np.imag(x), np.imag(y))]
            same = [(np.abs(a - b) <= limit) | (a == b) | ~np.isfinite(b) for a, b in parts]
        bad = ~(same[0] & same[1])
        assert not bad.any(), (name, z[bad], x[bad], np.asarray(y)[bad])
