"""Values and indices out of range, compared with JAX.

Floats become integers, sums and products leave their dtype, and indices break their promise.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from converter.opsets import is_older
from converter.verify.sessions import run, session
from tests.conformance import assert_close
from tests.programs.window import FORMS

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def assert_same(fn, *args, opset=23):
    """Assert that the file has the bits of JAX, with ONNX Runtime's optimizer and without.

    Return the export.
    """
    export = converter.to_onnx(fn, list(args), opset=opset)
    for level in ("all", "disabled"):
        results = run(session(export, level=level), args).values()
        for actual, expected in zip(results, jax.tree.leaves(jax.jit(fn)(*args)), strict=True):
            np.testing.assert_array_equal(actual, np.asarray(expected))
    return export


def test_conversions_in_range_add_no_nodes():
    def fn(x):
        return jnp.floor(jnp.clip(x.astype(jnp.float32), 0.0, 254.5)).astype(jnp.uint8)

    export = assert_same(fn, np.arange(12, dtype=np.int32))
    assert not {"Where", "IsNaN"} & export.report.histogram.keys()


def test_divisions_by_constants_add_no_nodes():
    """`tests/rules/` and `test_edges.py` test divisions by other values."""
    x = np.array([-(2**31), 5, 0, -7, 2**31 - 1, 12], np.int32)
    export = assert_same(lambda x: (lax.div(x, jnp.int32(7)), lax.rem(x, jnp.int32(-3))), x)
    assert export.report.histogram == {"Div": 1, "Mod": 1}


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_reductions_wrap_as_in_jax(dtype):
    """Sums and products wrap as in JAX.

    ONNX Runtime adds and multiplies integers in float64 and has no kernels for uint64.
    """
    info = np.iinfo(dtype)
    x = np.random.default_rng(3).integers(info.min, info.max, (3, 7), dtype, endpoint=True)
    with jax.enable_x64(True):
        assert_same(lambda x: jnp.prod(x, 1, dtype=x.dtype), x)
        if dtype != "int64":
            assert_same(lambda x: jnp.sum(x, (0, 1), dtype=x.dtype), x)


def test_order_of_large_integers_agrees_with_jax():
    """Order in uint64 agrees with JAX.

    ONNX Runtime cannot order uint64, and numbers from 2**63 on are negative in int64.
    """
    x = np.array([[1, 2**63, 7, 2**64 - 1], [2**63 - 1, 2**63 + 1, 0, 5]], np.uint64)

    def fn(x):
        indices = lax.argmax(x, 1, np.int32), lax.argmin(x, 1, np.int32)
        return indices, x.max(1), x.min(1), lax.top_k(x, 3), jnp.sort(x, 1), jnp.maximum(x, x[::-1])

    with jax.enable_x64(True):
        assert_same(fn, x)


def test_integer_convolutions_wrap_as_in_jax():
    """Integer convolutions wrap as in JAX, also if the dtype of their sums is wider."""
    numbers = [
        60 * np.random.default_rng(3).standard_normal(s) for s in ((2, 4, 9, 7), (6, 2, 3, 5))
    ]

    def widening_conv(x, w):
        return lax.conv(x[:, :2], w, (1, 1), "SAME", preferred_element_type=np.int32)

    assert_same(FORMS["grouped"], *(x.astype(np.int32) * np.int32(123457) for x in numbers))
    assert_same(widening_conv, *(x.astype(np.int8) for x in numbers))


def test_integer_powers_of_floats_agree_with_jax():
    x = np.array([1.5, -2.0, 3.0, 0.5], np.float32)
    for y in (np.array([0, 1, 2, 255], np.uint8), np.array([3, 2, -1, -300], np.int16)):
        (actual,) = run(converter.to_onnx(lax.pow, [x, y]), [x, y]).values()
        assert_close(actual, lax.pow(x, y))


# ------------------------------------------------------------------------------- broken promises

TABLE = np.arange(1, 36, dtype=np.float32).reshape(5, 7)
INDICES = np.array([-30, -3, 0, 4, 5, 8, -6], np.int32)


def gather_promised(x, i):
    return x.at[i].get(mode="promise_in_bounds")


def is_within(i):
    return (i >= 0) & (i < 5)


def gathered_twice(x, i):
    return jnp.where(is_within(i), gather_promised(x[0], gather_promised(x[0], i).astype(int)), 0)


def gathered_in_loop(x, i):
    """Gather in the loop that masks the gathered rows."""

    def step(carry, k):
        return jnp.where(is_within(k), carry + gather_promised(x, k), carry), carry

    return lax.scan(step, jnp.zeros(7), i)


def gathered_before_loop(x, i):
    """Gather before the loop that masks the gathered rows."""

    def step(carry, row):
        return jnp.where(is_within(row[0]), carry + row[1], carry), None

    return lax.scan(step, jnp.zeros(7), (i, gather_promised(x, i)))[0]


def gathered_in_branches(x, i):
    """Gather in branches, and mask the result after them."""
    branches = (lambda: gather_promised(x[:, 1], i)), (lambda: gather_promised(x[:, 2], i))
    return jnp.where(is_within(i), lax.cond(x[0, 0] > 0, *branches), 0)


MASKED = {
    "two indices": lambda x, i: jnp.where(is_within(i), x[i, i], 0),
    "broadcast": lambda x, i: jnp.where(is_within(i)[:, None], 2 * gather_promised(x, i) + 1, 0),
    "summed": lambda x, i: jnp.where(is_within(i), gather_promised(x, i).sum(1), 0),
    "gather of gather": gathered_twice,
    "loop": gathered_in_loop,
    "before the loop": gathered_before_loop,
    "branches": gathered_in_branches,
}
"""Functions of a table and of indices out of bounds, whose gathers are masked afterwards."""


@pytest.mark.each("name")
@pytest.mark.parametrize("name", MASKED)
def test_masked_gathers_out_of_bounds_agree_with_jax(name):
    assert_same(MASKED[name], TABLE, INDICES)


def test_strict_files_do_not_rely_on_promises():
    @jax.jit
    def fn(x, i):
        mode = {"mode": "promise_in_bounds"}
        return gather_promised(x, i), x.at[i].set(3.5, **mode), x.at[i, i].add(2.0, **mode)

    export = converter.to_onnx(fn, [TABLE, INDICES], strict=True)
    results = run(export, [TABLE, INDICES]).values()
    np.testing.assert_equal([*results], [np.asarray(y) for y in fn(TABLE, INDICES)])


def test_kept_promises_add_no_nodes():
    """No Clip is added if no mask follows, or if the indices are known to be within bounds."""

    def clipped(x, i):
        return jnp.where(i[:, None] > 3, gather_promised(x, jnp.clip(i, 0, 4)), 0)

    for fn in (gather_promised, clipped):
        assert "Clip" not in converter.to_onnx(fn, [TABLE, INDICES]).report.histogram


@pytest.mark.parametrize("indices", [[7], [5, 6, 7], [-7, 2], [[-9, 4], [5, 0]]])
def test_constant_indices_out_of_bounds_are_clipped(indices):
    """Constant indices out of bounds are clipped when they are read, as in XLA.

    Some of these once gave a file whose result had another shape than declared.
    """
    assert_same(lambda x: x[jnp.array(indices)], TABLE)


def test_writes_at_constant_indices_out_of_bounds_are_dropped():
    """Writes at constant indices out of bounds are dropped, as in XLA."""

    def fn(x, y):
        target_rows, mode = x.at[jnp.array([1, 9])], {"mode": "promise_in_bounds"}
        return target_rows.set(y, **mode), target_rows.add(y, **mode), target_rows.max(y, **mode)

    assert_same(fn, TABLE, -TABLE[:2] - 1)


ROUNDS_TWICE = "before jax 0.10, XLA without its fusion emitters, as tests run it, rounds twice"
SMALL = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "int4", "uint4"]


@pytest.mark.skipif(is_older(jax.__version__, "0.10"), reason=ROUNDS_TWICE)
@pytest.mark.parametrize("source", ["float32", "float16"])
@pytest.mark.parametrize("target", SMALL)
def test_conversions_to_eight_or_four_bits_agree_with_jax(source, target):
    """A number out of range becomes NaN or infinity in a float and the extreme of an integer."""
    dtype = getattr(jnp, target)
    out_of_range = [1.2, -1, np.nan, 0.5, 1e20, -np.inf, np.inf, 3e9, -3e9, 254.9]
    special_values = [
        *out_of_range,
        448,
        464,
        465,
        57344,
        61440,
        240,
        248,
        1.0625,
        -1.5,
        -0.5,
        0.5,
        7.7,
        15.9,
    ]
    numbers = np.concatenate([special_values, np.random.default_rng(0).standard_normal(60) * 8])
    with np.errstate(over="ignore"):
        array = numbers.astype(source)
    assert_same(lambda x: x.astype(dtype).astype(jnp.float32), array)


@pytest.mark.parametrize("target", ["float8_e8m0fnu", "int2"])
def test_dtypes_that_onnx_lacks_are_rejected(target):
    with pytest.raises(converter.UnsupportedError, match="ONNX has no values of dtype"):
        converter.to_onnx(lambda x: x.astype(getattr(jnp, target)).astype(jnp.float32), [(3,)])


COMPUTED = {
    "add": lambda x: x + x,
    "compare": lambda x: x > x[0],
    "where": lambda x: jnp.where(x > 0, x, -x),
    "join": lambda x: jnp.concatenate([x, x]),
    "turn": lambda x: x.reshape(3, 2).T,
    "choose": lambda x: lax.cond(x.astype(jnp.float32)[0] > 0, lambda a: a, lambda a: a, x),
}


@pytest.mark.parametrize("target", SMALL)
@pytest.mark.parametrize("name", COMPUTED)
def test_operations_without_kernels_are_rejected(name, target):
    """A file on dtypes without kernels either agrees with JAX or is refused."""

    def fn(x):
        return COMPUTED[name](x.astype(getattr(jnp, target))).astype(jnp.float32)

    try:
        export = converter.to_onnx(fn, [(6,)])
    except converter.UnsupportedError as error:
        assert "nothing is computed in" in str(error)
    else:
        assert name in ("choose", "turn")
        assert converter.check(export, jax.jit(fn)).passed
