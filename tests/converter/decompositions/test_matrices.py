"""Matrix decompositions and functions of them are as accurate as JAX, measured by numpy in float64.

Eigenvectors and singular vectors are unique up to their signs. They are judged by the matrix that
they reconstruct and by their orthonormality.
"""

from functools import partial

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
import scipy.linalg
from jax import lax

import converter
from converter.verify.sessions import run
from tests.programs import decompositions

RNG = np.random.default_rng(11)
FACTOR = 10
"""The error of a file may be this many times the error of JAX."""


def normal(*shape):
    return RNG.standard_normal(shape)


def positive(*shape):
    x = normal(*shape)
    return x @ x.mT + np.eye(shape[-1])


def low_rank(height, width, rank):
    return normal(height, rank) @ normal(rank, width)


def typed(args, dtype):
    """Return the arrays with floats cast to `dtype`; integers stay as they are."""
    return [x.astype(dtype) if x.dtype.kind == "f" else x for x in args]


def run_both(fn, args, opset):
    """Return the outputs of the file and of JAX, which must have equal shapes and dtypes."""
    with jax.enable_x64(args[0].dtype == np.float64):
        export = converter.to_onnx(fn, list(args), opset=opset)
        expected = [np.asarray(y) for y in jax.tree.leaves(jax.jit(fn)(*args))]
    actual = list(run(export, list(args)).values())
    assert [(y.shape, y.dtype) for y in actual] == [(y.shape, y.dtype) for y in expected]
    return actual, expected


def distance(actual, truth):
    """Return the largest error relative to the largest element; NaN must be at equal positions."""
    actual, truth = np.asarray(actual, np.float64), np.asarray(truth, np.float64)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(truth))
    scale = np.abs(truth).max(initial=0, where=np.isfinite(truth)) or 1.0
    return np.abs(np.where(actual == truth, 0, actual - truth) / scale).max(initial=0)


def assert_as_accurate(fn, truth, args, opset=23, measure=lambda args, *ys: ys):
    """Assert that the measured outputs of the file are about as near the truth as those of JAX.

    ``measure(args, *outputs)`` returns arrays that are unique, in float64; ``truth(*args)`` returns
    what they should be. Integers must be equal to the truth.
    """
    outputs, exact = run_both(fn, args, opset), typed(args, np.float64)
    exact_values = truth(*exact)
    exact_values = exact_values if isinstance(exact_values, (tuple, list)) else [exact_values]
    measured, reference = ([*measure(exact, *typed(ys, np.float64))] for ys in outputs)
    eps = np.finfo(args[0].dtype).eps
    for actual, jax_value, exact_value in zip(measured, reference, exact_values, strict=True):
        if np.asarray(jax_value).dtype.kind in "biu":
            np.testing.assert_array_equal(actual, exact_value)
        else:
            assert distance(actual, exact_value) <= FACTOR * max(
                distance(jax_value, exact_value), eps
            )


# ------------------------------------------------------------------------------ unique results


@partial(np.vectorize, signature="(m,n)->(m,n),(k),(m)")
def _np_lu(x):
    lu, pivots = scipy.linalg.lu_factor(x)
    order = np.arange(len(x))
    for i, pivot in enumerate(pivots):
        order[[i, pivot]] = order[[pivot, i]]
    return lu, pivots, order


@partial(np.vectorize, signature="(n),(n),(n),(n,k)->(n,k)")
def _solve_tridiagonal(low, mid, up, b):
    return np.linalg.solve(np.diag(mid) + np.diag(low[1:], -1) + np.diag(up[:-1], 1), b)


