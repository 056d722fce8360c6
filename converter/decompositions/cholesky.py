"""Cholesky decompositions, and what one row more makes of them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from converter.decompositions.matrices import (
    Index,
    diagonal,
    entry,
    matrix_column,
    matrix_times,
    repeat,
    row,
    with_column,
    with_row,
)
from converter.decompositions.registered import decomposition


@decomposition("cholesky")
def cholesky(x: jax.Array) -> jax.Array:
    """``L`` with ``x = L @ L.T`` in the lower triangle; NaN if ``x`` is not positive definite.

    Of complex numbers ``L.T`` is the adjoint, and the diagonal is taken for real.

    Column by column, each by one product of a matrix with a vector (Golub and Van Loan, Matrix
    Computations, 4th edition, algorithm 4.2.1). Of ``x`` the lower triangle is read; the
    other one stays, as LAPACK leaves it.
    """
    size = x.shape[-1]
    rows = lax.iota(jnp.int32, size)

    def step(j: Index, known: jax.Array) -> jax.Array:
        rest = matrix_column(x, j) - matrix_times(known, jnp.conj(row(known, j)))
        scaled = rest / jnp.sqrt(jnp.real(entry(rest, j)))[..., None]
        if jnp.iscomplexobj(x):
            scaled = jnp.where(rows == j, scaled.real, scaled)
        return with_column(known, j, jnp.where(rows >= j, scaled, jnp.zeros_like(scaled)))

    result = repeat(size, step, jnp.zeros_like(x))
    definite = jnp.all(jnp.real(diagonal(result)) > 0, axis=-1)
    result = jnp.where(rows[:, None] >= rows, result, x)
    return jnp.where(definite[..., None, None], result, jnp.full_like(x, _undefined(x)))


def _undefined(x: jax.Array) -> complex | float:
    return complex(jnp.nan, jnp.nan) if jnp.iscomplexobj(x) else jnp.nan


@decomposition("cholesky_update")
def cholesky_update(factor: jax.Array, vector: jax.Array) -> jax.Array:
    """Upper triangular ``S`` with ``S.T @ S = R.T @ R + v v.T``, for the factor ``R``.

    A Givens rotation for each row (Golub and Van Loan, algorithm 5.1.3 and section 6.5.4).
    """

    def step(k: Index, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        known, rest = state
        line = row(known, k)
        x, y = entry(line, k), entry(rest, k)
        largest = jnp.maximum(jnp.abs(x), jnp.abs(y))
        safe = jnp.where(y == 0, jnp.ones_like(largest), largest)
        length = jnp.sqrt((x / safe) ** 2 + (y / safe) ** 2)
        cos = jnp.where(y == 0, jnp.ones_like(x), x / safe / length)[..., None]
        sin = jnp.where(y == 0, jnp.zeros_like(y), -y / safe / length)[..., None]
        return with_row(known, k, cos * line - sin * rest), cos * rest + sin * line

    return repeat(factor.shape[-1], step, (factor, vector))[0]


@decomposition("symmetric_product")
def symmetric_product(x: jax.Array, y: jax.Array, *, alpha: float, beta: float) -> jax.Array:
    """``alpha * x @ x.T + beta * y``, by its definition."""
    return alpha * (x @ x.mT) + beta * y
