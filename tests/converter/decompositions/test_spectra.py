"""Eigenvalues and singular values; the vectors up to their signs, by what they make."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.converter.decompositions.accuracy import assert_as_accurate, both
from tests.converter.decompositions.draws import hilbert, low_rank, normal, typed


def _eigen(args, vectors, values):
    """The eigenvalues, what the vectors miss, and how far they are from orthonormal."""
    (x,) = args
    x = (x + x.mT) / 2
    return values, x @ vectors - vectors * values[..., None, :], vectors.mT @ vectors


def _eigen_truth(x):
    x = (x + x.mT) / 2
    eye = np.broadcast_to(np.eye(x.shape[-1]), x.shape)
    return np.linalg.eigvalsh(x), np.zeros_like(x), eye


def _singular(args, left, values, right):
    """The singular values, what they make, and how far the vectors are from orthonormal."""
    count = values.shape[-1]
    made = left[..., :count] * values[..., None, :] @ right[..., :count, :]
    return values, made, left.mT @ left, right @ right.mT


def _singular_truth(full):
    def truth(x):
        height, width = x.shape[-2:]
        sizes = (height, width) if full else (min(height, width),) * 2
        eyes = [np.broadcast_to(np.eye(n), (*x.shape[:-2], n, n)) for n in sizes]
        return np.linalg.svdvals(x), x, *eyes

    return truth


SPECTRA = {
    "random": normal(2, 7, 7),
    "one": normal(1, 1),
    "low rank": low_rank(8, 2, 2) @ np.ones((2, 8)),
    "ill-conditioned": hilbert(8),
    "out of the range of squares": normal(5, 5) * 1e30,
    "zero": np.zeros((5, 5)),
}
MATRICES = {
    "tall": normal(2, 8, 5),
    "wide": normal(5, 9),
    "low rank": low_rank(9, 6, 2),
    "ill-conditioned": hilbert(8),
    "zero": np.zeros((6, 5)),
}
USUAL = {"random", "low rank", "tall", "wide"}


def _in_tiers(table):
    return [n if n in USUAL else pytest.param(n, marks=pytest.mark.full) for n in table]


def _check_spectrum(name, dtype=np.float32, opset=23):
    args = typed([SPECTRA[name]], dtype)
    assert_as_accurate(lambda x: jnp.linalg.eigh(x)[::-1], _eigen_truth, args, opset, _eigen)


def _check_svd(name, full=False, dtype=np.float32, opset=23):
    args = typed([MATRICES[name]], dtype)
    assert_as_accurate(
        lambda x: jnp.linalg.svd(x, full_matrices=full),
        _singular_truth(full),
        args,
        opset,
        _singular,
    )


@pytest.mark.parametrize("name", _in_tiers(SPECTRA))
def test_eigh(name):
    _check_spectrum(name)


@pytest.mark.parametrize("name", _in_tiers(MATRICES))
def test_svd(name):
    _check_svd(name)


@pytest.mark.full
@pytest.mark.parametrize(("dtype", "opset"), [(np.float32, 18), (np.float64, 23)])
def test_spectra_elsewhere(dtype, opset):
    for name in SPECTRA:
        _check_spectrum(name, dtype, opset)
    for name in MATRICES:
        _check_svd(name, True, dtype, opset)


def test_nothing_at_all():
    """Of a matrix without columns there are left vectors, if all are wanted."""

    def fn(x):
        return *jnp.linalg.svd(x), *jnp.linalg.qr(x, mode="complete"), jnp.linalg.eigh(x.mT @ x)

    ours, theirs = both(fn, [np.zeros((2, 3, 0), np.float32)], 23)
    for actual, wanted in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(actual, wanted)
