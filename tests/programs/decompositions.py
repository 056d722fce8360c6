"""Primitives that are decomposed, called by public functions of JAX or bound directly."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any

import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import primitives

from tests.conformance import DEFAULT, Case, within_units

RNG = np.random.default_rng(31)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def pair(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a + 1j * b).astype(np.complex64)


SQUARE, TALL = normal(3, 3) + 3 * np.eye(3, dtype=np.float32), normal(4, 3)
C_SQUARE, C_TALL = pair(SQUARE, normal(3, 3)), pair(TALL, normal(4, 3))
X, A, B, C = normal(2, 3), *RNG.uniform(1.1, 4, (3, 2, 3)).astype(np.float32)
IMAGE, SMALL = normal(4, 6), normal(4, 3)
BITS = RNG.integers(0, 2**32, 3, dtype=np.uint32)
KEY = np.array([7, 11], np.uint32)
WINDOW = {"window_dimensions": (2, 3), "window_strides": (1, 2), "padding": ((1, 0), (0, 1))}
UNDILATED = {"base_dilation": (1, 1), "window_dilation": (1, 1)}
SCALAR = jax.ShapeDtypeStruct((), np.float32)
SELECT, SCATTER = (jax.make_jaxpr(op)(SCALAR, SCALAR).jaxpr for op in (lambda a, b: a > b, lax.min))


def _upper(x: Any) -> Any:
    return jnp.triu(x) + 3 * jnp.eye(x.shape[-1])


def _positive(x: Any) -> Any:
    return x @ jnp.conj(x.T) + jnp.eye(x.shape[-1])


def _eigh(x: Any) -> Any:
    values, vectors = jnp.linalg.eigh(_positive(x))
    return values, (vectors * values) @ jnp.conj(vectors.T)


def _svd(x: Any) -> Any:
    u, s, v = jnp.linalg.svd(x, full_matrices=False)
    return s, (u * s) @ v


def _triangular(x: Any) -> Any:
    return lax.linalg.triangular_solve(_upper(x), x[:, :2], left_side=True, transpose_a=True)


def _tridiagonal(x: Any) -> Any:
    return lax.linalg.tridiagonal_solve(x[0] / 9, x[1] + 5, x[2] / 9, x[:, :2])


OF_SQUARES: dict[str, Callable[..., Any]] = {
    "cholesky": lambda x: jnp.linalg.cholesky(_positive(x)),
    "eigh": _eigh,
    "solve": lambda x: jnp.linalg.solve(_positive(x), x),
    "triangular_solve": _triangular,
    "tridiagonal_solve": _tridiagonal,
}
OF_TALL: dict[str, Callable[..., Any]] = {
    "qr, pivoting": lambda x: lax.linalg.qr(x, pivoting=True, full_matrices=False)[1:],
    "geqrf": lambda x: jnp.linalg.qr(x, mode="raw"),
    "householder_product": lambda x: lax.linalg.householder_product(x, x[0] / 9),
    "lu": lambda x: lax.linalg.lu(x),
    "qr": lambda x: lax.linalg.qr(x, full_matrices=False),
    "svd": _svd,
}


def _random(k: Any, n: Any) -> list[Any]:
    key = jax.random.wrap_key_data(k)
    keys = jax.random.key(n[0]), jax.random.fold_in(key, n[0]), jax.random.split(key, 3)
    return [*map(jax.random.key_data, keys), jax.random.bits(key, (2, 3))]


# --------------------------------------------------- products of groups of rows, of scaled blocks

SIZES = np.array([3, 0, 4, 2], np.int32)  # two rows are left over


def ragged(contract, batch, axis, groups=()):
    numbers = lax.RaggedDotDimensionNumbers((contract, batch), [axis], list(groups))
    return lambda x, y, sizes: lax.ragged_dot_general(x, y, sizes, numbers)


PLAIN = (normal(11, 5), normal(4, 5, 6), SIZES)
PRODUCTS: dict[str, tuple[Callable[..., Any], Sequence[Any]]] = {
    "rows": (lax.ragged_dot, PLAIN),
    "contracted": (ragged(((0,), (0,)), ((), ()), 0), (normal(11, 5), normal(11, 6), SIZES)),
    "batch": (ragged(((2,), (1,)), ((0,), (0,)), 0), (normal(11, 5, 3), normal(11, 3, 6), SIZES)),
    "sizes for each": (
        ragged(((3,), (2,)), ((1,), (1,)), 2, [0]),
        (normal(7, 2, 11, 5), normal(4, 2, 5, 6), RNG.integers(0, 4, (2, 7, 4), np.int32)),
    ),
    "contracted, sizes for each": (
        ragged(((1, 2), (0, 2)), ((0,), (1,)), 2),
        (normal(2, 3, 11, 5), normal(3, 2, 11, 6), RNG.integers(0, 4, (2, 3, 4), np.int32)),
    ),
    "gradient": (jax.grad(lambda x, y, n: jnp.sin(lax.ragged_dot(x, y, n)).sum(), (0, 1)), PLAIN),
    "scaled": (
        lambda x, y, s, t: lax.scaled_dot(
            x, y, lhs_scale=s, rhs_scale=t, preferred_element_type=np.float32
        ),
        (normal(3, 8), normal(8, 5), normal(3, 2), normal(2, 5)),
    ),
}


# -------------------------------------------------------------------------------------- others

UNCOMMON: dict[str, Callable[..., Any]] = {
    "lu_pivots_to_permutation": lambda x: lax.linalg.lu_pivots_to_permutation(
        lax.linalg.lu(x)[1], 4
    ),
    "name": lambda x: checkpoint_name(x * 2, "twice"),
    "symmetric_product": lambda x: lax.linalg.symmetric_product(x, x.T @ x),
    "reduce_window": lambda x: lax.reduce_window(x, 2.0, lax.mul, (2, 2), (1, 1), "SAME"),
    "copy": lambda x: primitives.copy_p.bind(x) * 2,
}

SPECIAL = {
    **dict.fromkeys((lax.bessel_i0e, lax.bessel_i1e), 1),
    **dict.fromkeys((lax.igamma, lax.igammac, lax.zeta, lax.polygamma), 2),
    lax.betainc: 3,
}
"""Special functions with the number of their operands. `igamma` with a broadcast shape is a
primitive too."""

ROWS: dict[str, tuple[Callable[..., Any], Sequence[Any]]] = {
    **PRODUCTS,
    **{name: (fn, [SQUARE]) for name, fn in UNCOMMON.items()},
    **{name: (fn, [SQUARE]) for name, fn in OF_SQUARES.items()},
    **{name: (fn, [TALL]) for name, fn in OF_TALL.items()},
    **{f"{name}, complex": (fn, [C_SQUARE]) for name, fn in OF_SQUARES.items()},
    **{f"{name}, complex": (fn, [C_TALL]) for name, fn in OF_TALL.items()},
    "cholesky_update": (
        lambda x, v: lax.linalg.cholesky_update(_upper(x), v),
        [SQUARE, normal(3)],
    ),
    "ormqr": (lambda x, y: lax.linalg.ormqr(x, x[0] / 9, y), [TALL, normal(4, 2)]),
    **{fn.__name__: (fn, [A, B, C / 5][:count]) for fn, count in SPECIAL.items()},
    "nextafter": (lax.nextafter, [X, A]),
    "random": (_random, [KEY, np.array([5], np.int32)]),
    "threefry2x32": (lambda k, x: primitives.threefry2x32_p.bind(*k, x, x + 1), [KEY, BITS]),
    "reduce": (lambda x: lax.reduce(x, np.float32(0.5), lambda a, b: a + b + a * b, (1,)), [X]),
    "select_and_gather_add": (
        lambda t, x: primitives.select_and_gather_add_p.bind(
            t, x, select_prim=lax.ge_p, **UNDILATED, **WINDOW
        ),
        [IMAGE, normal(4, 6)],
    ),
    "select_and_scatter_add": (
        lambda s, x: primitives.select_and_scatter_add_p.bind(s, x, select_prim=lax.ge_p, **WINDOW),
        [SMALL, IMAGE],
    ),
    "select_and_scatter": (
        lambda x, s: primitives.select_and_scatter_p.bind(
            *(x, s, np.float32(9)),
            **{"select_jaxpr": SELECT, "select_consts": ()},
            **{"scatter_jaxpr": SCATTER, "scatter_consts": ()},
            **WINDOW,
        ),
        [IMAGE, SMALL],
    ),
    # guards
    "nontraceable": (lambda x: eqxi.nontraceable(x) * 2, [X]),
    "nondifferentiable_backward": (lambda x: eqxi.nondifferentiable_backward(x) * 2, [X]),
    "empty": (lambda x: x + 0 * lax.empty((2, 3), np.float32), [X]),
}


def high_half(dtype: str) -> Case:
    info = np.iinfo(dtype)
    numbers = np.array([info.max, info.min, info.max, 1, 99, 77, info.max // 3], dtype)
    return Case(f"mulhi {dtype}", lax.mulhi, (numbers, numbers[::-1].copy()), tags=DEFAULT)


SINCE = {"scaled": (lax, "scaled_dot"), "ormqr": (lax.linalg, "ormqr")}
"""Functions that only newer versions of JAX have, by the name of their row."""
BY_DEFAULT = {
    *("rows", "batch", "scaled", "lu_pivots_to_permutation", "symmetric_product", "reduce_window"),
    *("cholesky", "solve, complex", "triangular_solve", "tridiagonal_solve", "qr, pivoting", "svd"),
    *("householder_product", "ormqr", "bessel_i0e", "bessel_i1e", "igammac", "zeta", "polygamma"),
    *("nextafter", "random", "threefry2x32", "reduce", "select_and_gather_add"),
    *("select_and_scatter_add", "select_and_scatter", "nontraceable", "empty", "cholesky_update"),
    *("eigh", "igamma", "betainc", "nondifferentiable_backward"),
}


def with_zero_pivots(size: int, lower: bool) -> Case:
    """Return a triangular solve with zeros on the diagonal. Small integers avoid all rounding, and
    infinities and NaN are where JAX has them."""
    rng = np.random.default_rng(size)
    a = rng.integers(-1, 2, (20, size, size)) * (rng.random((20, size, size)) < 0.4)
    a[:, range(size), range(size)] = rng.choice([0, 1, 1, 1, -1], (20, size))
    b = rng.integers(-2, 3, (20, size, 3))
    solve = partial(lax.linalg.triangular_solve, left_side=True, lower=lower)
    name = f"{'lower' if lower else 'upper'} triangle of {size} with zeros on its diagonal"
    return Case(name, solve, [a.astype(np.float32), b.astype(np.float32)], tolerance=0,
                tags=DEFAULT)  # fmt: skip


SINGULAR = [with_zero_pivots(size, lower) for size in (3, 9, 40) for lower in (False, True)]
EDGES = [0.0, -0.0, 1.0, 0.5, 2.0, 3.0, -1.0, -2.5, 1e-3, 12.0, np.inf, -np.inf, np.nan]


def at_edges(fn: Callable[..., Any], count: int) -> Case:
    """Return a special function of all tuples of edges. The limit is the rounding of XLA's
    log-gamma."""
    operands = np.array([*product(EDGES, repeat=count)], np.float32).T
    return Case(f"{fn.__name__} at edges", fn, list(operands), units=within_units(840, 1 / 64),
                tags=DEFAULT)  # fmt: skip


COMPLEX = (normal(2, 3, 3) + 1j * normal(2, 3, 3)).astype(np.complex64)
OPTIONS = [
    *(Case(f"triangular_solve, conjugate, {side}",
           partial(lax.linalg.triangular_solve, left_side=side == "left", lower=True,
                   transpose_a=side == "right", conjugate_a=True),
           [COMPLEX + 4 * np.eye(3, dtype=np.complex64), COMPLEX], tolerance=16, tags=DEFAULT)
      for side in ("left", "right")),
    Case("eigh, unsorted",
         lambda x: jnp.sort(lax.linalg.eigh(x @ x.mT, sort_eigenvalues=False)[1]), [SQUARE],
         tolerance=16, tags=DEFAULT),
    Case("bessel_i0e of float64", lax.bessel_i0e, [np.linspace(-30, 30, 13)], x64=True,
         tags=DEFAULT),
]  # fmt: skip
SPECIAL_VALUES = [at_edges(fn, count) for fn, count in SPECIAL.items()]
HIGH_HALVES = map(high_half, ("int32", "uint32", "int8", "uint16") * hasattr(lax, "mulhi"))
CASES = (
    Case(name, *row, tolerance=16, tags=DEFAULT if name in BY_DEFAULT else frozenset())
    for name, row in ROWS.items()
    if name not in SINCE or hasattr(*SINCE[name])
)
PROGRAMS = [*CASES, *OPTIONS, *HIGH_HALVES, *SINGULAR, *SPECIAL_VALUES]
