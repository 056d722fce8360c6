"""Decompositions of complex matrices: they multiply to what they are of, and are JAX's own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from jax import lax

import converter
from tests.converter.complex.draws import joined, normal

FAR = 3e-6
"""Of the largest number; JAX's own results for the same were up to 1.6e-6 away."""

SQUARE, TALL, WIDE = normal(2, 5, 5), normal(2, 5, 3), normal(2, 3, 5)
POSITIVE = SQUARE @ np.conj(SQUARE.mT)
TWICE = np.diag(np.array([1, 2, 2, 2, 3], np.complex64))
UNITARY = np.linalg.qr(SQUARE[0])[0]
DEGENERATE = (UNITARY @ TWICE @ np.conj(UNITARY.T)).astype(np.complex64)


def run(fn, *inputs):
    """What the file gives, in the place of what JAX does."""
    shapes = jax.eval_shape(fn, *inputs)
    leaves, tree = jax.tree.flatten(shapes)
    found = converter.run(converter.to_onnx(fn, list(inputs)), inputs).values()
    typed = [joined(x) if jnp.iscomplexobj(s) else x for x, s in zip(found, leaves, strict=True)]
    return jax.tree.unflatten(tree, typed)


def assert_same(fn, *inputs):
    wanted = jax.jit(fn)(*inputs)
    for got, right in zip(*map(jax.tree.leaves, (run(fn, *inputs), wanted)), strict=True):
        assert np.array_equal(np.isnan(got), np.isnan(right))
        limit = FAR * np.nanmax(np.abs(right), initial=0)
        assert np.nan_to_num(np.abs(got - right)).max() <= limit


@pytest.mark.full
def test_lu_and_solutions():
    def fn(a, b):
        return lax.linalg.lu(a), lax.linalg.lu(b), jnp.linalg.det(a), jnp.linalg.solve(a, b)

    assert_same(fn, SQUARE, TALL)


@pytest.mark.full
def test_cholesky_and_triangles():
    def fn(h, b):
        how = [(False, False), (True, False), (True, True)]
        solved = [
            lax.linalg.triangular_solve(h, b, left_side=True, transpose_a=t, conjugate_a=c)
            for t, c in how
        ]
        bands = (h[:, 0], h[:, 1], h[:, 2])
        return (
            *(jnp.linalg.cholesky(h), jnp.linalg.cholesky(-h), solved),
            lax.linalg.tridiagonal_solve(*bands, b),
        )

    assert_same(fn, POSITIVE, TALL)


@pytest.mark.full
def test_qr():
    def fn(a, b, w):
        return jnp.linalg.qr(a), jnp.linalg.qr(b, mode="complete"), jnp.linalg.qr(w)

    assert_same(fn, SQUARE, TALL, WIDE)
    assert_same(lambda b: jsl.qr(b, pivoting=True), TALL[0])


@pytest.mark.full
def test_eigenvalues_of_hermitian_matrices():
    """Degenerate ones too, whose vectors nothing determines."""
    both = np.stack([POSITIVE[0], DEGENERATE])
    values, vectors = run(jnp.linalg.eigh, both)
    truth = np.linalg.eigvalsh(both.astype(np.complex128))
    assert np.abs(values - truth).max() < FAR * np.abs(truth).max()
    adjoint = np.conj(vectors.mT)
    assert np.abs(adjoint @ vectors - np.eye(5)).max() < FAR
    assert np.abs((vectors * values[:, None, :]) @ adjoint - both).max() < FAR * truth.max()


@pytest.mark.hunt
def test_singular_values():
    (left, values, right), inverse = run(
        lambda b: (jnp.linalg.svd(b, full_matrices=False), jnp.linalg.pinv(b)), WIDE
    )
    wide = WIDE.astype(np.complex128)
    assert np.allclose(values, np.linalg.svd(wide, compute_uv=False), rtol=FAR)
    assert np.abs((left * values[:, None, :]) @ right - wide).max() < FAR * values.max()
    assert np.abs(inverse - np.linalg.pinv(wide)).max() < FAR * np.abs(inverse).max()
