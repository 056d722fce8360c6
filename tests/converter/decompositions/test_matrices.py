"""Decompositions of matrices and what is made of them: as accurate as JAX, by numpy in float64.

Eigenvectors and singular vectors are known up to their signs, and are judged by what they make.
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

RNG = np.random.default_rng(11)
FACTOR = 10
"""A file may be so many times as far from the truth as JAX is."""


def normal(*shape):
    return RNG.standard_normal(shape)


def positive(*shape):
    x = normal(*shape)
    return x @ x.mT + np.eye(shape[-1])


def low_rank(height, width, rank):
    return normal(height, rank) @ normal(rank, width)


def typed(args, dtype):
    return [x.astype(dtype) if x.dtype.kind == "f" else x for x in args]


def both(fn, args, opset):
    """The outputs of the file, and JAX's, of the same types."""
    with jax.enable_x64(args[0].dtype == np.float64):
        export = converter.to_onnx(fn, list(args), opset=opset)
        theirs = [np.asarray(y) for y in jax.tree.leaves(jax.jit(fn)(*args))]
    ours = list(run(export, list(args)).values())
    assert [(y.shape, y.dtype) for y in ours] == [(y.shape, y.dtype) for y in theirs]
    return ours, theirs


def distance(actual, truth):
    """The largest error, relative to the largest element."""
    actual, truth = np.asarray(actual, np.float64), np.asarray(truth, np.float64)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(truth))
    scale = np.abs(truth).max(initial=0, where=np.isfinite(truth)) or 1.0
    return np.abs(np.where(actual == truth, 0, actual - truth) / scale).max(initial=0)


def assert_as_accurate(fn, truth, args, opset=23, measure=lambda args, *ys: ys):
    """What ``measure`` makes of the outputs, in float64, is as near the truth as JAX's.

    Integers are equal. ``measure`` takes the arguments and the outputs, ``truth`` the arguments.
    """
    results, exact = both(fn, args, opset), typed(args, np.float64)
    wanted = truth(*exact)
    wanted = wanted if isinstance(wanted, (tuple, list)) else [wanted]
    found, known = ([*measure(exact, *typed(ys, np.float64))] for ys in results)
    eps = np.finfo(args[0].dtype).eps
    for actual, other, right in zip(found, known, wanted, strict=True):
        if np.asarray(other).dtype.kind in "biu":
            np.testing.assert_array_equal(actual, right)
        else:
            assert distance(actual, right) <= FACTOR * max(distance(other, right), eps)


# ---------------------------------------------------------------------------- one right answer


@partial(np.vectorize, signature="(m,n)->(m,n),(k),(m)")
def _np_lu(x):
    lu, pivots = scipy.linalg.lu_factor(x)
    order = np.arange(len(x))
    for i, pivot in enumerate(pivots):
        order[[i, pivot]] = order[[pivot, i]]
    return lu, pivots, order


@partial(np.vectorize, signature="(n),(n),(n),(n,k)->(n,k)")
def _banded(low, mid, up, b):
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
    "tridiagonal": (lax.linalg.tridiagonal_solve, _banded, [*normal(3, 2, 8), normal(2, 8, 3)]),
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


def _eigen(args, vectors, values):
    """The eigenvalues, what the vectors miss, and how far they are from orthonormal."""
    x = (args[0] + args[0].mT) / 2
    return values, x @ vectors - vectors * values[..., None, :], vectors.mT @ vectors


def _eigen_truth(x):
    eye = np.broadcast_to(np.eye(x.shape[-1]), x.shape)
    return np.linalg.eigvalsh((x + x.mT) / 2), np.zeros_like(x), eye


def _singular(args, left, values, right):
    """The singular values, what they make, and how far the vectors are from orthonormal."""
    count = values.shape[-1]
    made = left[..., :count] * values[..., None, :] @ right[..., :count, :]
    return values, made, left.mT @ left, right @ right.mT


