"""Helpers for stacks of matrices: rows, columns, and loops over them.

All functions take stacks ``[..., rows, columns]`` of real or complex numbers. The index that a loop
passes to its body is a Python integer if the loop is unrolled, otherwise a traced int32 array [1].
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

Index = Any
State = TypeVar("State")

UNROLLED = 4
"""Number of iterations up to which loops are unrolled."""


def iterate(rounds: int, body: Callable[[Index, State], State], state: State) -> State:
    """Return the state after ``state = body(i, state)`` for every ``i`` from 0 to ``rounds - 1``.

    The loop is unrolled for up to `UNROLLED` rounds.
    """
    return collect(rounds, lambda i, state_now: (body(i, state_now), ()), state)[0]


def collect(
    rounds: int, body: Callable[[Index, State], tuple[State, tuple[jax.Array, ...]]], state: State
) -> tuple[State, tuple[jax.Array, ...]]:
    """Return the final state and the stacked results of a loop.

    The body takes the number of the round and the state. It returns the new state and a tuple of
    arrays; the arrays of all rounds are stacked on a new first axis. The loop is unrolled for up to
    `UNROLLED` rounds.
    """
    if rounds > UNROLLED:
        numbers = lax.iota(jnp.int32, rounds)[:, None]
        return lax.scan(lambda state_now, i: body(i, state_now), state, numbers)
    results = []
    for i in range(rounds):
        state, step_results = body(i, state)
        results.append(step_results)
    return state, tuple(map(jnp.stack, zip(*results, strict=True)))


def collect_rows(
    rounds: int, body: Callable[[Index, State], tuple[State, jax.Array]], state: State
) -> tuple[State, jax.Array]:
    """Return the final state of a loop, and the rows that it computes as a matrix [..., rounds,
    columns].

    The body takes the number of the round and the state. It returns the new state and a row [...,
    1, columns]. The loop is unrolled for up to `UNROLLED` rounds.
    """
    if rounds > UNROLLED:
        numbers = lax.iota(jnp.int32, rounds)[:, None]
        state, rows = lax.scan(lambda state_now, i: body(i, state_now), state, numbers)
        return state, jnp.moveaxis(rows[..., 0, :], 0, -2)
    lines = []
    for i in range(rounds):
        state, line = body(i, state)
        lines.append(line)
    return state, jnp.concatenate(lines, -2)


def take_index(x: jax.Array, i: Index, axis: int) -> jax.Array:
    """Return entry ``i`` of an axis. The axis is kept.

    ``i`` is an integer, or an array of integers, whose axes replace the axis. With [1] the axis has
    size one. Indices must be within bounds, and negative ones do not count from the end.
    """
    axis = axis % x.ndim
    if isinstance(i, int):
        return lax.slice_in_dim(x, i, i + 1, axis=axis)
    index = (*(slice(None) for _ in range(axis)), i)
    return x.at[index].get(mode="promise_in_bounds", wrap_negative_indices=False)


def take_per_matrix(x: jax.Array, positions: jax.Array, axis: int) -> jax.Array:
    """Return the rows (``axis`` -2) or columns (-1) of each matrix at the positions for this
    matrix.

    ``positions`` [..., count] contains the positions for each matrix of the stack.
    """
    if x.ndim == 2:
        return take_index(x, positions, axis)
    along = jnp.expand_dims(positions, -1 if axis == -2 else -2)
    return jnp.take_along_axis(x, along, axis, mode="promise_in_bounds")


def exchanged_positions(k: Index, pivot: jax.Array, size: int) -> jax.Array:
    """Return the numbers from 0 to ``size - 1`` with ``k`` and ``pivot`` exchanged, as [..., size].

    ``pivot`` is [..., 1].
    """
    positions = lax.iota(jnp.int32, size)
    return jnp.where(positions == k, pivot, jnp.where(positions == pivot, k, positions))


def adjoint(x: jax.Array) -> jax.Array:
    """Return the transposed matrices, conjugated if they are complex."""
    return jnp.conj(x.mT)


def squares(x: jax.Array) -> jax.Array:
    """Return the squares of the magnitudes of real or complex numbers."""
    return x.real**2 + x.imag**2 if jnp.iscomplexobj(x) else x**2


def outer(x: jax.Array, y: jax.Array) -> jax.Array:
    """Return the outer products of two stacks of vectors: [..., i, j] is ``x[..., i] * y[...,
    j]``."""
    return x[..., :, None] * y[..., None, :]


def diagonal(x: jax.Array) -> jax.Array:
    """Return the diagonals [..., size] of square matrices."""
    size = x.shape[-1]
    flat = x.reshape(*x.shape[:-2], size * size)
    return lax.slice_in_dim(flat, 0, size * size, size + 1, axis=-1)


def pad_zeros(x: jax.Array, height: int, width: int) -> jax.Array:
    """Pad matrices `[..., rows, columns]` with zeros at the end, to `[..., height, width]`."""
    padding = [(0, 0)] * (x.ndim - 2) + [(0, height - x.shape[-2]), (0, width - x.shape[-1])]
    return jnp.pad(x, padding)


def safe_scale(x: jax.Array, axis: int | tuple[int, ...]) -> jax.Array:
    """Return a factor for ``x`` with which squares along ``axis`` neither overflow nor underflow.

    It is one if the largest magnitude is between 2**-24 and 2**24, or zero. Otherwise it makes the
    largest magnitude equal to the nearer of these bounds. The axes are kept, with size one.
    """
    largest = jnp.max(jnp.abs(x), axis=axis, keepdims=True, initial=0)
    one = jnp.ones_like(largest)
    high, low = (jnp.asarray(2.0**e, largest.dtype) for e in (24, -24))
    factor = jnp.where(largest > high, high / largest, jnp.where(largest < low, low / largest, one))
    return jnp.where(largest > 0, factor, one)
