"""Bitcasts, by arithmetic before opset 26, and neighbouring floats, compared with numpy."""

import jax
import numpy as np
import pytest
from jax import lax

import converter
from converter.verify.sessions import run

RNG = np.random.default_rng(11)
FORMATS = {np.float16: "16", np.float32: "32", np.float64: "64"}


def patterns(bits: int) -> np.ndarray:
    """Return unsigned integers of this width: all of 16 bits, otherwise a selection.

    The selection has those around every power of two and random ones.
    """
    if bits == 16:
        return np.arange(1 << 16).astype(np.uint16)
    dtype = np.dtype(f"uint{bits}")
    exponent, fraction = (12, 52) if bits == 64 else (9, 23)
    heads = np.arange(1 << exponent, dtype=np.uint64) << np.uint64(fraction)
    neighbours = (heads[:, None] + np.array([0, 1, 2**64 - 1, 2**22 + 5], np.uint64)).ravel()
    random_bits = RNG.integers(0, 2**64, 4000, np.uint64)
    return np.concatenate([neighbours, random_bits]).astype(dtype)


def bitcast(x, dtype):
    export = converter.to_onnx(lambda x: lax.bitcast_convert_type(x, dtype), [x])
    (actual,) = run(export, [x]).values()
    return actual


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("kind", ["int", "uint"])
def test_bitcasts_keep_all_bits(dtype, kind):
    """All bits agree with numpy's, except that a NaN may have other bits."""
    name = kind + FORMATS[dtype]
    with jax.enable_x64(dtype == np.float64):
        bits = patterns(int(FORMATS[dtype])).view(name)
        floats = bits.view(dtype)
        decoded, encoded = bitcast(bits, dtype), bitcast(floats, name)
    np.testing.assert_array_equal(np.isnan(decoded), np.isnan(floats))
    is_number = ~np.isnan(floats)
    np.testing.assert_array_equal(decoded.view(name)[is_number], bits[is_number])
    np.testing.assert_array_equal(encoded[is_number], bits[is_number])
    assert np.isnan(encoded.view(dtype)[~is_number]).all()


@pytest.mark.parametrize("opset", [17, 26])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_nextafter_agrees_with_numpy(dtype, opset):
    x = patterns(8 * np.dtype(dtype).itemsize).view(dtype)
    x = x[:: max(1, x.size // 9000)]
    y = RNG.permutation(x)
    y[::5] = x[::5]
    export = converter.to_onnx(lax.nextafter, [x, y], opset=opset)
    (actual,) = run(export, [x, y]).values()
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(actual, np.nextafter(x, y))
