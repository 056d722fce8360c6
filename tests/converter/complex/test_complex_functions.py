"""Functions of complex numbers against numpy in double precision, and against JAX at branch cuts.

Fourier transforms of any length are compared with numpy's.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from tests.programs.complex_numbers import FUNCTIONS, normal

RNG = np.random.default_rng(13)
UNITS = 4
"""The largest error of a result, as a vector's length, in units of 2**-23; 2.6 was measured."""

REFERENCES = {
    "logistic": lambda z: 1 / (1 + np.exp(-z)),
    "neg": np.negative,
    "rsqrt": lambda z: z**-0.5,
}
"""Reference functions where numpy has none of the same name."""

TRUTH = {name: REFERENCES.get(name) or vars(np)[name] for name in FUNCTIONS}
WITH_BRANCH_CUTS = (
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "log",
    "log1p",
    "rsqrt",
    "sqrt",
)
POWERS = (-3, -1, 0, 1, 2, 5)


def plane():
    """Return points of all magnitudes, on the unit circle, and near singularities of functions."""
    sizes = np.array([1e-6, 1e-2, 0.3, 1, 1.5, 3, 10, 30])[:, None] * normal(8, 100)
    circle = np.exp(1j * RNG.uniform(-np.pi, np.pi, 100))
    near_singularities = np.array([0, 1, -1, 1j, -1j])[:, None] + 1e-4 * normal(5, 50)
    return np.concatenate([sizes.ravel(), circle, near_singularities.ravel()]).astype(np.complex64)


def axes():
    """Return points on both axes, with zeros of both signs."""
    ends = np.array([0, 0.5, 1, 2, 100], np.float32)
    flat = [complex(s * a, z) for a in ends for s in (1.0, -1.0) for z in (0.0, -0.0)]
    return np.array([*flat, *(complex(z.imag, z.real) for z in flat)], np.complex64)


def convert_and_run(fn, *inputs, opset=23):
    """Convert and run a function. Complex outputs are viewed as complex numbers again."""
    export = converter.to_onnx(fn, [(("N", *x.shape[1:]), x.dtype) for x in inputs], opset=opset)
    assert "DFT" not in export.report.histogram
    types = jax.tree.leaves(jax.eval_shape(fn, *inputs))
    pairs = zip(converter.run(export, inputs).values(), types, strict=True)
    return [x.view(y.dtype)[..., 0] if jnp.iscomplexobj(y) else x for x, y in pairs]


def error_in_units(actual, truth):
    """Return the largest error in units of 2**-23, of results between 1e-37 and 1e37."""
    size = np.abs(truth)
    inside = (size > 1e-37) & (size < 1e37)
    return (np.abs(actual - truth)[inside] / size[inside] / 2**-23).max(initial=0)


def test_products_and_quotients_are_precise():
    """Products and quotients are precise in the full range of floats, also with real operands."""
    x, y = normal(60), normal(60)
    large, small = np.complex64(1e18) * x, np.complex64(1e-18) * x
    a, b, c, d, e = convert_and_run(
        lambda x, y, large, small: (x * y, x / y, large / (1e12 * large), small / large, x / 4),
        *(x, y, large, small),
    )
    exact = [z.astype(np.complex128) for z in (x, y, large, small)]
    assert error_in_units(a, exact[0] * exact[1]) < UNITS
    assert error_in_units(b, exact[0] / exact[1]) < UNITS
    assert error_in_units(c, np.full(60, 1e-12)) < UNITS
    assert error_in_units(d, exact[3] / exact[2]) < UNITS
    assert np.array_equal(e, x / 4)


def test_every_function_is_near_the_truth():
    z = plane()
    actual = convert_and_run(lambda z: [fn(z) for fn in FUNCTIONS.values()], z)
    powers = convert_and_run(lambda z: [lax.integer_pow(z, n) for n in POWERS], z)
    exact, modest = z.astype(np.complex128), np.abs(z) > 1e-4
    with np.errstate(all="ignore"):
        for x, (name, truth) in zip(actual, TRUTH.items(), strict=True):
            expected = truth(exact)
            # Near its poles, the error is that of 1 + exp(-z), in JAX as well.
            condition = 1 + np.abs(z * (1 - expected)) if name == "logistic" else 1.0
            error = error_in_units(expected + (x - expected) / condition, expected)
            assert error < UNITS, (name, error)
        for power, x in zip(POWERS, powers, strict=True):
            assert error_in_units(x[modest], exact[modest] ** power) < UNITS, power


def test_branch_cuts_are_where_they_are_in_jax():
    def functions(z):
        return [FUNCTIONS[name](z) for name in WITH_BRANCH_CUTS]

    z = axes()
    for name, x, y in zip(
        WITH_BRANCH_CUTS, convert_and_run(functions, z), functions(z), strict=True
    ):
        limit = 4e-6 * np.maximum(np.abs(y), 1e-30)
        with np.errstate(invalid="ignore"):
            parts = [(np.real(x), np.real(y)), (np.imag(x), np.imag(y))]
            same = [(np.abs(a - b) <= limit) | (a == b) | ~np.isfinite(b) for a, b in parts]
        bad = ~(same[0] & same[1])
        assert not bad.any(), (name, z[bad], x[bad], np.asarray(y)[bad])


# -------------------------------------------------------------------------------------- transforms

SIZES = (1, 2, 3, 9, 60, 127, 254, 521, 768, 1000, 4096)
"""Lengths for each algorithm: a product with a matrix, a split into two factors, and a convolution
with a chirp."""

LIMIT = 1e-6
"""Limit relative to the largest number. JAX has errors up to 4e-7, ONNX Runtime's `DFT` 3e-4."""


def assert_near(transforms, z):
    """Assert that ``transforms(module, z)``, which calls `module.fft`, matches numpy's."""
    expected = transforms(np, z.astype(np.complex128))
    outputs = convert_and_run(lambda z: transforms(jnp, z), z, opset=17)
    for actual, reference in zip(outputs, expected, strict=True):
        assert np.abs(actual - reference).max() / np.abs(reference).max() < LIMIT


@pytest.mark.parametrize("size", SIZES)
def test_transforms_of_any_length_match_numpy(size):
    """Complex, real and inverse transforms match; `irfft` ignores imaginary parts at its ends."""

    def transforms(np, z):
        fft, half = np.fft, z[:, : size // 2 + 1]
        return (
            *(fft.fft(z), fft.ifft(z), fft.rfft(z.real), fft.fft(z.real + 0j)),
            fft.irfft(half, n=size),
        )

    assert_near(transforms, normal(3, size))


def test_transform_length_must_be_known():
    with pytest.raises(converter.UnsupportedError, match=r"of lengths .*n.* have to be known"):
        converter.to_onnx(jnp.fft.fft, [((2, "n"), np.complex64)])
