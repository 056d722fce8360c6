"""Eigenvalues of symmetric matrices and singular values, by Jacobi's rotations."""

import jax
import jax.numpy as jnp
from jax import lax

from converter.decompositions.matrices import (
    adjoint,
    diagonal,
    outer,
    scale_of,
    squares,
)
from converter.decompositions.reflections import qr
from converter.decompositions.registered import decomposition
from converter.decompositions.rotations import made_diagonal, nearer_orthonormal, rounding_units
from converter.ir.complex_pairs import real_dtype

State = tuple[jax.Array, jax.Array]

TOGETHER = 4
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
    whole = half + adjoint(half) + jnp.eye(size, dtype=x.dtype) * jnp.real(x)
    scale = scale_of(whole, (-2, -1))
    scaled = scale * whole
    length = jnp.sqrt(jnp.sum(squares(scaled), (-2, -1)))
    tolerance = (TOGETHER * rounding_units(size, x.dtype) * length)[..., None, None]
    unit = size / jnp.where(tolerance > 0, tolerance, 1)
    rows = made_diagonal(
        _eye(x, size),
        lambda rows: rows @ scaled @ adjoint(rows),
        lambda known: unit * jnp.abs(known),
        lambda above: jnp.sqrt(2 * jnp.sum(above * above, (-2, -1))) / size,
    )
    vectors = adjoint(
        nearer_orthonormal(rows)
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
        wanted = {"full_matrices": full_matrices, "compute_uv": compute_uv}
        values, *vectors = svd(adjoint(x), **wanted, subset_by_index=subset_by_index)
        return (values, *(adjoint(v) for v in reversed(vectors)))
    if width == 0:
        return _empty(x, full_matrices, compute_uv)
    scale = scale_of(x, (-2, -1))
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
    known = rows / jnp.where(lengths > 0, lengths, 1)
    apart = jnp.abs(known @ adjoint(known) - jnp.eye(rows.shape[-2], dtype=rows.dtype))

    def others() -> jax.Array:
        right, upper = qr(adjoint(rows), pivoting=False, full_matrices=False)
        negative = jnp.real(diagonal(upper))[..., None] < 0
        return jnp.where(negative, -adjoint(right), adjoint(right))

    sound = jnp.max(apart) < jnp.sqrt(jnp.finfo(apart.dtype).eps)
    return lax.cond(sound, lambda: nearer_orthonormal(known), others)


def _empty(x: jax.Array, full_matrices: bool, compute_uv: bool) -> tuple[jax.Array, ...]:
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

    def excess(known: jax.Array) -> jax.Array:
        lengths = jnp.sqrt(jnp.real(diagonal(known)))
        bound = units * outer(lengths, lengths)
        return jnp.where(bound > 0, jnp.abs(known) / jnp.where(bound > 0, bound, 1), 0)

    start = jnp.concatenate([r, _eye(r, size)], -1)
    both = made_diagonal(start, products, excess, lambda above: jnp.max(above, (-2, -1)))
    # Most of the rounding of all rotations is in the lengths.
    both = both / jnp.sqrt(jnp.sum(squares(both[..., size:]), -1, keepdims=True))
    return both[..., :size], both[..., size:]


def _eye(x: jax.Array, size: int) -> jax.Array:
    """A unit matrix for each of the matrices."""
    return jnp.broadcast_to(jnp.eye(size, dtype=x.dtype), (*x.shape[:-2], size, size))
