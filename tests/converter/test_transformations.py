"""Each decomposition under every way in which a transformation can hand its primitive over."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import primitives

import converter
from converter.decompositions.registered import OWN_EXPANSIONS
from converter.frontend.refused import REFUSED
from tests.conformance import Case, wrapped
from tests.converter.complex.test_complex import FAMILIES
from tests.converter.complex.test_complex_functions import FUNCTIONS
from tests.converter.decompositions.test_products import CASES
from tests.converter.decompositions.test_special_functions import FUNCTIONS as SPECIAL
from tests.converter.decompositions.test_uncommon import UNCOMMON
from tests.converter.decompositions.test_wrappers import INLINED
from tests.converter.test_rules import equations

RNG = np.random.default_rng(31)
Row = tuple[Callable[..., Any], Sequence[Any]]
"""A function that holds the primitive, and its inputs."""

# ------------------------------------------------------------------------------------------- ways


def _wrapped(*ways: str) -> Callable[[Case], Case]:
    return lambda case: reduce(wrapped, ways, case)


def _one(place: int) -> Callable[[Case], Case]:
    """Only one of the operands has a batch."""

    def way(case: Case) -> Case:
        inputs, axes = list(case.specs), [None] * len(case.specs)
        inputs[place], axes[place] = np.stack([np.roll(inputs[place], i) for i in range(3)]), 0
        return replace(case, fn=jax.vmap(case.fn, in_axes=axes), specs=inputs)

    return way


def _total(tree: Any) -> Any:
    """A number that depends on every element, on each in another way."""
    ys = jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))
    assert ys, "nothing to differentiate"
    parts = [part for y in ys for part in ((y.real, y.imag) if jnp.iscomplexobj(y) else (y,))]
    return sum((jnp.cos(jnp.arange(float(y.size))).reshape(y.shape) * y).sum() for y in parts)


def _jvp(case: Case) -> Case:
    def jvp(*xs: Any) -> Any:
        tangents = tuple(jnp.cos(x) if eqx.is_inexact_array(x) else None for x in xs)
        return eqx.filter_jvp(case.fn, xs, tangents)

    return replace(case, fn=jvp)


def _vmap_of_grad(case: Case) -> Case:
    def grad(*xs: Any) -> Any:
        found = eqx.filter_grad(lambda given: _total(case.fn(*given)))(xs)
        assert jax.tree.leaves(found), "nothing to differentiate"
        return found

    return wrapped(replace(case, fn=grad), "vmap-1")


def _vmap_of_cond(case: Case) -> Case:
    def either(flag: Any, *xs: Any) -> Any:
        return lax.cond(flag, case.fn, lambda *ys: jax.tree.map(jnp.zeros_like, case.fn(*ys)), *xs)

    return wrapped(replace(case, fn=either, specs=[np.array(True), *case.specs]), "vmap0")


WAYS: dict[str, Callable[[Case], Case]] = {
    "plain": _wrapped(),
    "vmap 1": _wrapped("vmap1"),
    "vmap last": _wrapped("vmap-1"),
    "nested vmap": _wrapped("vmap0", "vmap-1"),
    "vmap of the first": _one(0),
    "vmap of the last": _one(-1),
    "jvp": _jvp,
    "vmap of grad": _vmap_of_grad,
    "vmap in scan": _wrapped("vmap-1", "scan"),
    "vmap of cond": _vmap_of_cond,
    "jit and checkpoint": lambda case: replace(case, fn=jax.jit(jax.checkpoint(case.fn))),
    "open batch": _wrapped("vmap0"),
}

# ------------------------------------------------------------------------------------------- rows


def _normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def _pair(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a + 1j * b).astype(np.complex64)


SQUARE, TALL = _normal(3, 3) + 3 * np.eye(3, dtype=np.float32), _normal(4, 3)
C_SQUARE, C_TALL = _pair(SQUARE, _normal(3, 3)), _pair(TALL, _normal(4, 3))
X, A, B, C = _normal(2, 3), *RNG.uniform(1.1, 4, (3, 2, 3)).astype(np.float32)
IMAGE, SMALL = _normal(4, 6), _normal(4, 3)
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


ROWS: dict[str, Row] = {
    **{name: CASES[name] for name in ("rows", "scaled")},
    **{
        name: (UNCOMMON[name], [SQUARE])
        for name in ("lu_pivots_to_permutation", "symmetric_product", "reduce_window", "high half")
    },
    **{
        name: (INLINED[name], [_normal(3, 4)])
        for name in ("platform", "nonbatchable", "unvmap", "while", "xla_metadata")
    },
    **{name: (fn, [SQUARE]) for name, fn in OF_SQUARES.items()},
    **{name: (fn, [TALL]) for name, fn in OF_TALL.items()},
    **{f"{name}, complex": (fn, [C_SQUARE]) for name, fn in OF_SQUARES.items()},
    **{f"{name}, complex": (fn, [C_TALL]) for name, fn in OF_TALL.items()},
    "cholesky_update": (
        lambda x, v: lax.linalg.cholesky_update(_upper(x), v),
        [SQUARE, _normal(3)],
    ),
    "ormqr": (lambda x, y: lax.linalg.ormqr(x, x[0] / 9, y), [TALL, _normal(4, 2)]),
    **{n: (fn, [A, B, C / 5][: len(given)]) for n, (fn, _, given) in SPECIAL.items()},
    "nextafter": (lax.nextafter, [X, A]),
    "random": (_random, [KEY, np.array([5], np.int32)]),
    "threefry2x32": (lambda k, x: primitives.threefry2x32_p.bind(*k, x, x + 1), [KEY, BITS]),
    "reduce": (lambda x: lax.reduce(x, np.float32(0.5), lambda a, b: a + b + a * b, (1,)), [X]),
    "select_and_gather_add": (
        lambda t, x: primitives.select_and_gather_add_p.bind(
            t, x, select_prim=lax.ge_p, **UNDILATED, **WINDOW
        ),
        [IMAGE, _normal(4, 6)],
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
    # complex numbers
    **{f"family: {name}": row for name, row in FAMILIES.items()},
    **{f"{name}, complex": (fn, [_pair(X, A)]) for name, fn in FUNCTIONS.items()},
}

# ------------------------------------------------------------------------------------------ tests

REFUSED_BY_JAX = (NotImplementedError, TypeError, ValueError, AssertionError, RuntimeError)
"""What its transformations raise: most primitives here have some that nobody has written."""

ALONE = {
    "geqp3": "inside of `qr` with pivots, which has a row",
    "linear_solve": "not JAX's: what calls of `solve` are, which have a row",
    "log2": "of jax >= 0.12",
    "random_gamma": "as accurate as JAX's, in the tests of keys",
    **dict.fromkeys(("empty2", "stage", "tie", "zeros_like"), "no public function binds it"),
    **dict.fromkeys(("scaled_matmul", "scaled_matmul_wrapper"), "JAX runs it on NVIDIA's only"),
}
"""Decompositions without a row, and why."""

NOT_WRITTEN = {("family: reductions", "jvp")}
"""The derivative of a window's maximum of complex numbers, which is refused."""


