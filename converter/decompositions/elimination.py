"""Compute Cholesky and LU decompositions, and solve systems of linear equations."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.decompositions import matrices
from converter.decompositions.matrices import (
    Index,
    collect,
    collect_rows,
    exchanged_positions,
    iterate,
    take_index,
    take_per_matrix,
)
from converter.decompositions.registered import decomposition
from converter.decompositions.triangles import unit_solve
from converter.errors import UnsupportedError

EliminationStep = tuple[jax.Array, jax.Array]
"""The remaining matrix after a step, and the row that the step computed."""


@decomposition("cholesky", of_complex=True)
def cholesky(x: jax.Array) -> jax.Array:
    """Return matrices with the Cholesky factor ``L`` of ``x`` in the lower triangle: ``x = L @
    L.T``.

    Above the diagonal the result is ``x``, as in LAPACK. A matrix that is not positive definite
    becomes NaN entirely. Only the lower triangle of ``x`` is used to compute ``L``. For complex
    numbers ``L.T`` is the adjoint, and the diagonal of ``x`` is treated as real. The rows of
    ``L.T`` are computed in order and subtracted from the remaining matrix (Golub and Van Loan,
    algorithm 4.2.2). The roots of the pivots are taken at the end.
    """
    size = x.shape[-1]
    rows = lax.iota(jnp.int32, size)
    below = rows[:, None] > rows
    symmetric = jnp.where(below, x, matrices.adjoint(x))
    if jnp.iscomplexobj(x):
        symmetric = jnp.where(rows[:, None] == rows, jnp.real(x), symmetric)

    def step(k: Index, remaining: jax.Array) -> EliminationStep:
        line = take_index(remaining, k, -2)
        return remaining - take_index(remaining, k, -1) * (
            line / jnp.real(take_index(line, k, -1))
        ), line

    _, lines = collect_rows(size, step, symmetric)
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
    """Return the upper triangular ``S`` with ``S.T @ S = R.T @ R + v v.T``.

    ``R`` is ``factor`` and ``v`` is ``vector``. Each row is changed by a Givens rotation (Golub and
    Van Loan, algorithm 5.1.3 and section 6.5.4).
    """

    def step(k: Index, remaining: jax.Array) -> tuple[jax.Array, tuple[jax.Array]]:
        line = take_index(factor, k, -2)[..., 0, :]
        x, y = take_index(line, k, -1), take_index(remaining, k, -1)
        largest = jnp.maximum(jnp.abs(x), jnp.abs(y))
        safe = jnp.where(y == 0, jnp.ones_like(largest), largest)
        length = jnp.sqrt((x / safe) ** 2 + (y / safe) ** 2)
        cos = jnp.where(y == 0, jnp.ones_like(x), x / safe / length)
        sin = jnp.where(y == 0, jnp.zeros_like(y), -y / safe / length)
        return cos * remaining + sin * line, (cos * line - sin * remaining,)

    _, (lines,) = collect(factor.shape[-1], step, vector)
    return jnp.moveaxis(lines, 0, -2)


@decomposition("symmetric_product")
def symmetric_product(x: jax.Array, y: jax.Array, *, alpha: float, beta: float) -> jax.Array:
    """Return ``alpha * x @ x.T + beta * y``."""
    return alpha * (x @ x.mT) + beta * y


Arrays = tuple[jax.Array, ...]


@decomposition("lu", of_complex=True)
def lu(x: jax.Array) -> Arrays:
    """Return the LU decomposition of ``x`` [..., m, n] with partial pivoting.

    The results are ``L`` and ``U`` in one matrix [..., m, n], the pivots [..., min(m, n)], and the
    permutation of the rows [..., m]. In step ``k`` LAPACK exchanges row ``k`` with row
    ``pivots[k]``, counted from 0. Row ``i`` of ``L @ U`` is row ``permutation[i]`` of ``x``. Among
    entries of the same size the first one is the pivot, as in LAPACK.

    Elimination is by columns (Golub and Van Loan, algorithm 3.4.1). Rows are not moved during
    elimination. A step searches for its pivot in the order in which LAPACK would have the remaining
    rows.
    """
    *stack, height, width = x.shape
    count, rows = min(height, width), lax.iota(jnp.int32, height + 1)
    following = jnp.asarray(_remaining_orders(height))

    def step(k: Index, state: Arrays) -> tuple[Arrays, Arrays]:
        matrix, order = state
        lead = take_index(matrix, k, -1)
        position = jnp.argmax(_pivot_size(take_per_matrix(lead, order, -2)), axis=-2).astype(
            jnp.int32
        )
        row = _rows_at(order, position)
        top = take_per_matrix(matrix, row, -2)
        pivot = take_index(top, k, -1)
        factors = lead / jnp.where(pivot == 0, jnp.ones_like(pivot), pivot)
        order = _rows_at(order, jnp.reshape(take_index(following, position, 0), order.shape))
        return (matrix - factors * top, order), (position, row, top, factors)

    # The remaining rows are followed by an additional row of zeros.
    longer = matrices.pad_zeros(x, height + 1, width)
    start: Arrays = (longer, jnp.broadcast_to(rows, (*stack, height + 1)))
    (_, remaining), (positions, pivot_rows, tops, factors) = collect(count, step, start)
    positions, pivot_rows = (
        jnp.moveaxis(indices[..., 0], 0, -1) for indices in (positions, pivot_rows)
    )
    order = jnp.concatenate([pivot_rows, remaining[..., : height - count]], -1)
    lower = take_per_matrix(jnp.moveaxis(factors[..., 0], 0, -1), order, -2)
    lower_part = jnp.tril(matrices.pad_zeros(lower, height, width), -1)
    upper = jnp.triu(jnp.moveaxis(tops[..., 0, :], 0, -2))
    return lower_part + matrices.pad_zeros(upper, height, width), positions + rows[:count], order


def _remaining_orders(size: int) -> np.ndarray:
    """Return, for each position of the pivot, the order of the remaining rows after the step.

    Row ``p`` of the result has the positions of these rows before the step, if the row at position
    ``p`` is the pivot. As in LAPACK, the row at the first position takes the place of the pivot,
    and the others move up by one. The last two entries of a row are ``size``, the position of an
    additional row of zeros. The result is [size, size + 1].
    """
    orders = np.minimum(np.arange(1, size + 2, dtype=np.int32), size)[None].repeat(size, 0)
    orders[np.arange(1, size), np.arange(size - 1)] = 0
    return orders


def _rows_at(order: jax.Array, positions: jax.Array) -> jax.Array:
    """Return the row numbers that ``order`` has at these positions.

    Arguments:
        order: the numbers of rows, [..., size].
        positions: [..., count], where the axes before the last are those of ``order``.
    """
    if order.ndim == 1:
        return take_index(order, positions, 0)
    return jnp.take_along_axis(order, positions, -1, mode="promise_in_bounds")


def _pivot_size(x: jax.Array) -> jax.Array:
    """Return the magnitude by which LAPACK selects pivots: |x|, or |re| + |im| for complex
    numbers."""
    return jnp.abs(x.real) + jnp.abs(x.imag) if jnp.iscomplexobj(x) else jnp.abs(x)


@decomposition("lu_pivots_to_permutation")
def lu_pivots_to_permutation(pivots: jax.Array, *, permutation_size: int) -> jax.Array:
    """Return the order of rows [..., permutation_size] after row ``i`` is exchanged with row
    ``pivots[i]``, for all ``i`` in order.

    ``permutation_size`` is the number of rows.
    """
    *stack, count = pivots.shape
    rows = lax.iota(jnp.int32, permutation_size)[:, None]

    def step(k: Index, order: jax.Array) -> jax.Array:
        return take_per_matrix(
            order, exchanged_positions(k, take_index(pivots, k, -1), permutation_size), -2
        )

    return iterate(count, step, jnp.broadcast_to(rows, (*stack, permutation_size, 1)))[..., 0]


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
    """Return ``X`` with ``op(a) X = b``, or with ``X op(a) = b`` unless ``left_side``.

    ``op`` transposes ``a`` with ``transpose_a`` and conjugates it with ``conjugate_a``. With
    ``lower`` only the lower triangle of ``a``, before ``op``, is read, else the upper one. If
    ``unit_diagonal`` is true, the diagonal is assumed to be one and is not read. If the diagonal
    has a zero, infinities and NaN propagate from row to row as in BLAS.
    """
    if conjugate_a:
        a = jnp.conj(a)
    if transpose_a == left_side:  # X op(a) = b is op(a).T X.T = b.T
        a, lower = a.mT, not lower
    b = b if left_side else b.mT
    if unit_diagonal:
        x = unit_solve(a, b, lower=lower)
    elif b.shape[-2] <= matrices.UNROLLED:
        x = _substitute_rows(a, b, lower)
    else:
        pivots = matrices.diagonal(a)[..., None]
        x = lax.cond(
            jnp.any(pivots == 0),
            lambda: _substitute_rows(a, b, lower),
            lambda: unit_solve(a / pivots, b / pivots, lower=lower),
        )
    return x if left_side else x.mT


def _substitute_rows(a: jax.Array, b: jax.Array, lower: bool) -> jax.Array:
    """Return ``x`` with ``a @ x = b``, computed row by row (Golub and Van Loan, algorithm 3.1.3).

    The lower triangle of ``a`` is read, or the upper one unless ``lower``.
    """
    size = b.shape[-2]
    rows = lax.iota(jnp.int32, size)[:, None]

    def step(count: Index, right_side: jax.Array) -> jax.Array:
        k = count if lower else size - 1 - count
        column = take_index(a, k, -1)
        solved = take_index(right_side, k, -2) / take_index(column, k, -2)
        following = rows > k if lower else rows < k
        remaining = jnp.where(following, right_side - column * solved, right_side)
        return jnp.where(rows == k, solved, remaining)

    return iterate(size, step, b)


@decomposition("tridiagonal_solve", of_complex=True)
def tridiagonal_solve(
    below: jax.Array,
    middle: jax.Array,
    above: jax.Array,
    b: jax.Array,
    *,
    perturb_singular: bool = False,
) -> jax.Array:
    """Return ``X`` with ``A X = b`` for the matrix ``A`` with these three diagonals.

    The diagonals are all as long as the middle one; the first entry of ``below`` and the last one
    of ``above`` are not read. Gaussian elimination exchanges neighbouring rows, like LAPACK's
    ``gtsv`` (Golub and Van Loan, section 4.3.5). An eliminated row keeps its diagonal and two more
    entries to the right.

    Raises:
        UnsupportedError: with ``perturb_singular``.
    """
    if perturb_singular:
        reason = "tridiagonal_solve: perturb_singular=True cannot be written; leave it out"
        raise UnsupportedError(reason)
    low, mid, up = (jnp.moveaxis(d, -1, 0)[..., None] for d in (below, middle, above))
    right = jnp.moveaxis(b, -2, 0)
    up = jnp.concatenate([up[:-1], jnp.zeros_like(up[:1])])
    start: Arrays = (mid[0], up[0], right[0])
    last, rows = lax.scan(_eliminate, start, (low[1:], mid[1:], up[1:], right[1:]))
    final = last[2] / last[0]
    end: Arrays = (final, jnp.zeros_like(final))
    _, right_side = lax.scan(_substitute, end, rows, reverse=True)
    return jnp.moveaxis(jnp.concatenate([right_side, final[None]]), 0, -2)


def _eliminate(top: Arrays, following: Arrays) -> tuple[Arrays, Arrays]:
    """Eliminate the first unknown from one of two rows of a tridiagonal system by the other.

    Arguments:
        top: the row so far: its diagonal, the entry to the right, and its right side.
        following: the next row: the entries below, on and above the diagonal, and its right side.

    Returns:
        The row that remains, in the form of ``top``, and the row that eliminated it: its diagonal,
        two entries to the right, and its right side. The row whose first entry is larger in
        magnitude eliminates.
    """
    first, second, right_side = top
    lead, second_entry, further, value = following
    swap = jnp.abs(lead) > jnp.abs(first)
    factor = jnp.where(swap, first, lead) / jnp.where(swap, lead, first)

    def select(exchanged: jax.Array, unchanged: jax.Array | int) -> jax.Array:
        return jnp.where(swap, exchanged, unchanged)

    eliminated = (
        select(lead, first),
        select(second_entry, second),
        select(further, 0),
        select(value, right_side),
    )
    remaining = (
        select(second - factor * second_entry, second_entry - factor * second),
        select(-factor * further, further),
        select(right_side - factor * value, value - factor * right_side),
    )
    return remaining, eliminated


def _substitute(state: Arrays, line: Arrays) -> tuple[Arrays, jax.Array]:
    """Solve a row of the eliminated system for its unknown, given the two unknowns after it.

    Arguments:
        state: the next unknown, and the one after it.
        line: the diagonal, two entries to the right, and the right side of the row.

    Returns:
        The state for the row before, and the unknown of this row.
    """
    next_one, one_after = state
    pivot, second, third, value = line
    x = (value - second * next_one - third * one_after) / pivot
    return (x, next_one), x