def _singular_truth(x, thin=False):
    height, width = x.shape[-2:]
    sizes = (min(height, width),) * 2 if thin else (height, width)
    eyes = [np.broadcast_to(np.eye(n), (*x.shape[:-2], n, n)) for n in sizes]
    return np.linalg.svdvals(x), x, *eyes


def _thin(x):
    return jnp.linalg.svd(x, full_matrices=False)


HILBERT = scipy.linalg.hilbert(8)
EIGEN = (lambda x: jnp.linalg.eigh(x)[::-1], _eigen_truth, _eigen)
SINGULAR = (jnp.linalg.svd, _singular_truth, _singular)
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
    "svd, thin": (_thin, partial(_singular_truth, thin=True), _singular, [normal(2, 8, 5)]),
}
USUAL = {
    *("cholesky, written out", "lu, written out", "solve, written out", "qr, wide", "tridiagonal"),
    *("eigh", "eigh, low rank", "svd, columns of rounding", "svd, wide", "svd, thin"),
}
"""What default tests try."""


def by_name(table):
    rows = [pytest.param(n, marks=() if n in USUAL else pytest.mark.full) for n in table]
    return pytest.mark.parametrize("name", rows)


@by_name(ANSWERS)
def test_answers(name):
    fn, truth, args = ANSWERS[name]
    assert_as_accurate(fn, truth, typed(args, np.float32))


@by_name(SPECTRA)
def test_spectra(name):
    fn, truth, measure, args = SPECTRA[name]
    assert_as_accurate(fn, truth, typed(args, np.float32), measure=measure)


@pytest.mark.full
@pytest.mark.parametrize("name", ANSWERS | SPECTRA)
@pytest.mark.parametrize(("dtype", "opset"), [(np.float32, 18), (np.float64, 18), (np.float64, 23)])
def test_elsewhere(name, dtype, opset):
    fn, truth, *measure, args = (ANSWERS | SPECTRA)[name]
    assert_as_accurate(fn, truth, typed(args, dtype), opset, *measure)


@pytest.mark.each()
@pytest.mark.parametrize(("name", "shape"), [("eigvalsh", (128, 128)), ("svdvals", (256, 256))])
def test_large(name, shape):
    fn, truth, _ = ANSWERS[name]
    assert_as_accurate(fn, truth, typed([positive(*shape)], np.float32))


SIDES = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")


@pytest.mark.each()
@pytest.mark.parametrize("code", range(32))
def test_triangular(code):
    """The other triangle holds NaN, and so does the diagonal where it is one."""
    how = {side: bool(code >> bit & 1) for bit, side in enumerate(SIDES)}
    triangle, diagonal = np.tri(6, dtype=bool), np.eye(6, dtype=bool)
    a = np.where(triangle if how["lower"] else triangle.T, normal(2, 6, 6), np.nan)
    a = np.where(diagonal, np.nan if how["unit_diagonal"] else np.abs(a) + 1, a)
    b = normal(*((2, 6, 3) if how["left_side"] else (2, 3, 6)))

    def truth(a, b):
        a = np.nan_to_num(np.where(diagonal & how["unit_diagonal"], 1, a), nan=0)
        a = a.mT if how["transpose_a"] else a
        return np.linalg.solve(a, b) if how["left_side"] else np.linalg.solve(a.mT, b.mT).mT

    solve = partial(lax.linalg.triangular_solve, **how)
    assert_as_accurate(solve, truth, typed([a, b], np.float32))


@pytest.mark.parametrize("size", [3, 9, 40])
@pytest.mark.parametrize("lower", [False, True])
def test_triangular_with_zeros_on_the_diagonal(size, lower):
    """Infinities of either sign and NaN are where BLAS has them; whole numbers are not rounded."""
    rng = np.random.default_rng(size)
    a = rng.integers(-1, 2, (20, size, size)) * (rng.random((20, size, size)) < 0.4) * 1.0
    a[:, range(size), range(size)] = rng.choice([0, 1, 1, 1, -1], (20, size))
    b = rng.integers(-2, 3, (20, size, 3)) * 1.0
    solve = partial(lax.linalg.triangular_solve, left_side=True, lower=lower)
    (ours,), (theirs,) = both(solve, typed([a, b], np.float32), 23)
    assert {np.inf, -np.inf, 1.0} < {*theirs[~np.isnan(theirs)]} and np.isnan(theirs).any()
    np.testing.assert_array_equal(ours, theirs)


