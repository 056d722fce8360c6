"""Each decomposition under every way in which a transformation can hand its primitive over."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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
from tests.converter.decompositions.test_uncommon import UNCOMMON
from tests.converter.decompositions.test_wrappers import INLINED
from tests.converter.test_rules import equations

Function = Callable[..., Any]
RNG = np.random.default_rng(31)


@dataclass(frozen=True)
class Row:
    """A function that holds the primitive, and its inputs."""

    fn: Function
    inputs: Sequence[np.ndarray]


# ------------------------------------------------------------------------------------------- ways


def _wrapped(how: str) -> Callable[[Row], Row]:
    def way(row: Row) -> Row:
        case = wrapped(Case("", row.fn, row.inputs), how)
        return Row(case.fn, case.specs)

    return way


def _one(place: int) -> Callable[[Row], Row]:
    """Only one of the operands has a batch."""

    def way(row: Row) -> Row:
        chosen = place % len(row.inputs)
        axes = tuple(0 if i == chosen else None for i in range(len(row.inputs)))
        inputs = list(row.inputs)
        inputs[chosen] = np.stack([np.roll(inputs[chosen], i) for i in range(3)])
        return Row(jax.vmap(row.fn, in_axes=axes), inputs)

    return way


def _after(outer: Callable[[Row], Row], inner: Callable[[Row], Row]) -> Callable[[Row], Row]:
    return lambda row: outer(inner(row))


def _is_float(x: Any) -> bool:
    return bool(jnp.issubdtype(x.dtype, jnp.inexact))


def _of_floats(row: Row) -> tuple[Function, list[int]]:
    """The function of those inputs that can be differentiated, and where they are."""
    places = [i for i, x in enumerate(row.inputs) if _is_float(x)]

    def fn(xs: Sequence[Any], floats: Sequence[Any]) -> list[Any]:
        args = list(xs)
        for i, x in zip(places, floats, strict=True):
            args[i] = x
        results = [y for y in jax.tree.leaves(row.fn(*args)) if _is_float(y)]
        assert places and results, "nothing to differentiate"
        return results

    return fn, places


def _total(ys: Sequence[Any]) -> Any:
    """A number that depends on every element, on each in another way."""
    parts = [part for y in ys for part in ((y.real, y.imag) if jnp.iscomplexobj(y) else (y,))]
    return sum((jnp.cos(jnp.arange(float(y.size))).reshape(y.shape) * y).sum() for y in parts)


def _jvp(row: Row) -> Row:
    fn, places = _of_floats(row)

    def jvp(*xs: Any) -> Any:
        floats = [xs[i] for i in places]
        return jax.jvp(lambda *fs: fn(xs, fs), floats, [jnp.cos(x) for x in floats])

    return Row(jvp, row.inputs)


def _grad(row: Row) -> Row:
    fn, places = _of_floats(row)
    grad = jax.grad(lambda floats, xs: _total(fn(xs, floats)))
    return Row(lambda *xs: grad([xs[i] for i in places], xs), row.inputs)


def _cond(row: Row) -> Row:
    def either(flag: Any, *xs: Any) -> Any:
        return lax.cond(flag, row.fn, lambda *ys: jax.tree.map(jnp.zeros_like, row.fn(*ys)), *xs)

    return Row(either, [np.array(True), *row.inputs])


def _jit(row: Row) -> Row:
    return Row(jax.jit(jax.checkpoint(row.fn)), row.inputs)


WAYS: dict[str, Callable[[Row], Row]] = {
    "plain": lambda row: row,
    "vmap 1": _wrapped("vmap1"),
    "vmap last": _wrapped("vmap-1"),
    "nested vmap": _after(_wrapped("vmap-1"), _wrapped("vmap0")),
    "vmap of the first": _one(0),
    "vmap of the last": _one(-1),
    "jvp": _jvp,
    "vmap of grad": _after(_wrapped("vmap-1"), _grad),
    "vmap in scan": _after(_wrapped("scan"), _wrapped("vmap-1")),
    "vmap of cond": _after(_wrapped("vmap0"), _cond),
    "jit and checkpoint": _jit,
    "open batch": _wrapped("vmap0"),
}

# ------------------------------------------------------------------------------------------- rows


def _normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def _between(low: float, high: float, *shape: int) -> np.ndarray:
    return RNG.uniform(low, high, shape).astype(np.float32)


def _pair(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a + 1j * b).astype(np.complex64)


SQUARE, TALL = _normal(3, 3) + 3 * np.eye(3, dtype=np.float32), _normal(4, 3)
C_SQUARE, C_TALL = _pair(SQUARE, _normal(3, 3)), _pair(TALL, _normal(4, 3))
BITS = RNG.integers(0, 2**32, (2, 3), dtype=np.uint32)
KEY = np.array([7, 11], np.uint32)
WINDOW = {"window_dimensions": (2, 3), "window_strides": (1, 2), "padding": ((1, 0), (0, 1))}
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


MATRICES: dict[str, tuple[Function, int]] = {
    "cholesky": (lambda x: jnp.linalg.cholesky(_positive(x)), 0),
    "eigh": (_eigh, 0),
    "qr, pivoting": (lambda x: lax.linalg.qr(x, pivoting=True, full_matrices=False)[1:], 1),
    "geqrf": (lambda x: jnp.linalg.qr(x, mode="raw"), 1),
    "householder_product": (lambda x: lax.linalg.householder_product(x, x[0] / 9), 1),
    "lu": (lambda x: lax.linalg.lu(x), 1),
    "qr": (lambda x: lax.linalg.qr(x, full_matrices=False), 1),
    "svd": (_svd, 1),
    "triangular_solve": (
        lambda x: lax.linalg.triangular_solve(
            _upper(x), x[:, :2], left_side=True, transpose_a=True
        ),
        0,
    ),
    "tridiagonal_solve": (
        lambda x: lax.linalg.tridiagonal_solve(x[0] / 9, x[1] + 5, x[2] / 9, x[:, :2]),
        0,
    ),
}

SHARED: dict[str, Row] = {
    **{name: Row(fn, inputs) for name, (fn, inputs) in CASES.items() if name in ("rows", "scaled")},
    **{
        name: Row(fn, [SQUARE])
        for name, fn in UNCOMMON.items()
        if name in ("lu_pivots_to_permutation", "symmetric_product", "reduce_window", "high half")
    },
    **{
        name: Row(fn, [_normal(3, 4)])
        for name, fn in INLINED.items()
        if name in ("platform", "nonbatchable", "unvmap", "while", "xla_metadata")
    },
}
"""Of other tables of decompositions, and of what is inlined."""

ROWS: dict[str, Row] = {
    **SHARED,
    **{name: Row(fn, [(SQUARE, TALL)[tall]]) for name, (fn, tall) in MATRICES.items()},
    **{
        f"{name}, complex": Row(fn, [(C_SQUARE, C_TALL)[tall]])
        for name, (fn, tall) in MATRICES.items()
    },
    "cholesky_update": Row(
        lambda x, v: lax.linalg.cholesky_update(_upper(x), v), [SQUARE, _normal(3)]
    ),
    "ormqr": Row(lambda x, y: lax.linalg.ormqr(x, x[0] / 9, y), [TALL, _normal(4, 2)]),
    "bessel_i0e": Row(lax.bessel_i0e, [_normal(2, 3)]),
    "bessel_i1e": Row(lax.bessel_i1e, [_normal(2, 3)]),
    "igamma": Row(lax.igamma, [_between(1, 4, 2, 3), _between(1, 4, 2, 3)]),
    "igammac": Row(lax.igammac, [_between(1, 4, 2, 3), _between(1, 4, 2, 3)]),
    "polygamma": Row(lax.polygamma, [np.float32([[1, 2, 3]]).repeat(2, 0), _between(1, 4, 2, 3)]),
    "zeta": Row(lax.zeta, [_between(2, 4, 2, 3), _between(1, 4, 2, 3)]),
    "regularized_incomplete_beta": Row(
        lax.betainc, [_between(1, 3, 2, 3), _between(1, 3, 2, 3), _between(0.2, 0.7, 2, 3)]
    ),
    "nextafter": Row(lax.nextafter, [_normal(2, 3), _normal(2, 3)]),
    "random_seed": Row(lambda s: jax.random.key_data(jax.random.key(s)), [np.array(5, np.int32)]),
    "random_bits": Row(lambda k: jax.random.bits(jax.random.wrap_key_data(k), (2, 3)), [KEY]),
    "random_fold_in": Row(
        lambda k, n: jax.random.key_data(jax.random.fold_in(jax.random.wrap_key_data(k), n)),
        [KEY, np.array(3, np.int32)],
    ),
    "random_split": Row(
        lambda k: jax.random.key_data(jax.random.split(jax.random.wrap_key_data(k), 3)), [KEY]
    ),
    "threefry2x32": Row(
        lambda k, x: primitives.threefry2x32_p.bind(k[0], k[1], x, x + 1), [KEY, BITS[0]]
    ),
    "reduce": Row(
        lambda x: lax.reduce(x, np.float32(0.5), lambda a, b: a + b + a * b, (1,)), [_normal(2, 3)]
    ),
    "select_and_gather_add": Row(
        lambda t, x: primitives.select_and_gather_add_p.bind(
            t, x, select_prim=lax.ge_p, base_dilation=(1, 1), window_dilation=(1, 1), **WINDOW
        ),
        [_normal(4, 6), _normal(4, 6)],
    ),
    "select_and_scatter_add": Row(
        lambda s, x: primitives.select_and_scatter_add_p.bind(s, x, select_prim=lax.ge_p, **WINDOW),
        [_normal(4, 3), _normal(4, 6)],
    ),
    "select_and_scatter": Row(
        lambda x, s: primitives.select_and_scatter_p.bind(
            *(x, s, np.float32(9)),
            **{"select_jaxpr": SELECT, "select_consts": ()},
            **{"scatter_jaxpr": SCATTER, "scatter_consts": ()},
            **WINDOW,
        ),
        [_normal(4, 6), _normal(4, 3)],
    ),
    # guards
    "nontraceable": Row(lambda x: eqxi.nontraceable(x) * 2, [_normal(2, 3)]),
    "nondifferentiable_backward": Row(
        lambda x: eqxi.nondifferentiable_backward(x) * 2, [_normal(2, 3)]
    ),
    "empty": Row(lambda x: x + 0 * lax.empty((2, 3), np.float32), [_normal(2, 3)]),
    # complex numbers
    **{f"family: {name}": Row(fn, inputs) for name, (fn, inputs) in FAMILIES.items()},
    **{
        f"{name}, complex": Row(fn, [_pair(_normal(2, 3), _normal(2, 3))])
        for name, fn in FUNCTIONS.items()
    },
}

# ------------------------------------------------------------------------------------------ tests

REFUSED_BY_JAX = (NotImplementedError, TypeError, ValueError, AssertionError, RuntimeError)
"""What its transformations raise: most primitives here have some that nobody has written."""

ALONE = {
    "geqp3": "inside of `qr` with pivots, which has a row",
    "log2": "of jax >= 0.12",
    **dict.fromkeys(("empty2", "stage", "tie", "zeros_like"), "no public function binds it"),
    **dict.fromkeys(("scaled_matmul", "scaled_matmul_wrapper"), "JAX runs it on NVIDIA's only"),
}
"""Decompositions without a row, and why."""


NOT_WRITTEN = {("family: reductions", "jvp")}
"""The derivative of a window's maximum of complex numbers, which is refused."""


