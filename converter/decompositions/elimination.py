"""Cholesky and LU decompositions, and systems of linear equations."""

import jax
import jax.numpy as jnp
from jax import lax

from converter.decompositions import matrices
from converter.decompositions.matrices import Index, entry, repeat, row, with_column, with_row
from converter.decompositions.registered import decomposition
from converter.errors import Unsupported


@decomposition("cholesky", of_complex=True)
def cholesky(x: jax.Array) -> jax.Array:
    """``L`` with ``x = L @ L.T`` in the lower triangle; NaN if ``x`` is not positive definite.

    Column by column, each by one product of a matrix with a vector (Golub and Van Loan, algorithm
    4.2.1). Of ``x`` the lower triangle is read; the other one stays, as LAPACK leaves it. Of
    complex numbers ``L.T`` is the adjoint, and the diagonal is taken for real.
    """
    size = x.shape[-1]
    rows = lax.iota(jnp.int32, size)

    def step(j: Index, known: jax.Array) -> jax.Array:
        rest = entry(x, j) - matrices.matrix_times(known, jnp.conj(row(known, j)))
        scaled = rest / jnp.sqrt(jnp.real(entry(rest, j)))[..., None]
        if jnp.iscomplexobj(x):
            scaled = jnp.where(rows == j, scaled.real, scaled)
        return with_column(known, j, jnp.where(rows >= j, scaled, jnp.zeros_like(scaled)))

    result = repeat(size, step, jnp.zeros_like(x))
    definite = jnp.all(jnp.real(matrices.diagonal(result)) > 0, axis=-1)
    result = jnp.where(rows[:, None] >= rows, result, x)
    undefined = complex(jnp.nan, jnp.nan) if jnp.iscomplexobj(x) else jnp.nan
    return jnp.where(definite[..., None, None], result, jnp.full_like(x, undefined))


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


Eliminated = tuple[jax.Array, jax.Array, jax.Array]


@decomposition("lu", of_complex=True)
def lu(x: jax.Array) -> Eliminated:
    """``L`` below the diagonal and ``U`` from it on; the pivots; and the permutation of the rows.

    Elimination by columns with partial pivoting (Golub and Van Loan, algorithm 3.4.1). Of entries
    of the same size the first is the pivot, as in LAPACK.
    """
    *stack, height, width = x.shape
    rows, columns = lax.iota(jnp.int32, height), lax.iota(jnp.int32, width)
    count = min(height, width)

    def step(k: Index, state: Eliminated) -> Eliminated:
        known, pivots, order = state
        sizes = _lu_size(entry(known, k))
        size = jnp.where(rows >= k, sizes, -jnp.ones_like(sizes))
        pivot = jnp.argmax(size, axis=-1).astype(jnp.int32)
        pivots = jnp.where(lax.iota(jnp.int32, count) == k, pivot[..., None], pivots)
        known = _swap(known, k, pivot)
        order = _swap(order[..., None], k, pivot)[..., 0]
        lead = entry(known, k)
        top = entry(lead, k)[..., None]
        factors = lead / jnp.where(top == 0, jnp.ones_like(top), top)
        known = with_column(known, k, jnp.where(rows > k, factors, lead))
        inside = (rows > k)[:, None] & (columns > k)
        return (
            jnp.where(inside, known - matrices.outer(factors, row(known, k)), known),
            pivots,
            order,
        )

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


Arrays = tuple[jax.Array, ...]


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

    Row by row, from the one that has one unknown (Golub and Van Loan, algorithms 3.1.1, 3.1.2). The
    other triangle of ``a`` is not read, and with ``unit_diagonal`` the diagonal neither.
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
