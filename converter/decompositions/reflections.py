"""Compute QR decompositions by Householder reflections."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from converter.decompositions.matrices import (
    Index,
    adjoint,
    collect,
    exchanged_positions,
    safe_scale,
    squares,
    take_index,
    take_per_matrix,
)
from converter.decompositions.registered import decomposition
from converter.decompositions.triangles import unit_solve

Packed = tuple[jax.Array, jax.Array]


@decomposition("geqrf", of_complex=True)
def geqrf(x: jax.Array) -> Packed:
    """Return the QR decomposition of ``x`` in LAPACK's format: a matrix, and the factors ``tau``.

    The matrix has ``R`` on and above its diagonal, and the vectors of the Householder reflections
    below it. There are as many factors as rows or columns, whichever are fewer. Columns are
    processed in order with LAPACK's signs and factors, so that ``R`` is that of JAX (Golub and Van
    Loan, algorithm 5.2.1; LAPACK's ``geqr2`` and ``larfg``).
    """
    scale, count = safe_scale(x, -2), min(x.shape[-2:])
    # A column of one real number needs no reflection.
    rounds = count if jnp.iscomplexobj(x) else min(count, x.shape[-2] - 1)
    if rounds < 1:
        return x, jnp.zeros((*x.shape[:-2], count), x.dtype)
    reduced, reflections = collect(rounds, _reflect_column, scale * x)
    packed, taus = _pack(reduced / scale, *reflections)
    missing = jnp.zeros((*taus.shape[:-1], count - rounds), taus.dtype)
    return packed, jnp.concatenate([taus, missing], -1)


@decomposition("geqp3", of_complex=True)
def geqp3(x: jax.Array, order: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the QR decomposition of ``x`` with its columns reordered.

    Each step continues with the remaining column of the largest norm. Norms of the remaining
    columns are computed again in each step (Golub and Van Loan, algorithm 5.4.1).

    Arguments:
        order: an array of the shape of the resulting order. Its numbers are not read.

    Returns:
        The matrix of ``geqrf``, the order of the columns as numbers from 1, and the factors
        ``tau``.
    """
    height, width = x.shape[-2:]
    rows, columns = lax.iota(jnp.int32, height)[:, None], lax.iota(jnp.int32, width)
    scale = safe_scale(x, (-2, -1))

    def step(k: Index, state: Packed) -> tuple[Packed, Packed]:
        reduced, order = state
        sizes = jnp.sum(jnp.where(rows >= k, squares(reduced), 0), -2)
        sizes = jnp.where(columns >= k, sizes, -1)
        positions = exchanged_positions(
            k, jnp.argmax(sizes, axis=-1, keepdims=True).astype(jnp.int32), width
        )
        reduced, reflection = _reflect_column(k, take_per_matrix(reduced, positions, -1))
        return (reduced, take_per_matrix(order, positions, -1)), reflection

    start = jnp.broadcast_to(columns + 1, order.shape)[..., None, :]
    (reduced, order), reflections = collect(min(height, width), step, (scale * x, start))
    packed, taus = _pack(reduced / scale, *reflections)
    return packed, order[..., 0, :], taus


def _reflect_column(k: Index, reduced: jax.Array) -> tuple[jax.Array, Packed]:
    """Apply the Householder reflection that makes column ``k`` zero below the diagonal.

    It is applied to all columns. The result may have rounding errors instead of zeros below the
    diagonal of the columns up to ``k``. They are not read.

    Returns:
        The reflected matrix, and the vector and the factor of the reflection. The factor is zero if
        the column is zero below the diagonal already.
    """
    rows = lax.iota(jnp.int32, reduced.shape[-2])[:, None]
    line = take_index(reduced, k, -1)
    below, top = jnp.where(rows > k, line, jnp.zeros_like(line)), take_index(line, k, -2)
    level, other_squares = jnp.real(top), jnp.real(adjoint(below) @ below)
    if jnp.iscomplexobj(top):
        other_squares = other_squares + jnp.imag(top) ** 2
    length = jnp.sqrt(level * level + other_squares)
    end = jnp.where(level < 0, length, -length)
    # The squares of smaller numbers underflow and lose precision. In scaled columns such squares
    # are smaller than the rounding error.
    limits = jnp.finfo(other_squares.dtype)
    is_reflected_already = other_squares <= 8 * limits.tiny / limits.eps
    distance = jnp.where(is_reflected_already, jnp.ones_like(top), top - end)
    mirror = jnp.where(rows == k, jnp.ones_like(line), below / distance)
    factor = jnp.where(is_reflected_already, jnp.zeros_like(top), distance / end)
    reduced = reduced + jnp.conj(factor) * mirror * (adjoint(mirror) @ reduced)
    return reduced, (mirror, factor)