A, B, TALL, WIDE = normal(2, 7, 7), normal(2, 7, 3), normal(9, 5), normal(4, 6)
PASCAL = scipy.linalg.pascal(5).astype(float)
ANSWERS = {
    "cholesky": (jnp.linalg.cholesky, np.linalg.cholesky, [positive(2, 7, 7)]),
    "cholesky, written out": (jnp.linalg.cholesky, np.linalg.cholesky, [positive(3, 3)]),
    "cholesky update": (
        lax.linalg.cholesky_update,
        lambda r, v: np.linalg.cholesky(r.T @ r + np.outer(v, v)).T,
        [np.linalg.cholesky(positive(6, 6)).T, normal(6)],
    ),
    "lu": (lax.linalg.lu, _np_lu, [A]),
    "lu, written out": (lax.linalg.lu, _np_lu, [normal(4, 6)]),
    "lu, tall": (lax.linalg.lu, _np_lu, [normal(2, 9, 5)]),
    "solve": (jnp.linalg.solve, np.linalg.solve, [A, B]),
    "solve, written out": (jnp.linalg.solve, np.linalg.solve, [normal(2, 3, 3), normal(2, 3, 2)]),
    "solve for a vector": (jnp.linalg.solve, np.linalg.solve, [A[0], B[0, :, 0]]),
    "inv": (jnp.linalg.inv, np.linalg.inv, [A]),
    "inv, ill-conditioned": (jnp.linalg.inv, lambda x: scipy.linalg.invpascal(5), [PASCAL]),
    "det": (jnp.linalg.det, np.linalg.det, [A]),
    "slogdet": (jnp.linalg.slogdet, np.linalg.slogdet, [A]),
    "expm": (jsl.expm, scipy.linalg.expm, [A]),
    "lu_solve": (
        lambda a, b: jsl.lu_solve(jsl.lu_factor(a), b, trans=1),
        lambda a, b: np.linalg.solve(a.T, b),
        [A[0], B[0]],
    ),
    "tridiagonal": (
        lax.linalg.tridiagonal_solve,
        _solve_tridiagonal,
        [*normal(3, 2, 8), normal(2, 8, 3)],
    ),
    "qr": (jnp.linalg.qr, np.linalg.qr, [normal(2, 9, 5)]),
    "qr, wide": (jnp.linalg.qr, np.linalg.qr, [WIDE]),
    **{
        f"qr, {mode}": (partial(jnp.linalg.qr, mode=mode), partial(np.linalg.qr, mode=mode), [TALL])
        for mode in ("complete", "raw")
    },
    "qr, pivots": (partial(jsl.qr, pivoting=True), partial(scipy.linalg.qr, pivoting=True), [TALL]),
    "lstsq": (
        lambda a, b: jnp.linalg.lstsq(a, b)[0],
        lambda a, b: np.linalg.lstsq(a, b)[0],
        [TALL, normal(9, 2)],
    ),
    "pinv": (jnp.linalg.pinv, np.linalg.pinv, [np.stack([TALL, TALL[::-1]])]),
    "svdvals": (jnp.linalg.svdvals, np.linalg.svdvals, [normal(2, 6, 8)]),
    "eigvalsh": (jnp.linalg.eigvalsh, np.linalg.eigvalsh, [positive(2, 7, 7)]),
}


def _measure_eigen(args, vectors, values):
    """Return the eigenvalues, the residual x v - v λ, and the products of the vectors."""
    x = (args[0] + args[0].mT) / 2
    return values, x @ vectors - vectors * values[..., None, :], vectors.mT @ vectors


def _eigen_truth(x):
    eye = np.broadcast_to(np.eye(x.shape[-1]), x.shape)
    return np.linalg.eigvalsh((x + x.mT) / 2), np.zeros_like(x), eye


def _measure_svd(args, left, values, right):
    """Return the singular values, the reconstructed matrix, and the products of the vectors."""
    count = values.shape[-1]
    product = left[..., :count] * values[..., None, :] @ right[..., :count, :]
    return values, product, left.mT @ left, right @ right.mT


def _singular_truth(x, thin=False):
    height, width = x.shape[-2:]
    sizes = (min(height, width),) * 2 if thin else (height, width)
    eyes = [np.broadcast_to(np.eye(n), (*x.shape[:-2], n, n)) for n in sizes]
    return np.linalg.svdvals(x), x, *eyes


def _thin(x):
    return jnp.linalg.svd(x, full_matrices=False)


