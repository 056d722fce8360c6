"""Functions of complex numbers: as near to the truth as JAX, and on its sides of branch cuts.

Fourier transforms are of any size, and near numpy's in float64.
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
"""How many roundings a result may be off, as a vector in the plane; the worst seen was 2.6."""

WITHOUT = {
    "logistic": lambda z: 1 / (1 + np.exp(-z)),
    "neg": np.negative,
    "rsqrt": lambda z: z**-0.5,
}
"""What numpy has no function of that name for."""

TRUTH = {name: WITHOUT.get(name) or vars(np)[name] for name in FUNCTIONS}
CUT = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "log", "log1p", "rsqrt", "sqrt")
POWERS = (-3, -1, 0, 1, 2, 5)


def plane():
    """Points of all sizes, next to the unit circle, and next to where functions are singular."""
    sizes = np.array([1e-6, 1e-2, 0.3, 1, 1.5, 3, 10, 30])[:, None] * normal(8, 100)
    circle = np.exp(1j * RNG.uniform(-np.pi, np.pi, 100))
    near = np.array([0, 1, -1, 1j, -1j])[:, None] + 1e-4 * normal(5, 50)
    return np.concatenate([sizes.ravel(), circle, near.ravel()]).astype(np.complex64)


def axes():
    """Points on both axes, with zeros of both signs."""
    ends = np.array([0, 0.5, 1, 2, 100], np.float32)
    flat = [complex(s * a, z) for a in ends for s in (1.0, -1.0) for z in (0.0, -0.0)]
    return np.array([*flat, *(complex(z.imag, z.real) for z in flat)], np.complex64)


def run(fn, *inputs, opset=23):
    """What the file gives, both parts of a last axis of two as complex numbers again."""
    export = converter.to_onnx(fn, [(("N", *x.shape[1:]), x.dtype) for x in inputs], opset=opset)
    assert "DFT" not in export.report.histogram
    types = jax.tree.leaves(jax.eval_shape(fn, *inputs))
    pairs = zip(converter.run(export, inputs).values(), types, strict=True)
    return [x.view(y.dtype)[..., 0] if jnp.iscomplexobj(y) else x for x, y in pairs]


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


def test_every_function_is_near_the_truth():
    z = plane()
    got = run(lambda z: [fn(z) for fn in FUNCTIONS.values()], z)
    powers = run(lambda z: [lax.integer_pow(z, n) for n in POWERS], z)
    wide, modest = z.astype(np.complex128), np.abs(z) > 1e-4
    with np.errstate(all="ignore"):
        for x, (name, truth) in zip(got, TRUTH.items(), strict=True):
            right = truth(wide)
            # Next to its poles the rounding of 1 + exp(-z) is what counts, in JAX as here.
            spread = 1 + np.abs(z * (1 - right)) if name == "logistic" else 1.0
            far = units(right + (x - right) / spread, right)
            assert far < UNITS, (name, far)
        for power, x in zip(POWERS, powers, strict=True):
            assert units(x[modest], wide[modest] ** power) < UNITS, power


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


# -------------------------------------------------------------------------------------- transforms

SIZES = (1, 2, 3, 9, 60, 127, 254, 521, 768, 1000, 4096)
"""Among them one that is multiplied by a matrix, one that is cut in two, and a convolution with a
chirp."""

FAR = 1e-6
"""Of the largest number. JAX's own are up to 4e-7 off, ONNX Runtime's `DFT` 3e-4."""


def assert_near(transforms, z):
    """``transforms`` takes the module whose `fft` it calls, and complex numbers."""
    wanted = transforms(np, z.astype(np.complex128))
    found = run(lambda z: transforms(jnp, z), z, opset=17)
    for got, right in zip(found, wanted, strict=True):
        assert np.abs(got - right).max() / np.abs(right).max() < FAR


@pytest.mark.parametrize("size", SIZES)
def test_any_length(size):
    """Complex, real, and back; the imaginary ends of a half transform are not read."""

    def transforms(np, z):
        fft, half = np.fft, z[:, : size // 2 + 1]
        return (
            *(fft.fft(z), fft.ifft(z), fft.rfft(z.real), fft.fft(z.real + 0j)),
            fft.irfft(half, n=size),
        )

    assert_near(transforms, normal(3, size))


def test_a_length_has_to_be_known():
    with pytest.raises(converter.UnsupportedError, match=r"of lengths .*n.* have to be known"):
        converter.to_onnx(jnp.fft.fft, [((2, "n"), np.complex64)])
