"""Solve systems with a unit triangular matrix."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.decompositions.matrices import pad_zeros, take_index

BLOCK = 32
"""Number of rows up to which a triangle is inverted at once; larger ones are inverted block by
block."""


def unit_solve(strict: jax.Array, b: jax.Array, *, lower: bool) -> jax.Array:
    """Return ``x`` with ``x + strict @ x = b``.

    The matrix is ``I + strict``. Only the part of ``strict`` below the diagonal is read, or above
    it unless ``lower``. Diagonal blocks are inverted, and rows of blocks are solved in order (Golub
    and Van Loan, section 3.1.4).
    """
    size, width = b.shape[-2:]
    if size <= BLOCK:
        return _unit_solve_block(strict, b, lower)
    strict = jnp.tril(strict, -1) if lower else jnp.triu(strict, 1)
    count, stack = -(-size // BLOCK), b.shape[:-2]
    padded_size = count * BLOCK
    lines = pad_zeros(strict, padded_size, padded_size).reshape(*stack, count, BLOCK, padded_size)
    right_blocks = pad_zeros(b, padded_size, width).reshape(*stack, count, BLOCK, width)
    numbers = lax.iota(jnp.int32, count)[:, None]

    def step(x: jax.Array, block_row: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
        i, line, right_side = block_row
        diagonal_block = take_index(line.reshape(*stack, BLOCK, count, BLOCK), i, -2)[..., 0, :]
        right_side = right_side - line @ x.reshape(*stack, padded_size, width)
        solution = _unit_solve_block(diagonal_block, right_side, lower)
        return jnp.where(numbers[..., None] == i, solution[..., None, :, :], x), None

    blocks = (numbers, jnp.moveaxis(lines, -3, 0), jnp.moveaxis(right_blocks, -3, 0))
    x, _ = lax.scan(step, jnp.zeros_like(right_blocks), blocks, reverse=not lower)
    return x.reshape(*stack, padded_size, width)[..., :size, :]


def _unit_solve_block(strict: jax.Array, b: jax.Array, lower: bool) -> jax.Array:
    """Return ``x`` with ``x + strict @ x = b`` for up to `BLOCK` rows, as `unit_solve` does.

    The inverses of diagonal blocks are computed, whose size doubles in each step. The inverse of
    ``[[A, 0], [C, B]]`` is ``[[A', 0], [-B' C A', B']]`` with the inverses of both. The last step
    multiplies without forming the inverse.
    """
    size = strict.shape[-1]
    indices = np.arange(size)
    i, j = (indices[:, None], indices) if lower else (indices, indices[:, None])

    def coupling(width: int) -> jax.Array:
        is_coupling = (i // width == j // width + 1) & (i // width % 2 == 1)
        return jnp.where(is_coupling, strict, jnp.zeros_like(strict))

    if size <= 2:
        return b - coupling(1) @ b
    inverse, width = jnp.eye(size, dtype=strict.dtype) - coupling(1), 2
    while 2 * width < size:
        inverse = inverse - inverse @ coupling(width) @ inverse
        width *= 2
    x = inverse @ b
    return x - inverse @ (coupling(width) @ x) if width < size else x