# ------------------------------------------------------------------------------------------- edges


EDGES = {
    "the other triangle": (
        lax.linalg.cholesky_p.bind,
        np.triu(normal(2, 6, 6), 1) + np.tril(positive(2, 6, 6)),
    ),
    "not positive definite": (
        lambda x: jnp.isnan(jnp.linalg.cholesky(x)),
        np.stack([positive(5, 5), -np.eye(5), np.diag([1.0, 2, 0, 1, 1])]),
    ),
    "singular": (
        lambda x: (lax.linalg.lu(x), jnp.linalg.det(x)),
        np.stack([np.ones((5, 5)), np.zeros((5, 5))]),
    ),
    "not a number": (
        lambda x: (jnp.linalg.eigvalsh(x), jnp.linalg.svdvals(x), jnp.linalg.cholesky(x)),
        np.full((3, 5, 5), np.nan),
    ),
    "down to subnormals": (lambda x: jnp.isnan(jnp.linalg.qr(x + 1j)[0]), np.ones((40, 40))),
    "singular, inverted": (
        jnp.linalg.inv,
        np.stack([np.ones((5, 5)), np.zeros((5, 5)), np.diag([1.0, 2, 0, 4, 0])]),
    ),
    # Of a matrix without columns there are left vectors, if all are wanted.
    "nothing at all": (
        lambda x: (jnp.linalg.svd(x), jnp.linalg.qr(x, "complete"), jnp.linalg.eigh(x.mT @ x)),
        np.zeros((2, 3, 0)),
    ),
}


@pytest.mark.parametrize("name", EDGES)
def test_edges(name):
    fn, x = EDGES[name]
    ours, theirs = both(fn, typed([x], np.float32), 23)
    for actual, wanted in zip(ours, theirs, strict=True):
        if name == "the other triangle":
            np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(actual, wanted)


@pytest.mark.each()
@pytest.mark.parametrize("fn", [jnp.linalg.inv, jnp.linalg.qr, jnp.linalg.eigvalsh])
def test_a_large_one_is_a_small_file(fn):
    small, large = (converter.to_onnx(fn, [(n, n)]).report.nodes for n in (96, 256))
    assert large <= small < 200  # a short loop of blocks is written out


def symmetric(size):
    """Matrices on which Jacobi's method has equal angles, clusters, or values of all sizes."""
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
def test_all_rotations_at_once_get_there(size):
    """That is not proved, so it is tried: values, vectors and what they make of each other."""
    export = converter.to_onnx(jnp.linalg.eigh, [(size, size)])
    for x in symmetric(size):
        x = x.astype(np.float32)
        values, vectors = (y.astype(np.float64) for y in run(export, [x]).values())
        right, limit = np.linalg.eigvalsh(x.astype(np.float64)), 3e-6 * size**0.5
        assert distance(values, right) < limit
        assert np.abs(x @ vectors - vectors * values).max() < limit * np.abs(right).max()
        assert np.abs(vectors.T @ vectors - np.eye(size)).max() < limit


def test_scaled_matrices():
    """JAX runs these on NVIDIA's devices only; their numbers are by their definition."""
    inputs = typed(
        [normal(2, 3, 64), normal(2, 5, 64), normal(2, 3, 2), normal(2, 5, 2)], np.float32
    )
    (got,) = run(converter.to_onnx(jax.nn.scaled_matmul, inputs), inputs).values()
    a, b, a_scale, b_scale = typed(inputs, np.float64)
    a, b = a * np.repeat(a_scale, 32, 2), b * np.repeat(b_scale, 32, 2)
    np.testing.assert_allclose(got, np.einsum("bmk,bnk->bmn", a, b), rtol=1e-5, atol=1e-4)
