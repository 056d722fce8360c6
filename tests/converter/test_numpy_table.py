"""What numpy computes in JAX's place, on every dtype and at the edges, is what JAX computes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from converter.frontend.trace import trace
from converter.ir import Value, make_node, ops
from converter.ir.evaluation import compute, precision, run_node
from converter.verify.sessions import run

FLOATS = ("float16", "float32", "float64")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*SIGNED, *UNSIGNED)
NUMBERS = (*FLOATS, *INTEGERS)
ALL = ("bool", *NUMBERS)

ROUNDED = 4  # units in the last place: neither numpy nor XLA rounds these functions correctly


def edges(dtype: str) -> np.ndarray:
    """Numbers at which something may differ: [count]."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.array([False, True])
    if kind in "iu":
        info = np.iinfo(dtype)
        near = [n for n in (-7, -2, -1, 0, 1, 2, 3, 7, 100) if n >= info.min]
        return np.array([*near, info.min, info.min + 1, info.max - 1, info.max], dtype)
    limits = jnp.finfo(dtype)
    plain = [0.0, -0.0, 0.3, 0.9, 1, 1.5, 2.5, 3, 127.5, 128, 255.9, 256, 300, 32768, 65504]
    large = [2.0**31, 2.0**32, 2.0**53, 2.0**63, 2.0**64, 1e20, float(limits.max)]
    fine = [float(limits.smallest_normal), float(limits.eps)]
    numbers = [*(n for n in (*plain, *large, *fine) if n <= float(limits.max)), np.inf]
    return np.array([*numbers, *(-n for n in numbers), np.nan], dtype)


@dataclass(frozen=True)
class Row:
    """An operation on one or two operands, and the dtypes that JAX takes for it."""

    fn: Callable[..., Any]
    operands: int
    dtypes: tuple[str, ...]
    units: int = 0  # in the last place, that JAX and numpy may differ by


ROWS = {
    "add": Row(lax.add, 2, NUMBERS),
    "sub": Row(lax.sub, 2, NUMBERS),
    "mul": Row(lax.mul, 2, NUMBERS),
    "max": Row(lax.max, 2, ALL),
    "min": Row(lax.min, 2, ALL),
    "neg": Row(lax.neg, 1, NUMBERS),
    "and": Row(lax.bitwise_and, 2, ("bool", *INTEGERS)),
    "or": Row(lax.bitwise_or, 2, ("bool", *INTEGERS)),
    "not": Row(lax.bitwise_not, 1, ("bool", *INTEGERS)),
    **{op.__name__: Row(op, 2, ALL) for op in (lax.eq, lax.ne, lax.lt, lax.le, lax.gt, lax.ge)},
    "sqrt": Row(lax.sqrt, 1, FLOATS),
    "exp": Row(lax.exp, 1, FLOATS, ROUNDED),
    "log": Row(lax.log, 1, FLOATS, ROUNDED),
    "sin": Row(lax.sin, 1, FLOATS, ROUNDED),
    "cos": Row(lax.cos, 1, FLOATS, ROUNDED),
    "square": Row(lax.square, 1, NUMBERS),
    "div": Row(lax.div, 2, NUMBERS),
    "pow": Row(lax.pow, 2, FLOATS, ROUNDED),
}
POWERS = (-7, -2, -1, 0, 1, 2, 3, 5, 200)


def assert_as_jax(node, args, units=0):
    """The node computed here is what JAX gives, its dtype included."""
    leaves = dict(zip(map(id, node.inputs), args, strict=True))
    got = compute(node.out, lambda value: leaves[id(value)])
    with precision([node]):
        wanted = np.asarray(run_node(node, [jnp.asarray(a) for a in args], {})[0])
    assert got.dtype == wanted.dtype == node.out.dtype
    assert got.shape == wanted.shape == node.out.shape
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(got, wanted, err_msg=str(node))
        return
    info = np.finfo(wanted.dtype)
    # XLA has no numbers between zero and the smallest normal one
    near = {"rtol": units * float(info.eps), "atol": float(info.smallest_normal)}
    np.testing.assert_allclose(got, wanted, **near, err_msg=str(node))


def traced(fn, *arrays):
    with jax.enable_x64(True):
        (node,) = trace(fn, [(a.shape, a.dtype) for a in arrays]).nodes
    return node


def test_every_row_is_tested():
    assert {*ROWS, *LAYOUT, "integer_pow", "iota", "convert_element_type"} == {
        op.name for op in ops.stated() if op.numpy is not None
    }


