"""Eigenvalues of symmetric matrices and singular values, by Jacobi's rotations in parallel.

A round rotates every line of the first half against its opposite in the second half, all at once;
then the lines move on as the players of a tournament do, so that after ``n - 1`` rounds each has
met every other and all are where they began (Brent and Luk, The solution of singular-value and
symmetric eigenvalue problems on multiprocessor arrays, SIAM J. Sci. Stat. Comput. 6, 1985).
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.decompositions.matrices import adjoint, diagonal, qr, repeat, squares
from converter.decompositions.registered import decomposition
from converter.ir.complex_pairs import real_dtype

State = tuple[jax.Array, jax.Array]
Loop = tuple[jax.Array, jax.Array, jax.Array, State]
Shape = tuple[int, ...]

SWEEPS = 30
"""More than any matrix needs; some ten are usual."""

NEAR = 64
"""So many times what rounding leaves: from there on convergence is quadratic."""


def _angles(p: jax.Array, q: jax.Array, both: jax.Array) -> tuple[jax.Array, ...]:
    """Sine, and tangent of half the angle, that make ``[[p, both], [both, q]]`` diagonal.

    Of a complex ``both`` the direction comes besides: the second line is turned into it first.

    Of the angles the smaller one, which moves and rounds little (Rutishauser, The Jacobi method for
    real symmetric matrices, Numer. Math. 9, 1966; Golub and Van Loan, algorithm 8.5.1).
    """
    if jnp.iscomplexobj(both):
        size = jnp.abs(both)
        return *_angles(p, q, size), jnp.where(size == 0, 1, both / jnp.where(size == 0, 1, size))
    none = both == 0
    ratio = (q - p) / jnp.where(none, jnp.ones_like(both), 2 * both)
    far = jnp.abs(ratio) > 1 / jnp.finfo(p.dtype).eps  # its square might be out of range
    near = jnp.where(far, jnp.zeros_like(ratio), ratio)
    sign = jnp.where(ratio < 0, -jnp.ones_like(ratio), jnp.ones_like(ratio))
    slope = sign / (jnp.abs(near) + jnp.sqrt(1 + near * near))
    slope = jnp.where(far, 1 / (2 * jnp.where(far, ratio, sign)), slope)
    slope = jnp.where(none, jnp.zeros_like(slope), slope)
    cos = 1 / jnp.sqrt(1 + slope * slope)
    sin = slope * cos
    return sin, sin / (1 + cos)


def _turn(
    x: jax.Array, sin: jax.Array, half_tan: jax.Array, direction: jax.Array | None = None
) -> jax.Array:
    """Rows rotated against their opposites, then moved on."""
    half = x.shape[-2] // 2
    first, second = x[..., :half, :], x[..., half:, :]
    second = second if direction is None else second * direction[..., None]
    sin, tan = sin[..., None], half_tan[..., None]
    first, second = first - sin * (second + tan * first), second + sin * (first - tan * second)
    if half == 1:
        return jnp.concatenate([first, second], -2)
    parts = (first[..., :1, :], second[..., :1, :], first[..., 1:-1, :])
    return jnp.concatenate([*parts, second[..., 1:, :], first[..., -1:, :]], -2)


def _swept(step: Callable[[State], tuple[State, jax.Array]], state: State, lead: Shape) -> State:
    """Sweeps until what they measure is within rounding of nothing, or near it and falls no more.

    They measure in units of what rounding leaves.
    """

    def go_on(loop: Loop) -> jax.Array:
        count, before, now, _ = loop
        return (count < SWEEPS) & jnp.any((now > 1) & ((now > NEAR) | (now < before)))

    def sweep(loop: Loop) -> Loop:
        count, _, now, state = loop
        state, after = step(state)
        return count + 1, now, after, state

    endless = jnp.full(lead, jnp.inf, real_dtype(state[0].dtype))
    finite = jnp.full(lead, jnp.finfo(state[0].dtype).max)
    return lax.while_loop(go_on, sweep, (jnp.int32(0), endless, finite, state))[-1]


def _units(size: int, dtype: np.dtype) -> float:
    """What is left of orthogonality when rounding has its turn, measured on random matrices."""
    return float(jnp.finfo(dtype).eps) * max(1.0, math.sqrt(size) / 2)


def _padded(x: jax.Array, height: int, width: int) -> jax.Array:
    more = [(0, 0)] * (x.ndim - 2) + [(0, height - x.shape[-2]), (0, width - x.shape[-1])]
    return jnp.pad(x, more)


def _scale(x: jax.Array) -> jax.Array:
    """What brings a matrix to where squares neither overflow nor vanish; mostly one."""
    largest = jnp.max(jnp.abs(x), axis=(-2, -1), keepdims=True)
    one = jnp.ones_like(largest)
    high, low = (jnp.asarray(2.0**e, largest.dtype) for e in (24, -24))
    factor = jnp.where(largest > high, high / largest, jnp.where(largest < low, low / largest, one))
    return jnp.where(largest > 0, factor, one)


@decomposition("eigh", ignores=("algorithm", "implementation"), of_complex=True)
def eigh(
    x: jax.Array, *, lower: bool, sort_eigenvalues: bool, subset_by_index: tuple[int, int] | None
) -> State:
    """Eigenvectors in columns, and eigenvalues in ascending order, of Hermitian matrices.

    Jacobi's method (Golub and Van Loan, section 8.5). One triangle of ``x`` is read. The signs of
    the vectors are as they come: nothing determines them.
    """
    size = x.shape[-1]
    half = jnp.tril(x, -1) if lower else jnp.triu(x, 1)
    whole = half + adjoint(half) + jnp.eye(size, dtype=x.dtype) * jnp.real(x)
    scale = _scale(whole)
    width = size + size % 2
    eye = jnp.broadcast_to(jnp.eye(width, dtype=x.dtype), (*x.shape[:-2], width, width))
    length = jnp.sqrt(jnp.sum(squares(scale * whole), (-2, -1)))
    tolerance = _units(size, x.dtype) * length

    def rotate(_: jax.Array, state: State) -> State:
        known, vectors = state
        values = jnp.real(diagonal(known))
        opposite = diagonal(known[..., : width // 2, width // 2 :])
        angles = _angles(values[..., : width // 2], values[..., width // 2 :], opposite)
        known = _turn(adjoint(_turn(known, *angles)), *angles)
        return known, _turn(vectors, *angles)

    def sweep(state: State) -> tuple[State, jax.Array]:
        known, vectors = repeat(width - 1, rotate, state)
        outside = jnp.where(jnp.eye(width, dtype=bool), jnp.zeros_like(known), known)
        return (known, vectors), jnp.sqrt(jnp.sum(squares(outside), (-2, -1))) / tolerance

    start = (_padded(scale * whole, width, width), eye)
    _, vectors = _swept(sweep, start, x.shape[:-2])
    vectors = adjoint(vectors[..., :size, :size])
    vectors = jnp.where(jnp.isfinite(length)[..., None, None], vectors, jnp.nan)
    # Rayleigh's quotients are free of the rounding of thousands of rotations.
    values = jnp.real(jnp.sum(jnp.conj(vectors) * (scale * whole @ vectors), -2))
    values = values / jnp.sum(squares(vectors), -2)
    values = values / scale[..., 0]
    if sort_eigenvalues:
        order = jnp.argsort(values, axis=-1)
        values = jnp.take_along_axis(values, order, -1)
        vectors = jnp.take_along_axis(vectors, order[..., None, :], -1)
    start_index, end = subset_by_index or (0, size)
    return vectors[..., start_index:end], values[..., start_index:end]


@decomposition("svd", ignores=("algorithm",), of_complex=True)
def svd(
    x: jax.Array, *, full_matrices: bool, compute_uv: bool, subset_by_index: tuple[int, int] | None
) -> tuple[jax.Array, ...]:
    """Singular values in descending order; and the left vectors in columns, the right in rows.

    A QR decomposition, then Jacobi's method from one side on the rows of ``R`` (Hestenes, 1958;
    Drmac and Veselic, New fast and accurate Jacobi SVD algorithm, SIAM J. Matrix Anal. Appl. 29,
    2008): rotations ``V.T`` make them orthogonal, ``V.T @ R = S @ W.T``. A second QR decomposition
    gives those directions of ``W`` that belong to zeros. The signs of the vectors are as they come.
    """
    height, width = x.shape[-2:]
    if height < width:
        wanted = {"full_matrices": full_matrices, "compute_uv": compute_uv}
        values, *vectors = svd(adjoint(x), **wanted, subset_by_index=subset_by_index)
        return (values, *(adjoint(v) for v in reversed(vectors)))
    if width == 0:
        return _empty(x, full_matrices, compute_uv)
    scale = _scale(x)
    q, r = qr(scale * x, pivoting=False, full_matrices=full_matrices)
    rows, left = _orthogonal_rows(r[..., :width, :])
    values = jnp.sqrt(jnp.sum(squares(rows), -1))
    order = jnp.argsort(-values, axis=-1)
    start, end = subset_by_index or (0, width)
    values = (jnp.take_along_axis(values, order, -1) / scale[..., 0])[..., start:end]
    if not compute_uv:
        return (values,)
    rows, left = (jnp.take_along_axis(y, order[..., None], -2) for y in (rows, left))
    right, upper = qr(adjoint(rows), pivoting=False, full_matrices=False)
    signs = jnp.where(jnp.real(diagonal(upper)) < 0, -jnp.ones_like(values), jnp.ones_like(values))
    inner = jnp.concatenate([q[..., :width] @ adjoint(left), q[..., width:]], -1)
    if subset_by_index is not None:
        inner = inner[..., start:end]
    return values, inner, (signs[..., None] * adjoint(right))[..., start:end, :]


def _empty(x: jax.Array, full_matrices: bool, compute_uv: bool) -> tuple[jax.Array, ...]:
    """What a matrix without columns has: no values, and left vectors if all are wanted."""
    none = jnp.zeros((*x.shape[:-2], 0), real_dtype(x.dtype))
    left, right = qr(x, pivoting=False, full_matrices=full_matrices)
    return (none, left, right[..., :0, :]) if compute_uv else (none,)


def _orthogonal_rows(r: jax.Array) -> State:
    """``V.T @ r`` with orthogonal rows, and ``V.T``, which of complex numbers is the adjoint."""
    size = r.shape[-1]
    width = size + size % 2
    half, units = width // 2, _units(size, r.dtype)

    def rotate(_: jax.Array, state: State) -> State:
        both, worst = state
        rows = both[..., :size]
        p, q = rows[..., :half, :], rows[..., half:, :]
        norms = jnp.sum(squares(p), -1), jnp.sum(squares(q), -1)
        product = jnp.sum(p * jnp.conj(q), -1)
        bound = units * jnp.sqrt(norms[0]) * jnp.sqrt(norms[1])
        excess = jnp.where(bound > 0, jnp.abs(product) / jnp.where(bound > 0, bound, 1), 0)
        worst = jnp.maximum(worst, jnp.max(excess, -1))
        return _turn(both, *_angles(*norms, product)), worst

    def sweep(state: State) -> tuple[State, jax.Array]:
        both, worst = repeat(width - 1, rotate, (state[0], jnp.zeros_like(state[1])))
        return (both, worst), worst

    eye = jnp.broadcast_to(jnp.eye(width, dtype=r.dtype), (*r.shape[:-2], width, width))
    start = (
        jnp.concatenate([_padded(r, width, size), eye], -1),
        jnp.zeros(r.shape[:-2], real_dtype(r.dtype)),
    )
    both, _ = _swept(sweep, start, r.shape[:-2])
    return both[..., :size, :size], both[..., :size, size : 2 * size]