HILBERT = scipy.linalg.hilbert(8)
EIGEN = (lambda x: jnp.linalg.eigh(x)[::-1], _eigen_truth, _measure_eigen)
SINGULAR = (jnp.linalg.svd, _singular_truth, _measure_svd)
SPECTRA = {
    "eigh": (*EIGEN, [normal(2, 7, 7)]),
    "eigh, one": (*EIGEN, [normal(1, 1)]),
    "eigh, low rank": (*EIGEN, [low_rank(8, 2, 2) @ np.ones((2, 8))]),
    "eigh, ill-conditioned": (*EIGEN, [HILBERT]),
    "eigh, out of the range of squares": (*EIGEN, [normal(5, 5) * 1e30]),
    "eigh, zero": (*EIGEN, [np.zeros((5, 5))]),
    "svd, tall": (*SINGULAR, [normal(2, 8, 5)]),
    "svd, wide": (*SINGULAR, [normal(5, 9)]),
    "svd, low rank": (*SINGULAR, [low_rank(9, 6, 2)]),
    "svd, ill-conditioned": (*SINGULAR, [HILBERT]),
    "svd, columns of rounding": (*SINGULAR, [np.ones((20, 20)) + np.diag(np.arange(20) % 2)]),
    "svd, zero": (*SINGULAR, [np.zeros((6, 5))]),
    "svd, thin": (_thin, partial(_singular_truth, thin=True), _measure_svd, [normal(2, 8, 5)]),
}
USUAL = {
    *("cholesky, written out", "lu, written out", "solve, written out", "qr, wide", "tridiagonal"),
    *("eigh", "eigh, low rank", "svd, columns of rounding", "svd, wide", "svd, thin"),
}
"""Rows that the default tier runs; the full tier runs all."""


def by_name(table):
    """Parametrize a test with the names of a table; rows not in `USUAL` are in the full tier."""
    rows = [pytest.param(n, marks=() if n in USUAL else pytest.mark.full) for n in table]
    return pytest.mark.parametrize("name", rows)


@by_name(ANSWERS)
def test_unique_results_are_as_accurate_as_jax(name):
    fn, truth, args = ANSWERS[name]
    assert_as_accurate(fn, truth, typed(args, np.float32))


@by_name(SPECTRA)
def test_spectra_are_as_accurate_as_jax(name):
    fn, truth, measure, args = SPECTRA[name]
    assert_as_accurate(fn, truth, typed(args, np.float32), measure=measure)


@pytest.mark.full
@pytest.mark.parametrize("name", ANSWERS | SPECTRA)
@pytest.mark.parametrize(("dtype", "opset"), [(np.float32, 18), (np.float64, 18), (np.float64, 23)])
def test_other_dtypes_and_opsets_are_as_accurate_as_jax(name, dtype, opset):
    fn, truth, *measure, args = (ANSWERS | SPECTRA)[name]
    assert_as_accurate(fn, truth, typed(args, dtype), opset, *measure)


@pytest.mark.each()
@pytest.mark.parametrize(("name", "shape"), [("eigvalsh", (128, 128)), ("svdvals", (256, 256))])
def test_large_matrices_are_as_accurate_as_jax(name, shape):
    fn, truth, _ = ANSWERS[name]
    assert_as_accurate(fn, truth, typed([positive(*shape)], np.float32))


SIDES = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")


@pytest.mark.each()
@pytest.mark.parametrize("code", range(32))
def test_triangular_solve_ignores_the_other_triangle(code):
    """The unused triangle is never read: it holds NaN, and so does the diagonal if it is unit."""
    options = {side: bool(code >> bit & 1) for bit, side in enumerate(SIDES)}
    triangle, diagonal = np.tri(6, dtype=bool), np.eye(6, dtype=bool)
    a = np.where(triangle if options["lower"] else triangle.T, normal(2, 6, 6), np.nan)
    a = np.where(diagonal, np.nan if options["unit_diagonal"] else np.abs(a) + 1, a)
    b = normal(*((2, 6, 3) if options["left_side"] else (2, 3, 6)))

    def truth(a, b):
        a = np.nan_to_num(np.where(diagonal & options["unit_diagonal"], 1, a), nan=0)
        a = a.mT if options["transpose_a"] else a
        return np.linalg.solve(a, b) if options["left_side"] else np.linalg.solve(a.mT, b.mT).mT

    solve = partial(lax.linalg.triangular_solve, **options)
    assert_as_accurate(solve, truth, typed([a, b], np.float32))


