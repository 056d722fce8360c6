"""Fourier transforms of any size, next to numpy's in float64."""

import jax.numpy as jnp
import numpy as np
import pytest

import converter
from tests.converter.complex.draws import joined, normal

SIZES = (1, 2, 3, 9, 60, 127, 254, 521, 768, 1000, 4096)
FAR = 1e-6
"""Of the largest number. JAX's own are up to 4e-7 off, ONNX Runtime's `DFT` 3e-4."""


def error(got, truth):
    got = joined(got) if np.iscomplexobj(truth) else got
    return np.abs(got - truth).max() / np.abs(truth).max()


def assert_near(fn, x, truth):
    export = converter.to_onnx(fn, [(("B", *x.shape[1:]), x.dtype)], opset=17)
    assert "DFT" not in export.report.histogram
    got = converter.run(export, [x])
    for result, right in zip(got.values(), truth(x.astype(f"c{2 * x.itemsize}")), strict=True):
        assert error(result, right) < FAR


@pytest.mark.parametrize(
    "size", [n if n == 60 else pytest.param(n, marks=pytest.mark.full) for n in SIZES]
)
def test_any_length(size):
    """Complex, real, and back; the imaginary ends of a half transform are not read."""
    half = size // 2 + 1

    def fn(z):
        real = z.real
        return (
            *(jnp.fft.fft(z), jnp.fft.ifft(z), jnp.fft.rfft(real), jnp.fft.fft(real + 0j)),
            jnp.fft.irfft(z[:, :half], n=size),
        )

    def truth(z):
        real, ends = z.real, z[:, :half].copy()
        ends[:, 0] = ends[:, 0].real
        ends[:, -1] = ends[:, -1].real if size % 2 == 0 else ends[:, -1]
        return (
            *(np.fft.fft(z), np.fft.ifft(z), np.fft.rfft(real), np.fft.fft(real)),
            np.fft.irfft(ends, n=size),
        )

    assert_near(fn, normal(3, size), truth)


@pytest.mark.full
def test_several_axes():
    """The whole of `jnp.fft`, at odd and even sizes, with padding, cutting and every norm."""
    z = normal(4, 6, 5)

    def fn(np):
        def transforms(z):
            real = z.real
            return (
                *(np.fft.fft(z, axis=1), np.fft.fft(z, n=7), np.fft.fft(z, n=3, axis=1)),
                *(np.fft.ifft(z, norm="ortho"), np.fft.fft(z, norm="forward"), np.fft.fft2(z)),
                *(np.fft.ifft2(z), np.fft.fftn(z, axes=(1, 2)), np.fft.ifftn(z, axes=(2, 1))),
                *(np.fft.rfft(real, axis=1), np.fft.rfft2(real), np.fft.rfftn(real, axes=(1, 2))),
                *(np.fft.irfft2(z), np.fft.irfftn(z, s=(6, 9), axes=(1, 2)), np.fft.hfft(z)),
                *(np.fft.ihfft(real), np.fft.irfft(z, n=8), np.fft.fftshift(z, axes=(1, 2))),
                np.fft.ifftshift(z, axes=(1,)),
            )

        return transforms

    assert_near(fn(jnp), z, fn(np))


def test_a_length_has_to_be_known():
    with pytest.raises(converter.Unsupported, match=r"of lengths .*n.* have to be known"):
        converter.to_onnx(jnp.fft.fft, [((2, "n"), np.complex64)])
