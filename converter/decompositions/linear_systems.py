"""Systems of linear equations with triangular and tridiagonal matrices."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from converter.decompositions.matrices import Index, entry, repeat, row, with_row
from converter.decompositions.registered import decomposition
from converter.errors import Unsupported

Arrays = tuple[jax.Array, ...]


@decomposition("triangular_solve")
def triangular_solve(
    a: jax.Array,
    b: jax.Array,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> jax.Array:
    """``X`` of ``op(a) X = b``, or of ``X op(a) = b`` unless ``left_side``.

    Row by row, from the one that has one unknown (Golub and Van Loan, Matrix Computations, 4th
    edition, algorithms 3.1.1 and 3.1.2). The other triangle of ``a`` is not read, and with
    ``unit_diagonal`` the diagonal neither.
    """
    if conjugate_a:
        a = jnp.conj(a)
    if transpose_a == left_side:  # X op(a) = b is op(a).T X.T = b.T
        a, lower = a.mT, not lower
    size = a.shape[-1]
    known = jnp.tril(a, -1) if lower else jnp.triu(a, 1)
    b = b if left_side else b.mT

    def step(k: Index, x: jax.Array) -> jax.Array:
        i = k if lower else size - 1 - k
        weights = row(known, i)
        rest = row(b, i) - jnp.matmul(weights[..., None, :], x)[..., 0, :]
        return with_row(x, i, rest if unit_diagonal else rest / entry(row(a, i), i)[..., None])

    x = repeat(size, step, jnp.zeros_like(b))
    return x if left_side else x.mT


@decomposition("tridiagonal_solve")
def tridiagonal_solve(
    below: jax.Array, middle: jax.Array, above: jax.Array, b: jax.Array, *, perturb_singular: bool
) -> jax.Array:
    """``X`` of ``A X = b``, for the three diagonals of ``A``, each as long as the middle one.

    Gaussian elimination with exchanges of neighbouring rows, as LAPACK's ``gtsv`` does it (Golub
    and Van Loan, section 4.3.5). A row that is eliminated keeps three diagonals: its own, and two
    to the right.
    """
    if perturb_singular:
        raise Unsupported(
            "tridiagonal_solve: perturb_singular=True cannot be written; leave it out"
        )
    diagonals = [jnp.moveaxis(d, -1, 0)[..., None] for d in (below, middle, above)]
    low, mid, up = diagonals
    right = jnp.moveaxis(b, -2, 0)
    up = jnp.concatenate([up[:-1], jnp.zeros_like(up[:1])])
    start: Arrays = (mid[0], up[0], right[0])
    last, rows = lax.scan(_eliminate, start, (low[1:], mid[1:], up[1:], right[1:]))
    final = last[2] / last[0]
    end: Arrays = (final, jnp.zeros_like(final))
    _, others = lax.scan(_substitute, end, rows, reverse=True)
    return jnp.moveaxis(jnp.concatenate([others, final[None]]), 0, -2)


def _eliminate(top: Arrays, following: Arrays) -> tuple[Arrays, Arrays]:
    """What is left of a row without its first diagonal, and the row that took it out."""
    first, second, rest = top
    lead, own, further, value = following
    swap = jnp.abs(lead) > jnp.abs(first)
    factor = jnp.where(swap, first, lead) / jnp.where(swap, lead, first)
    done = (
        jnp.where(swap, lead, first),
        jnp.where(swap, own, second),
        jnp.where(swap, further, 0),
        jnp.where(swap, value, rest),
    )
    left = (
        jnp.where(swap, second - factor * own, own - factor * second),
        jnp.where(swap, -factor * further, further),
        jnp.where(swap, rest - factor * value, value - factor * rest),
    )
    return left, done


def _substitute(state: Arrays, line: Arrays) -> tuple[Arrays, jax.Array]:
    next_one, one_after = state
    pivot, second, third, value = line
    x = (value - second * next_one - third * one_after) / pivot
    return (x, next_one), x