def _primitives(case: Case) -> set[str]:
    """What JAX makes of it; skips what JAX itself has something against."""
    try:
        jaxpr = jax.make_jaxpr(case.fn)(*case.specs).jaxpr
    except REFUSED_BY_JAX as error:
        pytest.skip(f"JAX itself: {type(error).__name__}: {str(error).splitlines()[0]}")
    return {eqn.primitive.name for eqn in equations(jaxpr)}


@pytest.mark.sampled(150, full=18)
@pytest.mark.filterwarnings("ignore:left out")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ROWS)
def test_every_way(name, way):
    case = WAYS[way](Case(name, *ROWS[name]))
    if _primitives(case) & REFUSED.keys() or (name, way) in NOT_WRITTEN:
        with pytest.raises(converter.Unsupported):
            converter.to_onnx(case.fn, case.specs)
        return
    is_open = way == "open batch"
    specs = [(("B", *x.shape[1:]), x.dtype) if is_open else x for x in case.specs]
    verdict = converter.check(converter.to_onnx(case.fn, specs), case.fn, case.specs)
    assert verdict.passed, [str(d) for d in verdict.differences]


@pytest.mark.full
def test_halves_of_values_of_other_ranks():
    test_every_way("family: arithmetic", "nested vmap")


def test_no_decomposition_is_left_out():
    """Collectives have a table of their own."""
    devices = {"axes", "axis_name", "axis_index_groups"}
    others = {n for n, found in OWN_EXPANSIONS.items() if found.ignores & devices}
    tried = set[str]().union(*(_primitives(Case(name, *row)) for name, row in ROWS.items()))
    assert OWN_EXPANSIONS.keys() - others - tried - ALONE.keys() == set()
