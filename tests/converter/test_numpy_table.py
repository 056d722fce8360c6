"""What numpy computes in JAX's place, on every dtype and at the edges, is what JAX computes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from converter.frontend.trace import trace
from converter.ir import Value, make_node, ops
from converter.ir.evaluation import compute_array, run_node, use_precision_of
from converter.verify.sessions import run
from tests.converter.test_edges import ALL, BINARY, UNARY, edges, taken

DTYPES = tuple(dtype for dtype in ALL if dtype != "bfloat16")
NUMBERS = DTYPES[1:]

ROUNDED = {"exp": 4, "log": 4, "sin": 4, "cos": 4, "pow": 4}
"""Units in the last place: neither numpy nor XLA rounds these functions correctly."""

ELEMENTWISE = {
    name: (fn, count)
    for table, count in ((UNARY, 1), (BINARY, 2))
    for name, fn in table.items()
    if ops.op_by_name(name.removeprefix("bitwise_")).numpy is not None
}
POWERS = (-7, -2, -1, 0, 1, 2, 3, 5, 200)


def assert_as_jax(node, args, units=0):
    """The node computed here is what JAX gives, its dtype included."""
    leaves = dict(zip(map(id, node.inputs), args, strict=True))
    got = compute_array(node.out, lambda value: leaves[id(value)])
    with use_precision_of([node]):
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
    tried = {name.removeprefix("bitwise_") for name in ELEMENTWISE}
    others = {"integer_pow", "iota", "convert_element_type", "select_n", "clamp"}
    assert tried | {*LAYOUT} | others == {
        op.name for op in ops.defined_ops() if op.numpy is not None
    }


@pytest.mark.each("op", "dtype")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ELEMENTWISE)
def test_elementwise(op, dtype):
    fn, operands = ELEMENTWISE[op]
    args = [a.ravel() for a in np.meshgrid(*[edges(dtype)] * operands)]
    if taken({op: fn}, *args):
        assert_as_jax(traced(fn, *args), args, ROUNDED.get(op, 0))
        scalars = [a[-1:].reshape(()) for a in args]
        assert_as_jax(traced(fn, *scalars), scalars, ROUNDED.get(op, 0))


@pytest.mark.each()
@pytest.mark.parametrize("dtype", NUMBERS)
def test_powers_and_counting(dtype):
    numbers = edges(dtype)
    for y in POWERS:
        if y >= 0 or numbers.dtype.kind == "f":
            node = traced(lambda x, y=y: lax.integer_pow(x, y), numbers)
            assert_as_jax(node, [numbers], 32)
    for shape, dimension in (((300,), 0), ((2, 5), 1), ((0, 3), 1)):
        params = {"dtype": np.dtype(dtype), "shape": shape, "dimension": dimension}
        assert_as_jax(make_node(ops.iota, [], [(shape, dtype)], params), [])


@pytest.mark.each()
@pytest.mark.parametrize("dtype", NUMBERS)
def test_choices(dtype):
    low, x, high = (a.ravel() for a in np.meshgrid(*[edges(dtype)] * 3))
    assert_as_jax(traced(lax.clamp, low, x, high), [low, x, high])
    places = np.arange(x.size, dtype=np.int32) % 3
    for which, cases in ((places, [low, x, high]), (places > 0, [x, high]), (places[0], [x, low])):
        assert_as_jax(traced(lax.select_n, which, *cases), [which, *cases])


@pytest.mark.each("dtype", "target")
@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions(dtype, target):
    numbers, params = edges(dtype), {"new_dtype": np.dtype(target)}
    node = made("convert_element_type", [numbers], (numbers.shape, np.dtype(target)), params)
    assert_as_jax(node, [numbers])


def made(op, args, result, params):
    """A node of these arrays."""
    inputs = [Value(a.shape, a.dtype, "input") for a in args]
    return make_node(ops.op_by_name(op), inputs, [result], params)


STRIDED = {"start_indices": (1, 0, 1), "limit_indices": (2, 3, 4), "strides": (1, 2, 2)}
NOTHING = {"start_indices": (0, 2, 0), "limit_indices": (2, 2, 4), "strides": (1, 1, 1)}
SPREAD = {"shape": (2, 7, 3, 4), "broadcast_dimensions": (0, 2, 3)}
LAYOUT = {
    "reshape": [((6, 4), {"shape": (6, 4)})],
    "transpose": [((4, 2, 3), {"permutation": (2, 0, 1)})],
    "broadcast_in_dim": [((2, 7, 3, 4), SPREAD)],
    "slice": [((1, 2, 2), STRIDED), ((2, 0, 4), NOTHING)],
    "concatenate": [((2, 3, 8), {"dimension": 2}), ((4, 3, 4), {"dimension": 0})],
    "factor": [((2, 3, 4), {"least": 0.0, "most": np.inf})],
}


@pytest.mark.parametrize("op", LAYOUT)
@pytest.mark.parametrize("dtype", ("bool", "uint64", "float16"))
def test_layout(op, dtype):
    x = np.arange(24).reshape(2, 3, 4).astype(dtype)
    args = [x, x[::-1]] if op == "concatenate" else [x]
    for shape, params in LAYOUT[op]:
        assert_as_jax(made(op, args, (shape, x.dtype), params), args)


# ------------------------------------------------------------------------ in programs and constants


def test_what_is_folded_is_what_jax_computes():
    def saturated(x):
        bytes_ = jnp.array([300.0, -5.0, jnp.nan, jnp.inf, 77.9]).astype(jnp.uint8)
        words = jnp.array([3e9, -3e9, jnp.nan, -jnp.inf, 2.0**31]).astype(jnp.int32)
        return jnp.full((5,), 300.0).astype(jnp.uint8) + bytes_, words, x

    x = np.zeros(2, np.float32)
    got = run(converter.to_onnx(saturated, [x]), [x]).values()
    np.testing.assert_equal([*got], [np.asarray(y) for y in saturated(x)])


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
