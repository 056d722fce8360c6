"""Cholesky and LU decompositions, and systems of linear equations."""

import jax
import jax.numpy as jnp
from jax import lax

from converter.decompositions import matrices
from converter.decompositions.matrices import (
    Index,
    collect,
    entry,
    exchange,
    repeat,
    taken,
)
from converter.decompositions.registered import decomposition
from converter.errors import Unsupported


@decomposition("cholesky", of_complex=True)
def cholesky(x: jax.Array) -> jax.Array:
    """``L`` with ``x = L @ L.T`` in the lower triangle; NaN if ``x`` is not positive definite.

    Row by row of ``L.T``, each taken out of all that is left (Golub and Van Loan, algorithm 4.2.2);
    the roots of the pivots are taken at the end. Of ``x`` the lower triangle is read; the other one
    stays, as LAPACK leaves it. Of complex numbers ``L.T`` is the adjoint, and the diagonal is taken
    for real.
    """
    size = x.shape[-1]
    rows = lax.iota(jnp.int32, size)
    below = rows[:, None] > rows
    whole = jnp.where(below, x, matrices.adjoint(x))
    if jnp.iscomplexobj(x):
        whole = jnp.where(rows[:, None] == rows, jnp.real(x), whole)

    def step(k: Index, rest: jax.Array) -> tuple[jax.Array, tuple[jax.Array]]:
        line = entry(rest, k, -2)
        return rest - entry(rest, k, -1) * (line / jnp.real(entry(line, k, -1))), (line,)

    _, (lines,) = collect(size, step, whole)
    lines = jnp.moveaxis(lines[..., 0, :], 0, -2)
    pivots = jnp.real(matrices.diagonal(lines))
    factor = matrices.adjoint(lines / jnp.sqrt(pivots)[..., None])
    if jnp.iscomplexobj(x):
        factor = jnp.where(rows[:, None] == rows, jnp.real(factor), factor)
    result = jnp.where(rows[:, None] >= rows, factor, x)
    definite = jnp.all(pivots > 0, axis=-1)
    undefined = complex(jnp.nan, jnp.nan) if jnp.iscomplexobj(x) else jnp.nan
    return jnp.where(definite[..., None, None], result, jnp.full_like(x, undefined))


@decomposition("cholesky_update")
def cholesky_update(factor: jax.Array, vector: jax.Array) -> jax.Array:
    """Upper triangular ``S`` with ``S.T @ S = R.T @ R + v v.T``, for the factor ``R``.

    A Givens rotation for each row (Golub and Van Loan, algorithm 5.1.3 and section 6.5.4).
    """

    def step(k: Index, rest: jax.Array) -> tuple[jax.Array, tuple[jax.Array]]:
        line = entry(factor, k, -2)[..., 0, :]
        x, y = entry(line, k, -1), entry(rest, k, -1)
        largest = jnp.maximum(jnp.abs(x), jnp.abs(y))
        safe = jnp.where(y == 0, jnp.ones_like(largest), largest)
        length = jnp.sqrt((x / safe) ** 2 + (y / safe) ** 2)
        cos = jnp.where(y == 0, jnp.ones_like(x), x / safe / length)
        sin = jnp.where(y == 0, jnp.zeros_like(y), -y / safe / length)
        return cos * rest + sin * line, (cos * line - sin * rest,)

    _, (lines,) = collect(factor.shape[-1], step, vector)
    return jnp.moveaxis(lines, 0, -2)


@decomposition("symmetric_product")
def symmetric_product(x: jax.Array, y: jax.Array, *, alpha: float, beta: float) -> jax.Array:
    """``alpha * x @ x.T + beta * y``, by its definition."""
    return alpha * (x @ x.mT) + beta * y


Arrays = tuple[jax.Array, ...]


