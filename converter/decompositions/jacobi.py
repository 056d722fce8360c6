"""Eigenvalues of symmetric matrices and singular values, by Jacobi's rotations.

Jacobi's method makes an entry outside of the diagonal zero by a rotation of two rows (Golub and Van
Loan, section 8.5). Here the tangents of all those angles are one antisymmetric matrix ``W``, and
all rows are turned by the rotation that is nearest to ``I - W``. Where ``W`` is large it is
shortened; where it is small, what is left is the square of what there was. That it gets there is
not proved but was tried on many matrices: those of 32 rows take 10 to 25 steps, of which each is
some ten products of matrices, whereas pairs one after the other, as LAPACK takes them, are 31
rounds in each of some five sweeps.
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
"""So many times that is what rounding leaves in all entries outside of the diagonal together."""


@decomposition("eigh", ignores=("algorithm", "implementation"), of_complex=True)
def eigh(
    x: jax.Array, *, lower: bool, sort_eigenvalues: bool, subset_by_index: tuple[int, int] | None
) -> State:
    """Eigenvectors in columns, and eigenvalues in ascending order, of Hermitian matrices.

    Jacobi's method (Golub and Van Loan, section 8.5). One triangle of ``x`` is read. The signs of
    the vectors are as they come: nothing determines them.
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
    vectors = adjoint(
        improve_orthonormality(rows)
    )  # the rounding of all rotations is mostly in the lengths
    vectors = jnp.where(jnp.isfinite(length)[..., None, None], vectors, jnp.nan)
    # Rayleigh's quotients are free of that rounding.
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
    """Singular values in descending order; and the left vectors in columns, the right in rows.

    A QR decomposition, then Jacobi's method from one side on the rows of ``R`` (Hestenes, 1958;
    Drmac and Veselic, New fast and accurate Jacobi SVD algorithm, SIAM J. Matrix Anal. Appl. 29,
    2008): rotations ``V.T`` make them orthogonal, ``V.T @ R = S @ W.T``. Where values are zero, a
    second QR decomposition gives their directions of ``W``. The signs of the vectors are as they
    come.
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
    right = _directions(rows)
    inner = jnp.concatenate([q[..., :width] @ adjoint(left), q[..., width:]], -1)
    if subset_by_index is not None:
        inner = inner[..., start:end]
    return values, inner, right[..., start:end, :]


def _directions(rows: jax.Array) -> jax.Array:
    """Those of rows that are orthogonal, and any for rows of zeros, or too small to have one."""
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
    """What a matrix without columns has: no values, and left vectors if all are wanted."""
    none = jnp.zeros((*x.shape[:-2], 0), real_dtype(x.dtype))
    left, right = qr(x, pivoting=False, full_matrices=full_matrices)
    return (none, left, right[..., :0, :]) if compute_uv else (none,)


def _orthogonal_rows(r: jax.Array) -> State:
    """``V.T @ r`` with orthogonal rows, and ``V.T``, which of complex numbers is the adjoint."""
    size = r.shape[-1]
    units = rounding_units(size, r.dtype)

    def products(both: jax.Array) -> jax.Array:
        return both[..., :size] @ adjoint(both[..., :size])

    def excess(matrix: jax.Array) -> jax.Array:
        lengths = jnp.sqrt(jnp.real(diagonal(matrix)))
        bound = units * outer(lengths, lengths)
        return jnp.where(bound > 0, jnp.abs(matrix) / jnp.where(bound > 0, bound, 1), 0)

    start = jnp.concatenate([r, _unit_matrices(r, size)], -1)
    both = diagonalize(start, products, excess, lambda above: jnp.max(above, (-2, -1)))
    # Most of the rounding of all rotations is in the lengths.
    both = both / jnp.sqrt(jnp.sum(squares(both[..., size:]), -1, keepdims=True))
    return both[..., :size], both[..., size:]


def _unit_matrices(x: jax.Array, size: int) -> jax.Array:
    """A unit matrix for each of the matrices."""
    return jnp.broadcast_to(jnp.eye(size, dtype=x.dtype), (*x.shape[:-2], size, size))


# ------------------------------------------------------------------------------------- rotations

MAX_STEPS = 400
"""Several times what any matrix took that was tried: 56 of 200 rows."""

CONVERGED_FACTOR = 64
"""So many times what rounding leaves: from there on a step that brings nothing is the last."""

ROTATION_THRESHOLD = 0.5
"""Entries of so many times what rounding leaves are no reason to turn anything."""


def diagonalize(
    rows: jax.Array,
    matrix_of: Callable[[jax.Array], jax.Array],
    excess: Callable[[jax.Array], jax.Array],
    measure: Callable[[jax.Array], jax.Array],
) -> jax.Array:
    """Rows, turned until the matrix that ``matrix_of`` makes of them is diagonal within rounding,
    or near it and no nearer.

    ``excess`` are magnitudes of that Hermitian matrix in units of what rounding leaves, and what is
    ``measured`` of those above the diagonal says how far it is.
    """
    size = rows.shape[-2]
    above = np.triu(np.ones((size, size), bool), 1)

    def measure_rows(rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        matrix = matrix_of(rows)
        units = jnp.where(above, excess(matrix), 0)
        return measure(units), _tangents(
            jnp.where(units > ROTATION_THRESHOLD, matrix, 0), diagonal(matrix)
        )

    def is_unfinished(loop: Any) -> jax.Array:
        count, before, current, *_ = loop
        return (count < MAX_STEPS) & jnp.any(
            (current > 1) & ((current > CONVERGED_FACTOR) | (current < before))
        )

    def rotate(loop: Any) -> Any:
        count, _, current, tangents, rows = loop
        rows = _nearest_rotation(tangents) @ rows
        return count + 1, current, *measure_rows(rows), rows

    current, tangents = measure_rows(rows)
    loop = (jnp.int32(0), jnp.full_like(current, jnp.inf), current, tangents, rows)
    return lax.while_loop(is_unfinished, rotate, loop)[-1]


def _tangents(above: jax.Array, values: jax.Array) -> jax.Array:
    """Those of the angles that make entries zero, which are ``above`` a diagonal of ``values``.

    Of the two angles that do it the smaller one, which moves and rounds little (Golub and Van Loan,
    algorithm 8.5.1). A complex entry is turned to a real one first.
    """
    values = values.real
    differences = values[..., None, :] - values[..., None]
    size = jnp.abs(above) if jnp.iscomplexobj(above) else above
    kind = jnp.finfo(size.dtype)
    most = jnp.sqrt(kind.max) / 2
    ratio = jnp.clip(size / jnp.where(differences == 0, kind.tiny, differences), -most, most)
    tangent = ratio / (0.5 + jnp.sqrt(0.25 + ratio * ratio))
    if size is not above:
        tangent = tangent * jnp.where(size == 0, 1, above / jnp.where(size == 0, 1, size))
    return tangent - adjoint(tangent)


SERIES, SERIES_ERROR = (-0.448, 0.158), 0.0043
"""Of ``1 / sqrt(1 + s)`` between 0 and 1: ``1 + a s + b s**2``, and how far it is off at most."""


def _nearest_rotation(tangents: jax.Array) -> jax.Array:
    """The rotation that is nearest to ``I - W``, where ``W`` is no longer than 1, else is made so.

    It is ``(I - W) / sqrt(I - W W)``. That the fourth power is squared and summed is a bound on the
    length. Of what the series leaves each step of Newton and Schulz leaves the square.
    """
    eye = jnp.eye(tangents.shape[-1], dtype=tangents.dtype)
    second = tangents @ tangents
    fourth = second @ second
    bound = jnp.sum(squares(fourth), (-2, -1), keepdims=True)
    part = 1 / jnp.maximum(jnp.sqrt(jnp.sqrt(bound)), 1)
    first, last = SERIES
    series = eye - first * part * second + last * (part * part) * fourth
    turn = (eye - jnp.sqrt(part) * tangents) @ series
    left = SERIES_ERROR
    while left > jnp.finfo(turn.dtype).eps / 4:
        turn, left = improve_orthonormality(turn), 1.5 * left**2
    return turn


def improve_orthonormality(rows: jax.Array) -> jax.Array:
    """Rows that are almost orthonormal, brought nearer to it (Newton and Schulz)."""
    return 1.5 * rows - 0.5 * (rows @ adjoint(rows) @ rows)


def rounding_units(size: int, dtype: np.dtype) -> float:
    """Loss of orthogonality by rounding, measured on random matrices."""
    return float(jnp.finfo(dtype).eps) * max(1.0, math.sqrt(size) / 2)
