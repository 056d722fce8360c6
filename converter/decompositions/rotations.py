"""Jacobi's rotations in parallel, and all of a sweep at once where they are small.

A round rotates every line of the first half against its opposite in the second half, all at once;
then the lines move on as the players of a tournament do, so that after ``n - 1`` rounds each has
met every other and all are where they began (Brent and Luk, The solution of singular-value and
symmetric eigenvalue problems on multiprocessor arrays, SIAM J. Sci. Stat. Comput. 6, 1985).
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.decompositions.matrices import adjoint, diagonal, entry, repeat

Swept = TypeVar("Swept")
Turn = Callable[[jax.Array], jax.Array]
"""What rotates rows."""

SWEEPS = 30
"""More than any matrix needs; some ten are usual."""

NEAR = 64
"""So many times what rounding leaves: from there on convergence is quadratic."""


def _order(width: int) -> np.ndarray:
    """How rows move on once each of the first half was rotated against its opposite."""
    p, q = np.arange(width // 2), np.arange(width // 2, width)
    moved = np.concatenate([p[:1], q[:1], p[1:-1], q[1:], p[-1:]])
    return moved if width > 2 else np.arange(width)


def _met(width: int) -> np.ndarray:
    """Where the entries of a round's matrix are in a line of cosines, sines of both signs, cosines
    and a zero.
    """
    half = width // 2
    p, q = np.arange(half), np.arange(half, width)
    places = np.full((width, width), 4 * half)
    places[p, p], places[q, p] = p, q
    places[p, q], places[q, q] = 2 * half + p, 2 * half + q
    return places[_order(width)]


def _rotation(known: jax.Array, few: int) -> Turn:
    """What takes a Hermitian matrix nearer to a diagonal one, from both sides: rows rotated against
    their opposites, then moved on. Of so ``few`` rows that is a product with a matrix, which a
    runtime takes as one node; of more of them it takes longer than to rotate each by itself.

    Of the angles that make an entry zero the smaller one, which moves and rounds little (Golub and
    Van Loan, algorithm 8.5.1). A complex entry is turned to a real one first.
    """
    width = known.shape[-1]
    half = width // 2
    flat = known.reshape(*known.shape[:-2], width * width)
    steps = np.arange(half) * (width + 1)
    both, values = flat[..., steps + half], jnp.real(flat)
    apart = values[..., steps + half * (width + 1)] - values[..., steps]
    slope, direction = _slopes(both, apart)
    cos = 1 / jnp.sqrt(1 + slope * slope)
    sin = slope * cos
    if width > few:
        return partial(_rotated_each, cos[..., None], sin[..., None], direction)
    parts = [cos, sin, -sin, cos]
    if direction is not None:
        parts = [*parts[:2], *(part * direction for part in parts[2:])]
    line = jnp.concatenate([*parts, jnp.zeros((*sin.shape[:-1], 1), both.dtype)], -1)
    return partial(jnp.matmul, line[..., _met(width).reshape(-1)].reshape(known.shape))


def _rotated_each(
    cos: jax.Array, sin: jax.Array, direction: jax.Array | None, rows: jax.Array
) -> jax.Array:
    half = rows.shape[-2] // 2
    first, second = rows[..., :half, :], rows[..., half:, :]
    second = second if direction is None else second * direction[..., None]
    both = jnp.concatenate([cos * first - sin * second, sin * first + cos * second], -2)
    return entry(both, _order(2 * half), -2)


def _slopes(both: jax.Array, apart: jax.Array) -> tuple[jax.Array, jax.Array | None]:
    """Tangents of the angles for entries, by how far those on the diagonal are apart; and the
    directions of complex entries.
    """
    size = jnp.abs(both) if jnp.iscomplexobj(both) else both
    tiny, most = jnp.finfo(size.dtype).tiny, jnp.sqrt(jnp.finfo(size.dtype).max) / 2
    ratio = jnp.clip(size / jnp.where(apart == 0, tiny, apart), -most, most)
    slope = ratio / (0.5 + jnp.sqrt(0.25 + ratio * ratio))
    if size is both:
        return slope, None
    return slope, jnp.where(size == 0, 1, both / jnp.where(size == 0, 1, size))


def _turned_at_once(known: jax.Array) -> tuple[Turn, jax.Array]:
    """All rotations of a sweep as one, by a matrix, and whether they are small enough for that.

    To first order their matrix is one and what is antisymmetric of the tangents; that is brought
    back among the rotations by steps of Newton and Schulz. What they leave is the square of what
    there was, as of a whole sweep.
    """
    eye = jnp.eye(known.shape[-1], dtype=known.dtype)
    values = jnp.real(diagonal(known))
    outside = jnp.where(eye != 0, jnp.zeros_like(known), known)
    slope, direction = _slopes(outside, values[..., None, :] - values[..., None])
    small = jnp.finfo(slope.dtype).eps ** (0.5**SCHULZ)
    sound = jnp.sum(slope * slope, (-2, -1)) < small
    turn = eye - (slope if direction is None else slope * direction)
    for _ in range(SCHULZ):
        turn = nearer_orthonormal(turn)
    return partial(jnp.matmul, turn), sound


SCHULZ = 3
"""Steps, of which each squares how far rows are from orthonormal."""


def nearer_orthonormal(rows: jax.Array) -> jax.Array:
    """Rows that are almost orthonormal, brought nearer to it (Newton and Schulz)."""
    return 1.5 * rows - 0.5 * (rows @ adjoint(rows) @ rows)


def made_diagonal(
    state: Swept,
    known: Callable[[Swept], jax.Array],
    turned: Callable[[Turn, Swept], Swept],
    measured: Callable[[jax.Array], jax.Array],
    few: int,
) -> Swept:
    """A state until its ``known`` matrix is diagonal within rounding, or near it and no nearer.

    Rotations are ``turned`` at once where that helps, else round by round. What is ``measured`` is
    in units of what rounding leaves.
    """
    width = known(state).shape[-1]

    def go_on(loop: Any) -> jax.Array:
        count, before, now, _ = loop
        return (count < SWEEPS) & jnp.any((now > 1) & ((now > NEAR) | (now < before)))

    def rotate(_: Any, state: Swept) -> Swept:
        return turned(_rotation(known(state), few), state)

    def again(loop: Any) -> Any:
        count, _, now, state = loop
        turn, sound = _turned_at_once(known(state))
        other = turned(turn, state)
        after = measured(known(other))
        better = sound & (after < now / 4)
        state = jax.tree.map(lambda x, y: jnp.where(better[..., None, None], x, y), other, state)
        after = jnp.where(better, after, now)

        def sweep() -> tuple[Swept, jax.Array]:
            turned_on = repeat(width - 1, rotate, state)
            return turned_on, measured(known(turned_on))

        state, after = lax.cond(jnp.all(better), lambda: (state, after), sweep)
        return count + 1, now, after, state

    first = measured(known(state))
    loop = (jnp.int32(0), jnp.full_like(first, jnp.inf), first, state)
    return lax.while_loop(go_on, again, loop)[-1]


def rounding_units(size: int, dtype: np.dtype) -> float:
    """What is left of orthogonality when rounding has its turn, measured on random matrices."""
    return float(jnp.finfo(dtype).eps) * max(1.0, math.sqrt(size) / 2)