@pytest.mark.sampled(10, full=3)
@pytest.mark.parametrize(
    ("op", "dtype"), [(op, dtype) for op, row in ROWS.items() for dtype in row.dtypes]
)
def test_elementwise(op, dtype):
    row, numbers = ROWS[op], edges(dtype)
    args = [a.ravel() for a in np.meshgrid(*[numbers] * row.operands)]
    node = traced(row.fn, *args)
    assert node.op.name == op
    assert_as_jax(node, args, row.units)
    scalars = [a[-1:].reshape(()) for a in args]
    assert_as_jax(traced(row.fn, *scalars), scalars, row.units)


@pytest.mark.sampled(4, full=2)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_powers(dtype):
    numbers = edges(dtype)
    for y in POWERS:
        if y >= 0 or numbers.dtype.kind == "f":
            node = traced(lambda x, y=y: lax.integer_pow(x, y), numbers)
            assert_as_jax(node, [numbers], 8 * ROUNDED)


@pytest.mark.sampled(11, full=3)
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("dtype", ALL)
def test_conversions(dtype, target):
    numbers = edges(dtype)
    params = {"new_dtype": np.dtype(target)}
    inputs = [Value(numbers.shape, numbers.dtype, "input")]
    types = [(numbers.shape, np.dtype(target))]
    node = make_node(ops.convert_element_type, inputs, types, params)
    assert_as_jax(node, [numbers])


@pytest.mark.sampled(4, full=2)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_counting(dtype):
    for shape, dimension in (((300,), 0), ((2, 5), 0), ((2, 5), 1), ((0, 3), 1)):
        params = {"dtype": np.dtype(dtype), "shape": shape, "dimension": dimension}
        assert_as_jax(make_node(ops.iota, [], [(shape, dtype)], params), [])


LAYOUT = {
    "reshape": [((6, 4), {"shape": (6, 4)}), ((1, 24), {"shape": (1, 24)})],
    "transpose": [((4, 2, 3), {"permutation": (2, 0, 1)})],
    "broadcast_in_dim": [
        ((5, 2, 3, 4), {"shape": (5, 2, 3, 4), "broadcast_dimensions": (1, 2, 3)}),
        ((2, 7, 3, 4), {"shape": (2, 7, 3, 4), "broadcast_dimensions": (0, 2, 3)}),
    ],
    "slice": [
        ((1, 2, 2), {"start_indices": (1, 0, 1), "limit_indices": (2, 3, 4), "strides": (1, 2, 2)}),
        ((2, 0, 4), {"start_indices": (0, 2, 0), "limit_indices": (2, 2, 4), "strides": (1, 1, 1)}),
    ],
    "concatenate": [((2, 3, 8), {"dimension": 2}), ((4, 3, 4), {"dimension": 0})],
    "factor": [((2, 3, 4), {"divides": False})],
}


@pytest.mark.parametrize("op", LAYOUT)
@pytest.mark.parametrize("dtype", ("bool", "uint64", "float16"))
def test_layout(op, dtype):
    x = np.arange(24).reshape(2, 3, 4).astype(dtype)
    args = [x, x[::-1]] if op == "concatenate" else [x]
    for shape, params in LAYOUT[op]:
        inputs = [Value(a.shape, a.dtype, "input") for a in args]
        assert_as_jax(make_node(ops.named(op), inputs, [(shape, x.dtype)], params), args)


# ------------------------------------------------------------------------ in programs and constants


def saturated(x):
    bytes_ = jnp.array([300.0, -5.0, jnp.nan, jnp.inf, 77.9]).astype(jnp.uint8)
    words = jnp.array([3e9, -3e9, jnp.nan, -jnp.inf, 2.0**31]).astype(jnp.int32)
    return jnp.full((5,), 300.0).astype(jnp.uint8) + bytes_, words, x


def test_what_is_folded_is_what_jax_computes():
    x = np.zeros(2, np.float32)
    got = run(converter.to_onnx(saturated, [x]), [x]).values()
    for a, b in zip(got, saturated(x), strict=True):
        np.testing.assert_array_equal(a, b)


def test_programs_with_64_bit_steps():
    """uint32 is computed in 64 bits where a runtime has no kernel for it."""

    def fn(w):
        lines = jnp.max(w, 0), jnp.min(w, 1), jnp.argmax(w, 1), jnp.argmin(w, 0), jnp.cumsum(w, 1)
        return *lines, jnp.sort(w, 1), lax.top_k(w, 2)[0], jnp.sum(w, 1), w // jnp.uint32(3)

    weights = np.array([[5, 2, 4294967295], [1, 4000000000, 3]], np.uint32)
    export = converter.to_onnx(lambda w, x: (fn(w), x), [(2,)], params=weights)
    *got, _ = run(export, [np.zeros(2, np.float32)]).values()
    for actual, wanted in zip(got, fn(jnp.asarray(weights)), strict=True):
        assert actual.dtype == wanted.dtype
        np.testing.assert_array_equal(actual, wanted)
