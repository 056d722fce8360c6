"""LU decompositions and their permutations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from converter.decompositions.matrices import (
    Index,
    entry,
    matrix_column,
    outer,
    repeat,
    row,
    with_column,
)
from converter.decompositions.registered import decomposition

State = tuple[jax.Array, jax.Array, jax.Array]


@decomposition("lu")
def lu(x: jax.Array) -> State:
    """``L`` below the diagonal and ``U`` from it on; the pivots; and the permutation of the rows.

    Elimination by columns with partial pivoting (Golub and Van Loan, Matrix Computations, 4th
    edition, algorithm 3.4.1). Of entries of the same size the first is the pivot, as in LAPACK.
    """
    *stack, height, width = x.shape
    rows, columns = lax.iota(jnp.int32, height), lax.iota(jnp.int32, width)
    count = min(height, width)

    def step(k: Index, state: State) -> State:
        known, pivots, order = state
        sizes = _lu_size(matrix_column(known, k))
        size = jnp.where(rows >= k, sizes, -jnp.ones_like(sizes))
        pivot = jnp.argmax(size, axis=-1).astype(jnp.int32)
        pivots = jnp.where(lax.iota(jnp.int32, count) == k, pivot[..., None], pivots)
        known = _swap(known, k, pivot)
        order = _swap(order[..., None], k, pivot)[..., 0]
        lead = matrix_column(known, k)
        top = entry(lead, k)[..., None]
        factors = lead / jnp.where(top == 0, jnp.ones_like(top), top)
        known = with_column(known, k, jnp.where(rows > k, factors, lead))
        inside = (rows > k)[:, None] & (columns > k)
        return jnp.where(inside, known - outer(factors, row(known, k)), known), pivots, order

    none = jnp.zeros((*stack, count), jnp.int32)
    return repeat(count, step, (x, none, jnp.broadcast_to(rows, (*stack, height))))


def _lu_size(x: jax.Array) -> jax.Array:
    """What pivots are chosen by, as in LAPACK: of complex numbers the sum of both parts'."""
    return jnp.abs(x.real) + jnp.abs(x.imag) if jnp.iscomplexobj(x) else jnp.abs(x)


def _swap(x: jax.Array, k: Index, pivot: jax.Array) -> jax.Array:
    """``x`` with row ``k`` and another one of each matrix exchanged."""
    rows = lax.iota(jnp.int32, x.shape[-2])[:, None]
    place = pivot[..., None, None]
    other = jnp.take_along_axis(x, place, axis=-2)
    moved = jnp.where(rows == place, row(x, k)[..., None, :], x)
    return jnp.where(rows == k, other, moved)


@decomposition("lu_pivots_to_permutation")
def lu_pivots_to_permutation(pivots: jax.Array, *, permutation_size: int) -> jax.Array:
    """The order of the rows after row ``i`` was exchanged with row ``pivots[i]``, one by one."""
    *stack, count = pivots.shape
    rows = lax.iota(jnp.int32, permutation_size)

    def step(k: Index, order: jax.Array) -> jax.Array:
        return _swap(order[..., None], k, entry(pivots, k))[..., 0]

    return repeat(count, step, jnp.broadcast_to(rows, (*stack, permutation_size)))