# ------------------------------------------------------------------------------------------- sizes


@pytest.mark.each()
@pytest.mark.parametrize("fn", [jnp.linalg.inv, jnp.linalg.qr, jnp.linalg.eigvalsh])
def test_file_size_is_independent_of_the_matrix_size(fn):
    small, large = (converter.to_onnx(fn, [(n, n)]).report.nodes for n in (96, 256))
    assert large <= small < 200  # the smaller one has a short loop of blocks, which is unrolled


def hard_symmetric_matrices(size):
    """Yield symmetric matrices that are hard for Jacobi's method (ties, clusters, wide spectra)."""
    q, i = np.linalg.qr(normal(size, size))[0], np.arange(size)
    path, random = np.eye(size, k=1), normal(size, size)
    for values in (np.where(i < size // 2, 1, 2), i < size // 2, 10.0 ** np.linspace(-6, 6, size)):
        yield (q * values) @ q.T
    yield from (random + random.T, np.ones((size, size)), 1 / (i[:, None] + i + 1))
    yield from (path + path.T, np.roll(np.eye(size), 1, 0) + np.roll(np.eye(size), -1, 0))
    yield from (np.eye(size)[::-1], 0.9 ** np.abs(i[:, None] - i), np.minimum(i[:, None], i) + 1)
    yield from (
        np.exp(-((i[:, None] - i) ** 2) / 50),
        np.diag(np.abs(i - size / 2)) + path + path.T,
    )
    yield from (np.eye(size) + 1e-5 * (random + random.T), np.sign(random) + np.sign(random).T)


@pytest.mark.full
@pytest.mark.parametrize("size", [2, 3, 7, 32, 100])
def test_simultaneous_rotations_converge(size):
    """Jacobi's method with simultaneous rotations converges, which is not proved anywhere."""
    export = converter.to_onnx(jnp.linalg.eigh, [(size, size)])
    for x in hard_symmetric_matrices(size):
        x = x.astype(np.float32)
        values, vectors = (y.astype(np.float64) for y in run(export, [x]).values())
        exact_values, limit = np.linalg.eigvalsh(x.astype(np.float64)), 3e-6 * size**0.5
        assert distance(values, exact_values) < limit
        assert np.abs(x @ vectors - vectors * values).max() < limit * np.abs(exact_values).max()
        assert np.abs(vectors.T @ vectors - np.eye(size)).max() < limit


def test_scaled_matmul_matches_its_definition():
    """JAX runs `scaled_matmul` on NVIDIA's devices only; it is compared with its definition."""
    inputs = typed(
        [normal(2, 3, 64), normal(2, 5, 64), normal(2, 3, 2), normal(2, 5, 2)], np.float32
    )
    (actual,) = run(converter.to_onnx(jax.nn.scaled_matmul, inputs), inputs).values()
    a, b, a_scale, b_scale = typed(inputs, np.float64)
    a, b = a * np.repeat(a_scale, 32, 2), b * np.repeat(b_scale, 32, 2)
    np.testing.assert_allclose(actual, np.einsum("bmk,bnk->bmn", a, b), rtol=1e-5, atol=1e-4)


def test_triangles_with_zero_pivots_have_all_kinds_of_results():
    """The rows of the table compare numbers, both infinities and NaN."""
    results = np.concatenate([np.ravel(case.call(*case.specs)) for case in decompositions.SINGULAR])
    assert np.isnan(results).any() and {1.0, np.inf, -np.inf} <= {*results.tolist()}
