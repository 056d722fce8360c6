"""Compute eigenvalues of symmetric matrices and singular values by Jacobi rotations.

Jacobi's method makes an entry outside of the diagonal zero by rotating two rows (Golub and Van
Loan, section 8.5). Here the tangents of all these angles form an antisymmetric matrix ``W``, and
all rows are rotated by the rotation closest to ``I - W``. A large ``W`` is scaled down. For a small
``W`` convergence is quadratic. There is no proof of convergence, but it was tested on many
matrices. A matrix of 32 rows takes 10 to 25 steps of about ten matrix products each. If pairs of
rows were rotated one after the other, as in LAPACK, the same matrix would take about five sweeps of
31 rounds.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.decompositions.matrices import (
    adjoint,
    diagonal,
    outer,
    safe_scale,
    squares,
)
from converter.decompositions.reflections import qr
from converter.decompositions.registered import decomposition
from converter.ir.complex_pairs import real_dtype

State = tuple[jax.Array, jax.Array]

ROUNDING_FACTOR = 4
"""Tolerance for all entries outside of the diagonal together, as a multiple of their rounding
error."""


@decomposition("eigh", ignores=("algorithm", "implementation"), of_complex=True)
def eigh(
    x: jax.Array, *, lower: bool, sort_eigenvalues: bool, subset_by_index: tuple[int, int] | None
) -> State:
    """Return the eigenvectors in columns, and the eigenvalues, of Hermitian matrices by Jacobi's
    method.

    The lower triangle of ``x`` is read, or the upper one unless ``lower`` (Golub and Van Loan,
    section 8.5). The signs of the vectors are arbitrary. All results for a matrix with NaN or
    infinite entries are NaN.

    Arguments:
        sort_eigenvalues: true to return the eigenvalues in ascending order, otherwise in any.
        subset_by_index: the first eigenvalue to return and the one after the last, or None for all.
    """
    size = x.shape[-1]
    half = jnp.tril(x, -1) if lower else jnp.triu(x, 1)
    symmetric = half + adjoint(half) + jnp.eye(size, dtype=x.dtype) * jnp.real(x)
    scale = safe_scale(symmetric, (-2, -1))
    scaled = scale * symmetric
    length = jnp.sqrt(jnp.sum(squares(scaled), (-2, -1)))
    tolerance = (ROUNDING_FACTOR * rounding_units(size, x.dtype) * length)[..., None, None]
    unit = size / jnp.where(tolerance > 0, tolerance, 1)
    rows = diagonalize(
        _unit_matrices(x, size),
        lambda rows: rows @ scaled @ adjoint(rows),
        lambda matrix: unit * jnp.abs(matrix),
        lambda above: jnp.sqrt(2 * jnp.sum(above * above, (-2, -1))) / size,
    )
    # The rounding errors of the rotations mostly affect the lengths of the vectors.
    vectors = adjoint(improve_orthonormality(rows))
    vectors = jnp.where(jnp.isfinite(length)[..., None, None], vectors, jnp.nan)
    # Rayleigh quotients are not affected by these rounding errors.
    values = jnp.real(jnp.sum(jnp.conj(vectors) * (scaled @ vectors), -2)) / scale[..., 0]
    if sort_eigenvalues:
        order = jnp.argsort(values, axis=-1)
        values = jnp.take_along_axis(values, order, -1)
        vectors = jnp.take_along_axis(vectors, order[..., None, :], -1)
    start_index, end = subset_by_index or (0, size)
    return vectors[..., start_index:end], values[..., start_index:end]


@decomposition("svd", ignores=("algorithm",), of_complex=True)
def svd(
    x: jax.Array, *, full_matrices: bool, compute_uv: bool, subset_by_index: tuple[int, int] | None
) -> tuple[jax.Array, ...]:
    """Return singular values in descending order, left vectors in columns, and right vectors in
    rows.

    The result is a tuple of these three arrays, or of the values alone unless ``compute_uv``. The
    signs of the vectors are arbitrary.

    After a QR decomposition, one-sided Jacobi rotations ``V.T`` make the rows of ``R`` orthogonal:
    ``V.T @ R = S @ W.T`` (Hestenes, 1958; Drmac and Veselic, New fast and accurate Jacobi SVD
    algorithm, SIAM J. Matrix Anal. Appl. 29, 2008). For values of zero, the directions of ``W`` are
    computed by a second QR decomposition.

    Arguments:
        full_matrices: true to return square matrices of vectors.
        compute_uv: false to return the values only.
        subset_by_index: the first value to return and the one after the last, or None for all.
    """
    height, width = x.shape[-2:]
    if height < width:
        options = {"full_matrices": full_matrices, "compute_uv": compute_uv}
        values, *vectors = svd(adjoint(x), **options, subset_by_index=subset_by_index)
        return (values, *(adjoint(v) for v in reversed(vectors)))
    if width == 0:
        return _empty_result(x, full_matrices, compute_uv)
    scale = safe_scale(x, (-2, -1))
    q, r = qr(scale * x, pivoting=False, full_matrices=full_matrices)
    rows, left = _orthogonal_rows(r[..., :width, :])
    values = jnp.sqrt(jnp.sum(squares(rows), -1))
    order = jnp.argsort(-values, axis=-1)
    start, end = subset_by_index or (0, width)
    values = (jnp.take_along_axis(values, order, -1) / scale[..., 0])[..., start:end]
    if not compute_uv:
        return (values,)
    rows, left = (jnp.take_along_axis(y, order[..., None], -2) for y in (rows, left))
    right = _normalize_rows(rows)
    inner = jnp.concatenate([q[..., :width] @ adjoint(left), q[..., width:]], -1)
    if subset_by_index is not None:
        inner = inner[..., start:end]
    return values, inner, right[..., start:end, :]


def _normalize_rows(rows: jax.Array) -> jax.Array:
    """Return ``rows``, which are orthogonal, with length one.

    Rows that are zero or tiny have no accurate direction. If any matrix has such rows, the rows of
    all matrices are replaced by orthonormal rows from a QR decomposition.
    """
    lengths = jnp.sqrt(jnp.sum(squares(rows), -1, keepdims=True))
    directions = rows / jnp.where(lengths > 0, lengths, 1)
    deviation = jnp.abs(
        directions @ adjoint(directions) - jnp.eye(rows.shape[-2], dtype=rows.dtype)
    )

    def from_qr() -> jax.Array:
        right, upper = qr(adjoint(rows), pivoting=False, full_matrices=False)
        negative = jnp.real(diagonal(upper))[..., None] < 0
        return jnp.where(negative, -adjoint(right), adjoint(right))

    is_accurate = jnp.max(deviation) < jnp.sqrt(jnp.finfo(deviation.dtype).eps)
    return lax.cond(is_accurate, lambda: improve_orthonormality(directions), from_qr)


def _empty_result(x: jax.Array, full_matrices: bool, compute_uv: bool) -> tuple[jax.Array, ...]:
    """Return the results of `svd` for matrices without columns: no values, and left and right
    vectors if ``compute_uv``."""
    none = jnp.zeros((*x.shape[:-2], 0), real_dtype(x.dtype))
    left, right = qr(x, pivoting=False, full_matrices=full_matrices)
    return (none, left, right[..., :0, :]) if compute_uv else (none,)


def _orthogonal_rows(r: jax.Array) -> State:
    """Return ``V.T @ r`` and the orthogonal matrix ``V.T``, by Jacobi rotations.

    The rows of ``V.T @ r`` are orthogonal. ``r`` is square. For complex numbers ``V.T`` is the
    adjoint.
    """
    size = r.shape[-1]
    units = rounding_units(size, r.dtype)

    def products(both: jax.Array) -> jax.Array:
        return both[..., :size] @ adjoint(both[..., :size])

    def to_error_units(matrix: jax.Array) -> jax.Array:
        lengths = jnp.sqrt(jnp.real(diagonal(matrix)))
        bound = units * outer(lengths, lengths)
        return jnp.where(bound > 0, jnp.abs(matrix) / jnp.where(bound > 0, bound, 1), 0)

    start = jnp.concatenate([r, _unit_matrices(r, size)], -1)
    both = diagonalize(start, products, to_error_units, lambda above: jnp.max(above, (-2, -1)))
    # The rounding errors of the rotations mostly affect the lengths of the vectors.
    both = both / jnp.sqrt(jnp.sum(squares(both[..., size:]), -1, keepdims=True))
    return both[..., :size], both[..., size:]


def _unit_matrices(x: jax.Array, size: int) -> jax.Array:
    """Return a unit matrix [size, size] for each matrix of the stack ``x``, in its dtype."""
    return jnp.broadcast_to(jnp.eye(size, dtype=x.dtype), (*x.shape[:-2], size, size))


# ------------------------------------------------------------------------------------- rotations

MAX_STEPS = 400
"""Largest number of steps, several times the 56 steps that a tested matrix of 200 rows took."""

CONVERGED_FACTOR = 64
"""Multiple of the rounding error from which on the loop stops at a step without progress."""

ROTATION_THRESHOLD = 0.5
"""Multiple of the rounding error up to which entries are not rotated."""


def diagonalize(
    rows: jax.Array,
    matrix_of: Callable[[jax.Array], jax.Array],
    to_error_units: Callable[[jax.Array], jax.Array],
    measure: Callable[[jax.Array], jax.Array],
) -> jax.Array:
    """Return ``rows`` after rotations that make the matrix ``matrix_of(rows)`` diagonal within
    rounding.

    The loop ends when ``measure`` is at most 1 for every matrix of the stack. It also ends if no
    measure above 1 decreases in a step and all are at most `CONVERGED_FACTOR`, or after `MAX_STEPS`
    steps.

    Arguments:
        rows: the rows to rotate.
        matrix_of: computes a Hermitian matrix from the rows.
        to_error_units: returns the magnitude of each entry of this matrix in units of its rounding
            error.
        measure: returns a number for each matrix that says how far it is from diagonal. It takes
            the result of ``to_error_units``, with zeros on and below the diagonal.
    """
    size = rows.shape[-2]
    is_above = np.triu(np.ones((size, size), bool), 1)

    def measure_rows(rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        matrix = matrix_of(rows)
        units = jnp.where(is_above, to_error_units(matrix), 0)
        return measure(units), _tangents(
            jnp.where(units > ROTATION_THRESHOLD, matrix, 0), diagonal(matrix)
        )

    def is_unfinished(loop: Any) -> jax.Array:
        count, previous, current, *_ = loop
        return (count < MAX_STEPS) & jnp.any(
            (current > 1) & ((current > CONVERGED_FACTOR) | (current < previous))
        )

    def rotate(loop: Any) -> Any:
        count, _, current, tangents, rows = loop
        rows = _nearest_rotation(tangents) @ rows
        return count + 1, current, *measure_rows(rows), rows

    current, tangents = measure_rows(rows)
    loop = (jnp.int32(0), jnp.full_like(current, jnp.inf), current, tangents, rows)
    return lax.while_loop(is_unfinished, rotate, loop)[-1]


def _tangents(off_diagonal: jax.Array, values: jax.Array) -> jax.Array:
    """Return the tangents of the angles of rotations that make off-diagonal entries zero.

    The matrix is Hermitian. The smaller of the two possible angles is used, because it has less
    rounding (Golub and Van Loan, algorithm 8.5.1). Complex entries are first rotated to real ones.

    Arguments:
        off_diagonal: the entries above the diagonal, and zeros elsewhere.
        values: the diagonal.

    Returns:
        An antisymmetric matrix ``W`` with the tangent for each entry; for complex numbers ``W`` is
        minus its adjoint.
    """
    values = values.real
    differences = values[..., None, :] - values[..., None]
    size = jnp.abs(off_diagonal) if jnp.iscomplexobj(off_diagonal) else off_diagonal
    limits = jnp.finfo(size.dtype)
    largest = jnp.sqrt(limits.max) / 2
    ratio = jnp.clip(
        size / jnp.where(differences == 0, limits.tiny, differences), -largest, largest
    )
    tangent = ratio / (0.5 + jnp.sqrt(0.25 + ratio * ratio))
    if size is not off_diagonal:
        tangent = tangent * jnp.where(size == 0, 1, off_diagonal / jnp.where(size == 0, 1, size))
    return tangent - adjoint(tangent)


SERIES, SERIES_ERROR = (-0.448, 0.158), 0.0043
"""Coefficients of the approximation ``1 + a s + b s**2`` of ``1 / sqrt(1 + s)`` between 0 and 1,
and its largest error."""


def _nearest_rotation(tangents: jax.Array) -> jax.Array:
    """Return the rotation closest to ``I - W`` for the antisymmetric matrix ``W`` of ``tangents``.

    ``W`` is scaled down if its spectral norm may exceed 1. The eighth root of the sum of the
    squares of ``W**4`` bounds this norm. The rotation is ``(I - W) / sqrt(I - W W)``, where the
    root is a short series. Each step of Newton and Schulz squares the error of the series.
    """
    eye = jnp.eye(tangents.shape[-1], dtype=tangents.dtype)
    second = tangents @ tangents
    fourth = second @ second
    bound = jnp.sum(squares(fourth), (-2, -1), keepdims=True)
    shortening = 1 / jnp.maximum(jnp.sqrt(jnp.sqrt(bound)), 1)
    linear, quadratic = SERIES
    series = eye - linear * shortening * second + quadratic * (shortening * shortening) * fourth
    estimate = (eye - jnp.sqrt(shortening) * tangents) @ series
    remaining_error = SERIES_ERROR
    while remaining_error > jnp.finfo(estimate.dtype).eps / 4:
        estimate, remaining_error = improve_orthonormality(estimate), 1.5 * remaining_error**2
    return estimate


def improve_orthonormality(rows: jax.Array) -> jax.Array:
    """Return almost orthonormal ``rows`` after a step of Newton and Schulz.

    The step squares the deviation of the rows from orthonormality.
    """
    return 1.5 * rows - 0.5 * (rows @ adjoint(rows) @ rows)


def rounding_units(size: int, dtype: np.dtype) -> float:
    """Return the deviation from orthogonality that rounding causes in a matrix of ``size`` rows.

    It is ``eps * max(1, sqrt(size) / 2)``, as measured on random matrices.
    """
    return float(jnp.finfo(dtype).eps) * max(1.0, math.sqrt(size) / 2)
