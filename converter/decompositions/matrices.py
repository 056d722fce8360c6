"""Matrices: rows, columns and loops, and QR decompositions by Householder reflections.

All take stacks ``[..., rows, columns]`` of real or complex numbers. An index is a Python integer
where the loop is written out, else an array that has a traced one.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.decompositions.registered import decomposition

Index = Any
State = TypeVar("State")

UNROLLED = 4
"""Loops of so many rounds are written out."""


def repeat(rounds: int, body: Callable[[Index, State], State], state: State) -> State:
    """``body(i, state)`` for every ``i`` from zero to ``rounds - 1``."""
    return collect(rounds, lambda i, each: (body(i, each), ()), state)[0]


def collect(
    rounds: int, body: Callable[[Index, State], tuple[State, tuple[jax.Array, ...]]], state: State
) -> tuple[State, tuple[jax.Array, ...]]:
    """``repeat``, of a body that gives more than the state: that of all rounds, along a new first
    axis.
    """
    if rounds > UNROLLED:
        numbers = lax.iota(jnp.int32, rounds)[:, None]
        return lax.scan(lambda each, i: body(i, each), state, numbers)
    given = []
    for i in range(rounds):
        state, more = body(i, state)
        given.append(more)
    return state, tuple(map(jnp.stack, zip(*given, strict=True)))


def entry(x: jax.Array, i: Index, axis: int) -> jax.Array:
    """One index of an axis, which stays."""
    axis = axis % x.ndim
    if isinstance(i, int):
        return lax.slice_in_dim(x, i, i + 1, axis=axis)
    place = (*(slice(None) for _ in range(axis)), i)
    return x.at[place].get(mode="promise_in_bounds", wrap_negative_indices=False)


def taken(x: jax.Array, places: jax.Array, axis: int) -> jax.Array:
    """Rows or columns of matrices in another order, each of which has its own."""
    if x.ndim == 2:
        return entry(x, places, axis)
    along = jnp.expand_dims(places, -1 if axis == -2 else -2)
    return jnp.take_along_axis(x, along, axis, mode="promise_in_bounds")


def exchange(k: Index, pivot: jax.Array, size: int) -> jax.Array:
    """All places up to ``size``, but two of them exchanged; ``pivot`` has an axis of one behind."""
    places = lax.iota(jnp.int32, size)
    return jnp.where(places == k, pivot, jnp.where(places == pivot, k, places))


def adjoint(x: jax.Array) -> jax.Array:
    """Matrices transposed, of conjugate numbers if they are complex."""
    return jnp.conj(x.mT)


def squares(x: jax.Array) -> jax.Array:
    """Squares of magnitudes."""
    return x.real**2 + x.imag**2 if jnp.iscomplexobj(x) else x**2


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
    scale, count = scale_of(x, -2), min(x.shape[-2:])
    if not count:
        return x, jnp.zeros((*x.shape[:-2], 0), x.dtype)
    known, given = collect(count, _reflected, scale * x)
    return _packed(known / scale, *given)


@decomposition("geqp3", of_complex=True)
def geqp3(x: jax.Array, order: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """``geqrf`` with the largest remaining column first, and the order of the columns, from one.

    Norms of what remains are taken anew in each step (Golub and Van Loan, algorithm 5.4.1).
    """
    height, width = x.shape[-2:]
    rows, columns = lax.iota(jnp.int32, height)[:, None], lax.iota(jnp.int32, width)
    scale = scale_of(x, (-2, -1))

    def step(k: Index, state: Packed) -> tuple[Packed, Packed]:
        known, order = state
        sizes = jnp.sum(jnp.where(rows >= k, squares(known), 0), -2)
        sizes = jnp.where(columns >= k, sizes, -1)
        places = exchange(k, jnp.argmax(sizes, axis=-1, keepdims=True).astype(jnp.int32), width)
        known, given = _reflected(k, taken(known, places, -1))
        return (known, taken(order, places, -1)), given

    start = jnp.broadcast_to(columns + 1, order.shape)[..., None, :]
    (known, order), given = collect(min(height, width), step, (scale * x, start))
    packed, taus = _packed(known / scale, *given)
    return packed, order[..., 0, :], taus


def scale_of(x: jax.Array, axis: int | tuple[int, ...]) -> jax.Array:
    """What brings numbers to where squares neither overflow nor vanish; mostly one."""
    largest = jnp.max(jnp.abs(x), axis=axis, keepdims=True, initial=0)
    one = jnp.ones_like(largest)
    high, low = (jnp.asarray(2.0**e, largest.dtype) for e in (24, -24))
    factor = jnp.where(largest > high, high / largest, jnp.where(largest < low, low / largest, one))
    return jnp.where(largest > 0, factor, one)


def _reflected(k: Index, known: jax.Array) -> tuple[jax.Array, Packed]:
    """Column ``k`` reflected onto the diagonal, and all others with it; the mirror and its factor.

    What is left below the diagonal, and in the columns before, is rounding that nobody reads.
    """
    rows = lax.iota(jnp.int32, known.shape[-2])[:, None]
    line = entry(known, k, -1)
    below, top = jnp.where(rows > k, line, jnp.zeros_like(line)), entry(line, k, -2)
    level, other = jnp.real(top), jnp.real(adjoint(below) @ below)
    if jnp.iscomplexobj(top):
        other = other + jnp.imag(top) ** 2
    length = jnp.sqrt(level * level + other)
    end = jnp.where(level < 0, length, -length)
    bare = other == 0
    away = jnp.where(bare, jnp.ones_like(top), top - end)
    mirror = jnp.where(rows == k, jnp.ones_like(line), below / away)
    factor = jnp.where(bare, jnp.zeros_like(top), away / end)
    known = known + jnp.conj(factor) * mirror * (adjoint(mirror) @ known)
    return known, (mirror, factor)


def _packed(known: jax.Array, mirrors: jax.Array, factors: jax.Array) -> Packed:
    """What LAPACK has in one matrix and a vector, whose factors are of the other sign."""
    rows, columns = (lax.iota(jnp.int32, n) for n in known.shape[-2:])
    below = jnp.moveaxis(mirrors[..., 0], 0, -1)
    missing = jnp.zeros((*below.shape[:-1], known.shape[-1] - below.shape[-1]), known.dtype)
    below = jnp.concatenate([below, missing], -1)
    packed = jnp.where(rows[:, None] > columns, below, known)
    return packed, -jnp.moveaxis(factors[..., 0, 0], 0, -1)


@decomposition("ormqr", of_complex=True)
def ormqr(
    packed: jax.Array, taus: jax.Array, x: jax.Array, *, left: bool, transpose: bool
) -> jax.Array:
    """``Q @ x``, or with ``Q`` from the right or its adjoint, for the reflections of ``geqrf``.

    All at once: ``Q = I - V T V.T``, where the inverse of ``T`` has those of the factors on the
    diagonal, and products of the mirrors above it (Golub and Van Loan, section 5.1.7).
    """
    if not left:  # x Q = (Q.T x.T).T
        return adjoint(ormqr(packed, taus, adjoint(x), left=True, transpose=not transpose))
    return x - _seen(packed, taus, transpose, lambda mirrors: adjoint(mirrors) @ x)


def _seen(
    packed: jax.Array, taus: jax.Array, transpose: bool, look: Callable[[jax.Array], jax.Array]
) -> jax.Array:
    """What the reflections take away from what the mirrors see, by ``look``."""
    height, count = packed.shape[-2], taus.shape[-1]
    mirrors = jnp.tril(packed[..., :count], -1) + jnp.eye(height, count, dtype=packed.dtype)
    taus, seen = taus[..., None], look(mirrors)
    inner = taus * jnp.triu(adjoint(mirrors) @ mirrors, 1)
    if transpose:
        return mirrors @ (jnp.conj(taus) * unit_solve(adjoint(inner), seen, lower=True))
    return mirrors @ unit_solve(inner, taus * seen, lower=False)


BLOCK = 32
"""A triangle of so many rows is inverted at once, of more of them block by block."""


def unit_solve(strict: jax.Array, b: jax.Array, *, lower: bool) -> jax.Array:
    """``x`` of ``x + strict @ x = b``, where only one triangle of ``strict`` is read.

    Diagonal blocks are inverted, and rows of blocks solved one after the other (Golub and Van Loan,
    section 3.1.4).
    """
    size, width = b.shape[-2:]
    if size <= BLOCK:
        return _unit_solve_block(strict, b, lower)
    strict = jnp.tril(strict, -1) if lower else jnp.triu(strict, 1)
    count, stack = -(-size // BLOCK), b.shape[:-2]
    whole = count * BLOCK
    lines = padded(strict, whole, whole).reshape(*stack, count, BLOCK, whole)
    wanted = padded(b, whole, width).reshape(*stack, count, BLOCK, width)
    numbers = lax.iota(jnp.int32, count)[:, None]

    def step(x: jax.Array, each: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
        i, line, rest = each
        own = entry(line.reshape(*stack, BLOCK, count, BLOCK), i, -2)[..., 0, :]
        rest = rest - line @ x.reshape(*stack, whole, width)
        found = _unit_solve_block(own, rest, lower)
        return jnp.where(numbers[..., None] == i, found[..., None, :, :], x), None

    given = (numbers, jnp.moveaxis(lines, -3, 0), jnp.moveaxis(wanted, -3, 0))
    x, _ = lax.scan(step, jnp.zeros_like(wanted), given, reverse=not lower)
    return x.reshape(*stack, whole, width)[..., :size, :]


def _unit_solve_block(strict: jax.Array, b: jax.Array, lower: bool) -> jax.Array:
    """The same by inverses of diagonal blocks, which are twice as large each time.

    Of ``[[A, 0], [C, B]]`` that is ``[[A', 0], [-B' C A', B']]``, with the inverses of both. The
    last time it is not written but multiplied with.
    """
    size = strict.shape[-1]
    places = np.arange(size)
    i, j = (places[:, None], places) if lower else (places, places[:, None])

    def between(width: int) -> jax.Array:
        chosen = (i // width == j // width + 1) & (i // width % 2 == 1)
        return jnp.where(chosen, strict, jnp.zeros_like(strict))

    if size <= 2:
        return b - between(1) @ b
    found, width = jnp.eye(size, dtype=strict.dtype) - between(1), 2
    while 2 * width < size:
        found = found - found @ between(width) @ found
        width *= 2
    x = found @ b
    return x - found @ (between(width) @ x) if width < size else x


def padded(x: jax.Array, height: int, width: int) -> jax.Array:
    """Matrices with rows and columns of zeros behind."""
    more = [(0, 0)] * (x.ndim - 2) + [(0, height - x.shape[-2]), (0, width - x.shape[-1])]
    return jnp.pad(x, more)


@decomposition("householder_product", of_complex=True)
def householder_product(packed: jax.Array, taus: jax.Array) -> jax.Array:
    """The columns of ``Q`` that the reflections of ``geqrf`` make, as many as ``packed`` has."""
    height, width = packed.shape[-2:]
    eye = jnp.eye(height, width, dtype=packed.dtype)
    return eye - _seen(packed, taus, False, lambda mirrors: adjoint(mirrors)[..., :width])


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
