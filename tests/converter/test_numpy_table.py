"""Operations that constant folding computes with numpy, compared with JAX.

They run on every dtype except bfloat16, at the edges of the dtype.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from converter.frontend.trace import trace
from converter.ir import Value, make_node, ops
from converter.ir.evaluation import compute_array, run_node, use_precision_of
from tests.arrays import describe_difference
from tests.conformance import within_units
from tests.programs.primitives import ALL, BINARY, UNARY, edges, supported_functions

DTYPES = tuple(dtype for dtype in ALL if dtype != "bfloat16")
NUMBERS = DTYPES[1:]

ROUNDED = {"exp": 4, "log": 4, "sin": 4, "cos": 4, "pow": 4}
"""By function: the allowed difference in units in the last place.

Neither numpy nor XLA rounds these functions correctly.
"""

ELEMENTWISE = {
    name: (fn, count)
    for table, count in ((UNARY, 1), (BINARY, 2))
    for name, fn in table.items()
    if ops.op_by_name(name.removeprefix("bitwise_")).numpy is not None
}
POWERS = (-7, -2, -1, 0, 1, 2, 3, 5, 200)


def assert_agrees_with_jax(node, args, units=0):
    """Assert that numpy's result of a node has the values, the shape and the dtype of JAX's."""
    leaves = dict(zip(map(id, node.inputs), args, strict=True))
    actual = compute_array(node.out, lambda value: leaves[id(value)])
    with use_precision_of([node]):
        expected = np.asarray(run_node(node, [jnp.asarray(a) for a in args], {})[0])
    assert (node.out.shape, node.out.dtype) == (expected.shape, expected.dtype)
    complaint = describe_difference(actual, expected, within_units(units))
    assert not complaint, f"{node}: {complaint}"


def trace_node(fn, *arrays):
    """Return the only node in the graph of a function of these arrays."""
    with jax.enable_x64(True):
        (node,) = trace(fn, [(a.shape, a.dtype) for a in arrays]).nodes
    return node


def test_every_row_is_tested():
    tested = {name.removeprefix("bitwise_") for name in ELEMENTWISE}
    other_ops = {"integer_pow", "iota", "convert_element_type", "select_n", "clamp"}
    assert tested | {*LAYOUT} | other_ops == {
        op.name for op in ops.defined_ops() if op.numpy is not None
    }


@pytest.mark.each("op", "dtype")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ELEMENTWISE)
def test_elementwise_operations_agree_with_jax(op, dtype):
    fn, operands = ELEMENTWISE[op]
    args = [a.ravel() for a in np.meshgrid(*[edges(dtype)] * operands)]
    if supported_functions({op: fn}, *args):
        assert_agrees_with_jax(trace_node(fn, *args), args, ROUNDED.get(op, 0))
        scalars = [a[-1:].reshape(()) for a in args]
        assert_agrees_with_jax(trace_node(fn, *scalars), scalars, ROUNDED.get(op, 0))


@pytest.mark.each()
@pytest.mark.parametrize("dtype", NUMBERS)
def test_integer_powers_and_iota_agree_with_jax(dtype):
    values = edges(dtype)
    for y in POWERS:
        if y >= 0 or values.dtype.kind == "f":
            node = trace_node(lambda x, y=y: lax.integer_pow(x, y), values)
            assert_agrees_with_jax(node, [values], 32)
    for shape, dimension in (((300,), 0), ((2, 5), 1), ((0, 3), 1)):
        params = {"dtype": np.dtype(dtype), "shape": shape, "dimension": dimension}
        assert_agrees_with_jax(make_node(ops.iota, [], [(shape, dtype)], params), [])


@pytest.mark.each()
@pytest.mark.parametrize("dtype", NUMBERS)
def test_clamp_and_select_agree_with_jax(dtype):
    low, x, high = (a.ravel() for a in np.meshgrid(*[edges(dtype)] * 3))
    assert_agrees_with_jax(trace_node(lax.clamp, low, x, high), [low, x, high])
    selectors = np.arange(x.size, dtype=np.int32) % 3
    for selector, cases in (
        (selectors, [low, x, high]),
        (selectors > 0, [x, high]),
        (selectors[0], [x, low]),
    ):
        assert_agrees_with_jax(trace_node(lax.select_n, selector, *cases), [selector, *cases])


@pytest.mark.each("dtype", "target")
@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype_conversions_agree_with_jax(dtype, target):
    values, params = edges(dtype), {"new_dtype": np.dtype(target)}
    node = make_node_of("convert_element_type", [values], (values.shape, np.dtype(target)), params)
    assert_agrees_with_jax(node, [values])


def make_node_of(op, args, result, params):
    """Return a node on inputs like these arrays; ``result`` is its shape and dtype."""
    inputs = [Value(a.shape, a.dtype, "input") for a in args]
    return make_node(ops.op_by_name(op), inputs, [result], params)


STRIDED_SLICE = {"start_indices": (1, 0, 1), "limit_indices": (2, 3, 4), "strides": (1, 2, 2)}
EMPTY_SLICE = {"start_indices": (0, 2, 0), "limit_indices": (2, 2, 4), "strides": (1, 1, 1)}
BROADCAST = {"shape": (2, 7, 3, 4), "broadcast_dimensions": (0, 2, 3)}
LAYOUT = {
    "reshape": [((6, 4), {"shape": (6, 4)})],
    "transpose": [((4, 2, 3), {"permutation": (2, 0, 1)})],
    "broadcast_in_dim": [((2, 7, 3, 4), BROADCAST)],
    "slice": [((1, 2, 2), STRIDED_SLICE), ((2, 0, 4), EMPTY_SLICE)],
    "concatenate": [((2, 3, 8), {"dimension": 2}), ((4, 3, 4), {"dimension": 0})],
    "factor": [((2, 3, 4), {"least": 0.0, "most": np.inf})],
}


@pytest.mark.parametrize("op", LAYOUT)
@pytest.mark.parametrize("dtype", ("bool", "uint64", "float16"))
def test_operations_on_shapes_agree_with_jax(op, dtype):
    x = np.arange(24).reshape(2, 3, 4).astype(dtype)
    args = [x, x[::-1]] if op == "concatenate" else [x]
    for shape, params in LAYOUT[op]:
        assert_agrees_with_jax(make_node_of(op, args, (shape, x.dtype), params), args)
