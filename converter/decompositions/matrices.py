"""Matrices: rows, columns and loops, and QR decompositions by Householder reflections.

All take stacks ``[..., rows, columns]`` of real or complex numbers. An index is a Python integer
where the loop is written out, else a traced one.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from converter.decompositions.registered import decomposition

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
    """One index of an axis, which goes; of matrices by default a column."""
    if isinstance(i, int):
        return lax.index_in_dim(x, i, axis, keepdims=False)
    return lax.dynamic_index_in_dim(x, i, axis, keepdims=False)


def row(x: jax.Array, i: Index) -> jax.Array:
    return entry(x, i, -2)


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


def matrix_times(x: jax.Array, y: jax.Array) -> jax.Array:
    """Products of matrices with vectors."""
    return jnp.matmul(x, y[..., None])[..., 0]


def outer(x: jax.Array, y: jax.Array) -> jax.Array:
    """Every element of one vector times every one of the other."""
    return x[..., :, None] * y[..., None, :]


def diagonal(x: jax.Array) -> jax.Array:
    """The diagonal of square matrices."""
    size = x.shape[-1]
    flat = x.reshape(*x.shape[:-2], size * size)
    return lax.slice_in_dim(flat, 0, size * size, size + 1, axis=-1)


Packed = tuple[jax.Array, jax.Array]


@decomposition("geqrf", of_complex=True)
def geqrf(x: jax.Array) -> Packed:
    """``R`` from the diagonal on with the reflections below it, and their factors ``tau``.

    Column by column, with LAPACK's signs and factors, so that ``R`` is JAX's (Golub and Van Loan,
    algorithm 5.2.1; LAPACK's ``geqr2`` and ``larfg``).
    """
    taus = jnp.zeros((*x.shape[:-2], min(x.shape[-2:])), x.dtype)
    return repeat(taus.shape[-1], _reflected, (x, taus))


@decomposition("geqp3", of_complex=True)
def geqp3(x: jax.Array, order: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """``geqrf`` with the largest remaining column first, and the order of the columns, from one.

    Norms of what remains are taken anew in each step (Golub and Van Loan, algorithm 5.4.1).
    """
    height, width = x.shape[-2:]
    rows, columns = lax.iota(jnp.int32, height)[:, None], lax.iota(jnp.int32, width)
    taus = jnp.zeros((*x.shape[:-2], min(height, width)), x.dtype)

    def step(k: Index, state: tuple[Packed, jax.Array]) -> tuple[Packed, jax.Array]:
        (known, taus), order = state
        rest = jnp.where(rows >= k, known, jnp.zeros_like(known))
        norms = _norm(rest, -2)
        sizes = jnp.where(columns >= k, norms, -jnp.ones_like(norms))
        pivot = jnp.argmax(sizes, axis=-1).astype(jnp.int32)[..., None]
        places = jnp.where(columns == k, pivot, jnp.where(columns == pivot, k, columns))
        known = jnp.take_along_axis(known, places[..., None, :], axis=-1)
        return _reflected(k, (known, taus)), jnp.take_along_axis(order, places, axis=-1)

    start = jnp.broadcast_to(columns + 1, order.shape)
    (packed, taus), order = repeat(taus.shape[-1], step, ((x, taus), start))
    return packed, order, taus


def _norm(x: jax.Array, axis: int) -> jax.Array:
    """Lengths of vectors; their squares may be out of range."""
    largest = jnp.max(jnp.abs(x), axis=axis, keepdims=True, initial=0)
    safe = jnp.where(largest > 0, largest, jnp.ones_like(largest))
    return jnp.squeeze(safe, axis) * jnp.sqrt(jnp.sum(squares(x / safe), axis=axis))


def _reflected(k: Index, state: Packed) -> Packed:
    """Column ``k`` reflected onto the diagonal, and the columns to its right with it."""
    known, taus = state
    rows, columns = (lax.iota(jnp.int32, n) for n in known.shape[-2:])
    line = entry(known, k)
    below = jnp.where(rows > k, line, jnp.zeros_like(line))
    top, rest = entry(line, k), _norm(below, -1)
    length = _norm(jnp.stack([top, rest], -1), -1)
    # XLA has no subnormal numbers, and elsewhere complex numbers are not divided by them.
    least, level = float(jnp.finfo(rest.dtype).smallest_normal), jnp.real(top)
    bare = (rest < least) & (jnp.abs(jnp.imag(top)) < least)
    end = jnp.where(bare, level, jnp.where(level < 0, length, -length))
    tau = jnp.where(bare, 0, (end - top) / jnp.where(bare, 1, end))
    below = below / jnp.where(bare, jnp.ones_like(top), top - end)[..., None]
    mirror = jnp.where(rows == k, jnp.ones_like(below), below)
    gone = outer(jnp.conj(tau)[..., None] * mirror, matrix_times(known.mT, jnp.conj(mirror)))
    known = jnp.where(columns > k, known - gone, known)
    packed = jnp.where(rows == k, end[..., None], jnp.where(rows > k, below, line))
    which = lax.iota(jnp.int32, taus.shape[-1]) == k
    return with_column(known, k, packed), jnp.where(which, tau[..., None], taus)


@decomposition("ormqr", of_complex=True)
def ormqr(
    packed: jax.Array, taus: jax.Array, x: jax.Array, *, left: bool, transpose: bool
) -> jax.Array:
    """``Q @ x``, or with ``Q`` from the right or its adjoint, for the reflections of ``geqrf``.

    One reflection after the other (Golub and Van Loan, section 5.1.6).
    """
    if not left:  # x Q = (Q.T x.T).T
        return adjoint(ormqr(packed, taus, adjoint(x), left=True, transpose=not transpose))
    count = taus.shape[-1]
    rows = lax.iota(jnp.int32, packed.shape[-2])

    def step(k: Index, y: jax.Array) -> jax.Array:
        i = k if transpose else count - 1 - k
        line = entry(packed, i)
        below = jnp.where(rows > i, line, jnp.zeros_like(line))
        mirror = jnp.where(rows == i, jnp.ones_like(line), below)
        tau = jnp.conj(entry(taus, i)) if transpose else entry(taus, i)
        return y - outer(tau[..., None] * mirror, matrix_times(y.mT, jnp.conj(mirror)))

    return repeat(count, step, x)


@decomposition("householder_product", of_complex=True)
def householder_product(packed: jax.Array, taus: jax.Array) -> jax.Array:
    """The columns of ``Q`` that the reflections of ``geqrf`` make, as many as ``packed`` has."""
    height, width = packed.shape[-2:]
    eye = jnp.broadcast_to(jnp.eye(height, width, dtype=packed.dtype), packed.shape)
    return ormqr(packed, taus, eye, left=True, transpose=False)


@decomposition("qr", ignores=("use_magma",), of_complex=True)
def qr(x: jax.Array, *, pivoting: bool, full_matrices: bool) -> tuple[jax.Array, ...]:
    """``Q`` and ``R``, and with ``pivoting`` the order of the columns."""
    height, width = x.shape[-2:]
    count = height if full_matrices else min(height, width)
    if pivoting:
        packed, order, taus = geqp3(x, jnp.zeros((*x.shape[:-2], width), jnp.int32))
    else:
        packed, taus = geqrf(x)
    missing = jnp.zeros((*x.shape[:-1], max(count - width, 0)), x.dtype)
    q = householder_product(jnp.concatenate([packed, missing], -1)[..., :count], taus)
    r = jnp.triu(packed)[..., :count, :]
    return (q, r, order - 1) if pivoting else (q, r)
