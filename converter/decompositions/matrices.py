"""What the matrix decompositions have in common: loops, and rows and columns of stacks of matrices.

All of them take stacks ``[..., rows, columns]`` of real or complex numbers. An index is a Python
integer where the loop is written out, else a traced one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Index = Any
State = TypeVar("State")

UNROLLED = 4
"""Loops of so many rounds are written out."""


def repeat(rounds: Index, body: Callable[[Index, State], State], state: State) -> State:
    """``body(i, state)`` for every ``i`` from zero to ``rounds - 1``."""
    if not isinstance(rounds, int) or rounds > UNROLLED:
        return lax.fori_loop(0, rounds, body, state)
    for i in range(rounds):
        state = body(i, state)
    return state


def entry(x: jax.Array, i: Index, axis: int = -1) -> jax.Array:
    """One index of an axis, which goes."""
    if isinstance(i, int):
        return lax.index_in_dim(x, i, axis, keepdims=False)
    return lax.dynamic_index_in_dim(x, i, axis, keepdims=False)


def row(x: jax.Array, i: Index) -> jax.Array:
    return entry(x, i, -2)


def matrix_column(x: jax.Array, j: Index) -> jax.Array:
    return entry(x, j, -1)


def with_row(x: jax.Array, i: Index, value: jax.Array) -> jax.Array:
    """``x`` with another row."""
    return jnp.where(lax.iota(jnp.int32, x.shape[-2])[:, None] == i, value[..., None, :], x)


def with_column(x: jax.Array, j: Index, value: jax.Array) -> jax.Array:
    """``x`` with another column."""
    return jnp.where(lax.iota(jnp.int32, x.shape[-1]) == j, value[..., :, None], x)


def adjoint(x: jax.Array) -> jax.Array:
    """Matrices transposed, of conjugate numbers if they are complex."""
    return jnp.conj(x.mT)


def squares(x: jax.Array) -> jax.Array:
    """Squares of magnitudes."""
    return x.real**2 + x.imag**2 if jnp.iscomplexobj(x) else x**2


def real_dtype_of(x: jax.Array) -> np.dtype:
    """The dtype of magnitudes."""
    return np.dtype(jnp.finfo(x.dtype).dtype)


def matrix_times(x: jax.Array, y: jax.Array) -> jax.Array:
    """Products of matrices with vectors."""
    return jnp.matmul(x, y[..., None])[..., 0]


def outer(x: jax.Array, y: jax.Array) -> jax.Array:
    """Every element of one vector times every one of the other."""
    return x[..., :, None] * y[..., None, :]


def diagonal(x: jax.Array, right: int = 0) -> jax.Array:
    """The diagonal of square matrices, or the one so many places to the right of it."""
    size = x.shape[-1]
    flat = x.reshape(*x.shape[:-2], size * size)
    count = size - right
    return lax.slice_in_dim(flat, right, right + (count - 1) * (size + 1) + 1, size + 1, axis=-1)
