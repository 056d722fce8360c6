"""Decompositions of complex matrices: they multiply to what they are of, and are JAX's own."""

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
def test_decompositions_and_solutions():
    def fn(a, h, b, w):
        how = [(False, False), (True, False), (True, True)]
        return (
            *(lax.linalg.lu(a), jnp.linalg.det(a), jnp.linalg.solve(a, b)),
            *(jnp.linalg.cholesky(h), jnp.linalg.cholesky(-h)),
            *(
                lax.linalg.triangular_solve(h, b, left_side=True, transpose_a=t, conjugate_a=c)
                for t, c in how
            ),
            lax.linalg.tridiagonal_solve(h[:, 0], h[:, 1], h[:, 2], b),
            *(jnp.linalg.qr(b, mode="complete"), jnp.linalg.qr(w)),
        )

    assert_same(fn, SQUARE, POSITIVE, TALL, WIDE)
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
