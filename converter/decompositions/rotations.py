"""Jacobi's rotations of all pairs of rows at once.

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

from converter.decompositions.matrices import adjoint, diagonal, squares

STEPS = 400
"""Several times what any matrix took that was tried: 56 of 200 rows."""

NEAR = 64
"""So many times what rounding leaves: from there on a step that brings nothing is the last."""

NOISE = 0.5
"""Entries of so many times what rounding leaves are no reason to turn anything."""


def made_diagonal(
    rows: jax.Array,
    known: Callable[[jax.Array], jax.Array],
    excess: Callable[[jax.Array], jax.Array],
    measured: Callable[[jax.Array], jax.Array],
) -> jax.Array:
    """Rows, turned until their ``known`` matrix is diagonal within rounding, or near it and no
    nearer.

    ``excess`` are magnitudes of that Hermitian matrix in units of what rounding leaves, and what is
    ``measured`` of those above the diagonal says how far it is.
    """
    size = rows.shape[-2]
    above = np.triu(np.ones((size, size), bool), 1)

    def seen(rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        matrix = known(rows)
        units = jnp.where(above, excess(matrix), 0)
        return measured(units), _tangents(jnp.where(units > NOISE, matrix, 0), diagonal(matrix))

    def go_on(loop: Any) -> jax.Array:
        count, before, now, *_ = loop
        return (count < STEPS) & jnp.any((now > 1) & ((now > NEAR) | (now < before)))

    def again(loop: Any) -> Any:
        count, _, now, tangents, rows = loop
        rows = _nearest_rotation(tangents) @ rows
        return count + 1, now, *seen(rows), rows

    now, tangents = seen(rows)
    loop = (jnp.int32(0), jnp.full_like(now, jnp.inf), now, tangents, rows)
    return lax.while_loop(go_on, again, loop)[-1]


def _tangents(above: jax.Array, values: jax.Array) -> jax.Array:
    """Those of the angles that make entries zero, which are ``above`` a diagonal of ``values``.

    Of the two angles that do it the smaller one, which moves and rounds little (Golub and Van Loan,
    algorithm 8.5.1). A complex entry is turned to a real one first.
    """
    values = values.real
    apart = values[..., None, :] - values[..., None]
    size = jnp.abs(above) if jnp.iscomplexobj(above) else above
    kind = jnp.finfo(size.dtype)
    most = jnp.sqrt(kind.max) / 2
    ratio = jnp.clip(size / jnp.where(apart == 0, kind.tiny, apart), -most, most)
    tangent = ratio / (0.5 + jnp.sqrt(0.25 + ratio * ratio))
    if size is not above:
        tangent = tangent * jnp.where(size == 0, 1, above / jnp.where(size == 0, 1, size))
    return tangent - adjoint(tangent)


SERIES, OFF = (-0.448, 0.158), 0.0043
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
    left = OFF
    while left > jnp.finfo(turn.dtype).eps / 4:
        turn, left = nearer_orthonormal(turn), 1.5 * left**2
    return turn


def nearer_orthonormal(rows: jax.Array) -> jax.Array:
    """Rows that are almost orthonormal, brought nearer to it (Newton and Schulz)."""
    return 1.5 * rows - 0.5 * (rows @ adjoint(rows) @ rows)


def rounding_units(size: int, dtype: np.dtype) -> float:
    """What is left of orthogonality when rounding has its turn, measured on random matrices."""
    return float(jnp.finfo(dtype).eps) * max(1.0, math.sqrt(size) / 2)