def _cases() -> pytest.MarkDecorator:
    rows = [pytest.param(name, way, id=f"{name}-{way}") for name in ROWS for way in WAYS]
    return pytest.mark.parametrize(("name", "way"), rows)


def _primitives(row: Row) -> set[str]:
    """What JAX makes of it; skips what JAX itself has something against."""
    try:
        jaxpr = jax.make_jaxpr(row.fn)(*row.inputs).jaxpr
    except REFUSED_BY_JAX as error:
        pytest.skip(f"JAX itself: {type(error).__name__}: {str(error).splitlines()[0]}")
    return {eqn.primitive.name for eqn in equations(jaxpr)}


@pytest.mark.sampled(41, full=10)
@pytest.mark.filterwarnings("ignore:left out")
@_cases()
def test_every_way(name, way):
    row = WAYS[way](ROWS[name])
    if _primitives(row) & REFUSED.keys() or (name, way) in NOT_WRITTEN:
        with pytest.raises(converter.Unsupported):
            converter.to_onnx(row.fn, row.inputs)
        return
    is_open = way == "open batch"
    specs = [(("B", *x.shape[1:]), x.dtype) if is_open else x for x in row.inputs]
    export = converter.to_onnx(row.fn, specs)
    verdict = converter.check(export, row.fn, row.inputs)
    assert verdict.passed, [str(d) for d in verdict.differences]


def test_halves_of_values_of_other_ranks():
    test_every_way("family: arithmetic", "nested vmap")


def test_no_decomposition_is_left_out():
    """Collectives have a table of their own."""
    devices = {"axes", "axis_name", "axis_index_groups"}
    others = {n for n, found in OWN_EXPANSIONS.items() if found.ignores & devices}
    tried = set[str]().union(*(_primitives(row) for row in ROWS.values()))
    assert OWN_EXPANSIONS.keys() - others - tried - ALONE.keys() == set()
