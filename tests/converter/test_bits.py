"""Bits reinterpreted, by arithmetic before opset 26; and the neighbours of floats."""

import jax
import numpy as np
import pytest
from jax import lax

import converter
from converter.verify.sessions import run

RNG = np.random.default_rng(11)
FORMATS = {np.float16: "16", np.float32: "32", np.float64: "64"}


def patterns(bits: int) -> np.ndarray:
    """All there are of 16 bits; else those around every power of two, and random ones."""
    if bits == 16:
        return np.arange(1 << 16).astype(np.uint16)
    kind = np.dtype(f"uint{bits}")
    exponent, fraction = (12, 52) if bits == 64 else (9, 23)
    heads = np.arange(1 << exponent, dtype=np.uint64) << np.uint64(fraction)
    around = (heads[:, None] + np.array([0, 1, 2**64 - 1, 2**22 + 5], np.uint64)).ravel()
    drawn = RNG.integers(0, 2**64, 4000, np.uint64)
    return np.concatenate([around, drawn]).astype(kind)


def reinterpreted(x, dtype):
    export = converter.to_onnx(lambda x: lax.bitcast_convert_type(x, dtype), [x])
    (got,) = run(export, [x]).values()
    return got


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("kind", ["int", "uint"])
def test_every_bit(dtype, kind):
    """Of NaN, that it is one."""
    name = kind + FORMATS[dtype]
    with jax.enable_x64(dtype == np.float64):
        bits = patterns(int(FORMATS[dtype])).view(name)
        floats = bits.view(dtype)
        back, there = reinterpreted(bits, dtype), reinterpreted(floats, name)
    np.testing.assert_array_equal(np.isnan(back), np.isnan(floats))
    numbers = ~np.isnan(floats)
    np.testing.assert_array_equal(back.view(name)[numbers], bits[numbers])
    np.testing.assert_array_equal(there[numbers], bits[numbers])
    assert np.isnan(there.view(dtype)[~numbers]).all()


@pytest.mark.parametrize("opset", [17, 26])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_neighbours(dtype, opset):
    x = patterns(8 * np.dtype(dtype).itemsize).view(dtype)
    x = x[:: max(1, x.size // 9000)]
    y = RNG.permutation(x)
    y[::5] = x[::5]
    export = converter.to_onnx(lax.nextafter, [x, y], opset=opset)
    (got,) = run(export, [x, y]).values()
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, np.nextafter(x, y))
