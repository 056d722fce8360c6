"""Decompositions of matrices and what is made of them."""

import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
import scipy.linalg
from jax import lax

import converter
from tests.converter.decompositions.accuracy import assert_as_accurate, both
from tests.converter.decompositions.draws import low_rank, normal, positive, typed

A, B, TALL, WIDE = normal(2, 7, 7), normal(2, 7, 3), normal(9, 5), normal(4, 6)

# ---------------------------------------------------------------------------- one right answer


def _np_lu(x):
    lu, pivots = zip(
        *(scipy.linalg.lu_factor(a) for a in x.reshape(-1, *x.shape[-2:])), strict=True
    )
    order = [_permutation(p, x.shape[-2]) for p in pivots]
    lead = x.shape[:-2]
    return (
        np.reshape(lu, x.shape),
        np.reshape(pivots, (*lead, -1)),
        np.reshape(order, (*lead, -1)),
    )


def _permutation(pivots, size):
    order = np.arange(size)
    for i, pivot in enumerate(pivots):
        order[[i, pivot]] = order[[pivot, i]]
    return order


def _np_qr(x):
    q, r = np.linalg.qr(x)
    return q, r


def _tridiagonal(low, mid, up, b):
    full = [
        np.diag(d) + np.diag(lo[1:], -1) + np.diag(u[:-1], 1)
        for lo, d, u in zip(low, mid, up, strict=True)
    ]
    return np.linalg.solve(np.array(full), b)


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
    "inv, ill-conditioned": (
        jnp.linalg.inv,
        lambda x: scipy.linalg.invpascal(len(x)),
        [scipy.linalg.pascal(5).astype(float)],
    ),
    "det": (jnp.linalg.det, np.linalg.det, [A]),
    "slogdet": (jnp.linalg.slogdet, np.linalg.slogdet, [A]),
    "expm": (jsl.expm, scipy.linalg.expm, [A]),
    "lu_solve": (
        lambda a, b: jsl.lu_solve(jsl.lu_factor(a), b, trans=1),
        lambda a, b: np.linalg.solve(a.T, b),
        [A[0], B[0]],
    ),
    "cho_solve": (
        lambda a, b: jsl.cho_solve(jsl.cho_factor(a), b),
        np.linalg.solve,
        [positive(6, 6), normal(6, 2)],
    ),
    "tridiagonal": (
        lax.linalg.tridiagonal_solve,
        _tridiagonal,
        [*normal(3, 2, 8), normal(2, 8, 3)],
    ),
    "qr": (jnp.linalg.qr, _np_qr, [normal(2, 9, 5)]),
    "qr, wide": (jnp.linalg.qr, _np_qr, [WIDE]),
    "qr, complete": (
        lambda x: jnp.linalg.qr(x, mode="complete"),
        lambda x: tuple(np.linalg.qr(x, mode="complete")),
        [TALL],
    ),
    "qr, raw": (
        lambda x: jnp.linalg.qr(x, mode="raw"),
        lambda x: np.linalg.qr(x, mode="raw"),
        [TALL],
    ),
    "qr, pivoting": (
        lambda x: jsl.qr(x, pivoting=True),
        lambda x: scipy.linalg.qr(x, pivoting=True),
        [TALL],
    ),
    "lstsq": (
        lambda a, b: jnp.linalg.lstsq(a, b)[0],
        lambda a, b: np.linalg.lstsq(a, b)[0],
        [TALL, normal(9, 2)],
    ),
    "pinv": (jnp.linalg.pinv, np.linalg.pinv, [normal(2, 9, 5)]),
    "pinv, wide": (jnp.linalg.pinv, np.linalg.pinv, [WIDE]),
    "rank": (
        lambda x: jnp.linalg.matrix_rank(x, rtol=1e-3),
        lambda x: np.linalg.matrix_rank(x, rtol=1e-3),
        [low_rank(8, 6, 2)],
    ),
    "norm 2": (lambda x: jnp.linalg.norm(x, 2), lambda x: np.linalg.norm(x, 2), [TALL]),
    "nuclear norm": (
        lambda x: jnp.linalg.norm(x, "nuc"),
        lambda x: np.linalg.norm(x, "nuc"),
        [WIDE],
    ),
    "cond": (jnp.linalg.cond, np.linalg.cond, [TALL]),
    "polyfit": (lambda x, y: jnp.polyfit(x, y, 2), lambda x, y: np.polyfit(x, y, 2), normal(2, 9)),
    "polar": (lambda x: jsl.polar(x)[0], lambda x: scipy.linalg.polar(x)[0], [TALL]),
    "svdvals": (jnp.linalg.svdvals, np.linalg.svdvals, [normal(2, 6, 8)]),
    "eigvalsh": (jnp.linalg.eigvalsh, np.linalg.eigvalsh, [positive(2, 7, 7)]),
}
LARGE = {
    "eigvalsh": (jnp.linalg.eigvalsh, np.linalg.eigvalsh, [positive(128, 128)]),
    "svdvals": (jnp.linalg.svdvals, np.linalg.svdvals, [normal(256, 256)]),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ANSWERS)
def test_answers(name):
    fn, truth, args = ANSWERS[name]
    assert_as_accurate(fn, truth, typed(args, np.float32))


@pytest.mark.full
@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize(("dtype", "opset"), [(np.float32, 18), (np.float64, 18), (np.float64, 23)])
def test_answers_elsewhere(name, dtype, opset):
    fn, truth, args = ANSWERS[name]
    assert_as_accurate(fn, truth, typed(args, dtype), opset)


@pytest.mark.full
@pytest.mark.parametrize("name", LARGE)
def test_large(name):
    fn, truth, args = LARGE[name]
    assert_as_accurate(fn, truth, typed(args, np.float32))


SIDES = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")


@pytest.mark.sampled(8, full=2)
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

    def fn(a, b):
        return lax.linalg.triangular_solve(a, b, **how)

    assert_as_accurate(fn, truth, typed([a, b], np.float32))


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


def test_a_large_one_is_a_small_file():
    sizes = [converter.to_onnx(jnp.linalg.inv, [(n, n)]).report.nodes for n in (16, 512)]
    assert sizes[0] == sizes[1] < 200