@decomposition("lu", of_complex=True)
def lu(x: jax.Array) -> Arrays:
    """``L`` below the diagonal and ``U`` from it on; the pivots; and the permutation of the rows.

    Elimination by columns with partial pivoting (Golub and Van Loan, algorithm 3.4.1). Of entries
    of the same size the first is the pivot, as in LAPACK.
    """
    *stack, height, width = x.shape
    rows, columns = lax.iota(jnp.int32, height)[:, None], lax.iota(jnp.int32, width)

    def step(k: Index, state: Arrays) -> tuple[Arrays, tuple[jax.Array]]:
        known, order = state
        sizes = jnp.where(rows >= k, _lu_size(entry(known, k, -1)), -1)
        pivot = jnp.argmax(sizes, axis=-2).astype(jnp.int32)
        places = exchange(k, pivot, height)
        known, order = taken(known, places, -2), taken(order, places, -2)
        lead, top = entry(known, k, -1), entry(known, k, -2)
        pivoted = entry(top, k, -1)
        factors = lead / jnp.where(pivoted == 0, jnp.ones_like(pivoted), pivoted)
        right = jnp.where(columns > k, top, jnp.zeros_like(top))
        rest = known - jnp.where(rows > k, factors, jnp.zeros_like(lead)) * right
        done = jnp.where(rows > k, factors, lead)
        return (jnp.where(columns == k, done, rest), order), (pivot,)

    start: Arrays = (x, jnp.broadcast_to(rows, (*stack, height, 1)))
    (known, order), (pivots,) = collect(min(height, width), step, start)
    return known, jnp.moveaxis(pivots[..., 0], 0, -1), order[..., 0]


def _lu_size(x: jax.Array) -> jax.Array:
    """What pivots are chosen by, as in LAPACK: of complex numbers the sum of both parts'."""
    return jnp.abs(x.real) + jnp.abs(x.imag) if jnp.iscomplexobj(x) else jnp.abs(x)


@decomposition("lu_pivots_to_permutation")
def lu_pivots_to_permutation(pivots: jax.Array, *, permutation_size: int) -> jax.Array:
    """The order of the rows after row ``i`` was exchanged with row ``pivots[i]``, one by one."""
    *stack, count = pivots.shape
    rows = lax.iota(jnp.int32, permutation_size)[:, None]

    def step(k: Index, order: jax.Array) -> jax.Array:
        return taken(order, exchange(k, entry(pivots, k, -1), permutation_size), -2)

    return repeat(count, step, jnp.broadcast_to(rows, (*stack, permutation_size, 1)))[..., 0]


@decomposition("triangular_solve", of_complex=True)
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

    Rows are divided by the diagonal first. The other triangle of ``a`` is not read, and with
    ``unit_diagonal`` the diagonal neither.
    """
    if conjugate_a:
        a = jnp.conj(a)
    if transpose_a == left_side:  # X op(a) = b is op(a).T X.T = b.T
        a, lower = a.mT, not lower
    known = jnp.tril(a, -1) if lower else jnp.triu(a, 1)
    b = b if left_side else b.mT
    if not unit_diagonal:
        pivots = matrices.diagonal(a)[..., None]
        known, b = known / pivots, b / pivots
    x = matrices.unit_solve(known, b, lower=lower)
    return x if left_side else x.mT


@decomposition("tridiagonal_solve", of_complex=True)
def tridiagonal_solve(
    below: jax.Array, middle: jax.Array, above: jax.Array, b: jax.Array, *, perturb_singular: bool
) -> jax.Array:
    """``X`` of ``A X = b``, for the three diagonals of ``A``, each as long as the middle one.

    Gaussian elimination with exchanges of neighbouring rows, as LAPACK's ``gtsv`` does it (Golub
    and Van Loan, section 4.3.5). A row that is eliminated keeps three diagonals: its own, and two
    to the right.
    """
    if perturb_singular:
        why = "tridiagonal_solve: perturb_singular=True cannot be written; leave it out"
        raise Unsupported(why)
    low, mid, up = (jnp.moveaxis(d, -1, 0)[..., None] for d in (below, middle, above))
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

    def either(exchanged: jax.Array, kept: jax.Array | int) -> jax.Array:
        return jnp.where(swap, exchanged, kept)

    done = either(lead, first), either(own, second), either(further, 0), either(value, rest)
    left = (
        either(second - factor * own, own - factor * second),
        either(-factor * further, further),
        either(rest - factor * value, value - factor * rest),
    )
    return left, done


def _substitute(state: Arrays, line: Arrays) -> tuple[Arrays, jax.Array]:
    next_one, one_after = state
    pivot, second, third, value = line
    x = (value - second * next_one - third * one_after) / pivot
    return (x, next_one), x