def _pack(reduced: jax.Array, mirrors: jax.Array, factors: jax.Array) -> Packed:
    """Return a QR decomposition in LAPACK's format: the matrix of ``geqrf`` and the factors
    ``tau``.

    Arguments:
        reduced: the reflected matrix, with ``R`` in its upper triangle.
        mirrors: the vectors of the reflections, stacked on a first axis.
        factors: the factors of the reflections, stacked on a first axis. ``tau`` has the other
            sign.
    """
    rows, columns = (lax.iota(jnp.int32, n) for n in reduced.shape[-2:])
    below = jnp.moveaxis(mirrors[..., 0], 0, -1)
    missing = jnp.zeros((*below.shape[:-1], reduced.shape[-1] - below.shape[-1]), reduced.dtype)
    below = jnp.concatenate([below, missing], -1)
    packed = jnp.where(rows[:, None] > columns, below, reduced)
    return packed, -jnp.moveaxis(factors[..., 0, 0], 0, -1)


@decomposition("ormqr", of_complex=True)
def ormqr(
    packed: jax.Array, taus: jax.Array, x: jax.Array, *, left: bool, transpose: bool
) -> jax.Array:
    """Return ``Q @ x`` for the reflections of ``geqrf``, or ``x @ Q`` unless ``left``.

    With ``transpose`` the adjoint of ``Q`` is used. All reflections are applied at once: ``Q = I -
    V T V.T``. The inverse of ``T`` contains the inverse factors on the diagonal and products of the
    reflections' vectors above it (Golub and Van Loan, section 5.1.7).

    Arguments:
        packed: the matrix of ``geqrf``, with the reflections below the diagonal.
        taus: the factors of the reflections.
    """
    if not left:  # x Q = (Q.T x.T).T
        return adjoint(ormqr(packed, taus, adjoint(x), left=True, transpose=not transpose))
    return x - _apply_reflections(packed, taus, transpose, lambda mirrors: adjoint(mirrors) @ x)


def _apply_reflections(
    packed: jax.Array, taus: jax.Array, transpose: bool, project: Callable[[jax.Array], jax.Array]
) -> jax.Array:
    """Return ``x - Q @ x``, or ``x - adjoint(Q) @ x`` with ``transpose``, for a matrix ``x``.

    ``Q`` is the product of the Householder reflections of ``geqrf``. ``x`` itself is not an
    argument: only ``project`` reads it.

    Arguments:
        packed: the matrix of ``geqrf``, with the vectors of the reflections below the diagonal.
        taus: the factors of the reflections.
        transpose: whether to use the adjoint of ``Q``.
        project: returns ``adjoint(V) @ x`` for the matrix ``V``, whose columns are the vectors of
            the reflections.
    """
    height, count = packed.shape[-2], taus.shape[-1]
    mirrors = jnp.tril(packed[..., :count], -1) + jnp.eye(height, count, dtype=packed.dtype)
    taus, projections = taus[..., None], project(mirrors)
    inner = taus * jnp.triu(adjoint(mirrors) @ mirrors, 1)
    if transpose:
        return mirrors @ (jnp.conj(taus) * unit_solve(adjoint(inner), projections, lower=True))
    return mirrors @ unit_solve(inner, taus * projections, lower=False)


@decomposition("householder_product", of_complex=True)
def householder_product(packed: jax.Array, taus: jax.Array) -> jax.Array:
    """Return the first columns of ``Q`` for the reflections of ``geqrf``, as many as ``packed``
    has. ``taus`` are the factors of the reflections."""
    height, width = packed.shape[-2:]
    eye = jnp.eye(height, width, dtype=packed.dtype)
    return eye - _apply_reflections(
        packed, taus, False, lambda mirrors: adjoint(mirrors)[..., :width]
    )


@decomposition("qr", ignores=("use_magma",), of_complex=True)
def qr(x: jax.Array, *, pivoting: bool, full_matrices: bool) -> tuple[jax.Array, ...]:
    """Return ``Q`` and ``R`` with ``x = Q @ R``.

    With ``pivoting`` the columns are reordered, and the third result is their order, counted from
    0: ``x[:, order] = Q @ R``. With ``full_matrices`` ``Q`` is square.
    """
    height, width = x.shape[-2:]
    count = height if full_matrices else min(height, width)
    if pivoting:
        packed, order, taus = geqp3(x, jnp.zeros((*x.shape[:-2], width), jnp.int32))
    else:
        packed, taus = geqrf(x)
    missing = jnp.zeros((*x.shape[:-1], max(count - width, 0)), x.dtype)
    q = householder_product(jnp.concatenate([packed, missing], -1)[..., :count], taus)
    r = jnp.triu(packed)[..., :count, :]
    return (q, r, order - 1) if pivoting else (q, r)
