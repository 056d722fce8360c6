"""What leaves a dtype: floats that become integers, divisions by zero, sums and products."""

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
    """The file gives JAX's numbers to the bit, with ONNX Runtime's optimiser and without."""
    export = converter.to_onnx(fn, list(args), opset=opset)
    for level in ("all", "disabled"):
        got = run(session(export, level=level), args).values()
        for actual, wanted in zip(got, jax.tree.leaves(jax.jit(fn)(*args)), strict=True):
            np.testing.assert_array_equal(actual, np.asarray(wanted))
    return export


def test_what_is_in_range_is_left_alone():
    def fn(x):
        return jnp.floor(jnp.clip(x.astype(jnp.float32), 0.0, 254.5)).astype(jnp.uint8)

    export = assert_same(fn, np.arange(12, dtype=np.int32))
    assert not {"Where", "IsNaN"} & export.report.histogram.keys()


def test_divisions_by_numbers_cost_nothing():
    """Others are in `tests/rules/` and in `test_edges.py`."""
    x = np.array([-(2**31), 5, 0, -7, 2**31 - 1, 12], np.int32)
    cheap = assert_same(lambda x: (lax.div(x, jnp.int32(7)), lax.rem(x, jnp.int32(-3))), x)
    assert cheap.report.histogram == {"Div": 1, "Mod": 1}


@pytest.mark.parametrize("dtype", INTEGERS)
def test_reductions_of_integers(dtype):
    """ONNX Runtime adds and multiplies in float64, compares halves, has no uint64."""
    info = np.iinfo(dtype)
    x = np.random.default_rng(3).integers(info.min, info.max, (3, 7), dtype, endpoint=True)
    with jax.enable_x64(True):
        assert_same(lambda x: jnp.prod(x, 1, dtype=x.dtype), x)
        if dtype != "int64":
            assert_same(lambda x: jnp.sum(x, (0, 1), dtype=x.dtype), x)


def test_the_order_of_large_integers():
    """ONNX Runtime orders no uint64; in int64 numbers from 2**63 on would be below zero."""
    x = np.array([[1, 2**63, 7, 2**64 - 1], [2**63 - 1, 2**63 + 1, 0, 5]], np.uint64)

    def fn(x):
        places = lax.argmax(x, 1, np.int32), lax.argmin(x, 1, np.int32)
        return places, x.max(1), x.min(1), lax.top_k(x, 3), jnp.sort(x, 1), jnp.maximum(x, x[::-1])

    with jax.enable_x64(True):
        assert_same(fn, x)


def test_convolutions():
    """Their products are far beyond 32 bits; sums may be wider than what is added."""
    numbers = [
        60 * np.random.default_rng(3).standard_normal(s) for s in ((2, 4, 9, 7), (6, 2, 3, 5))
    ]

    def wider(x, w):
        return lax.conv(x[:, :2], w, (1, 1), "SAME", preferred_element_type=np.int32)

    assert_same(FORMS["grouped"], *(x.astype(np.int32) * np.int32(123457) for x in numbers))
    assert_same(wider, *(x.astype(np.int8) for x in numbers))


def test_powers_of_floats_by_integers():
    x = np.array([1.5, -2.0, 3.0, 0.5], np.float32)
    for y in (np.array([0, 1, 2, 255], np.uint8), np.array([3, 2, -1, -300], np.int16)):
        (got,) = run(converter.to_onnx(lax.pow, [x, y]), [x, y]).values()
        assert_close(got, lax.pow(x, y))


# ------------------------------------------------------------------------------- broken promises

TABLE = np.arange(1, 36, dtype=np.float32).reshape(5, 7)
PLACES = np.array([-30, -3, 0, 4, 5, 8, -6], np.int32)


def promised(x, i):
    return x.at[i].get(mode="promise_in_bounds")


def inside(i):
    return (i >= 0) & (i < 5)


def gathered_twice(x, i):
    return jnp.where(inside(i), promised(x[0], promised(x[0], i).astype(int)), 0)


def accumulated(x, i):
    """The gather is in the loop that masks it."""

    def step(carry, k):
        return jnp.where(inside(k), carry + promised(x, k), carry), carry

    return lax.scan(step, jnp.zeros(7), i)


def gathered_before(x, i):
    """The gather is outside the loop that masks it."""

    def step(carry, row):
        return jnp.where(inside(row[0]), carry + row[1], carry), None

    return lax.scan(step, jnp.zeros(7), (i, promised(x, i)))[0]


def chosen(x, i):
    """The gathers are in branches."""
    branches = (lambda: promised(x[:, 1], i)), (lambda: promised(x[:, 2], i))
    return jnp.where(inside(i), lax.cond(x[0, 0] > 0, *branches), 0)


MASKED = {
    "two indices": lambda x, i: jnp.where(inside(i), x[i, i], 0),
    "broadcast": lambda x, i: jnp.where(inside(i)[:, None], 2 * promised(x, i) + 1, 0),
    "summed": lambda x, i: jnp.where(inside(i), promised(x, i).sum(1), 0),
    "gather of gather": gathered_twice,
    "loop": accumulated,
    "before the loop": gathered_before,
    "branches": chosen,
}


@pytest.mark.each("name")
@pytest.mark.parametrize("name", MASKED)
def test_gathers_that_a_mask_follows(name):
    assert_same(MASKED[name], TABLE, PLACES)


def test_strict_believes_no_promise():
    @jax.jit
    def fn(x, i):
        how = {"mode": "promise_in_bounds"}
        return promised(x, i), x.at[i].set(3.5, **how), x.at[i, i].add(2.0, **how)

    export = converter.to_onnx(fn, [TABLE, PLACES], strict=True)
    got = run(export, [TABLE, PLACES]).values()
    np.testing.assert_equal([*got], [np.asarray(y) for y in fn(TABLE, PLACES)])


def test_promises_that_are_kept_cost_nothing():
    """No mask follows, or the numbers are known to be inside."""

    def clipped(x, i):
        return jnp.where(i[:, None] > 3, promised(x, jnp.clip(i, 0, 4)), 0)

    for fn in (promised, clipped):
        assert "Clip" not in converter.to_onnx(fn, [TABLE, PLACES]).report.histogram


@pytest.mark.parametrize("places", [[7], [5, 6, 7], [-7, 2], [[-9, 4], [5, 0]]])
def test_known_indices(places):
    """XLA clips a read. Some gave a file whose result had another shape than it said."""
    assert_same(lambda x: x[jnp.array(places)], TABLE)


def test_known_indices_that_are_written():
    """XLA drops a write."""

    def fn(x, y):
        at, how = x.at[jnp.array([1, 9])], {"mode": "promise_in_bounds"}
        return at.set(y, **how), at.add(y, **how), at.max(y, **how)

    assert_same(fn, TABLE, -TABLE[:2] - 1)


ROUNDS_TWICE = "XLA without its fusion emitters, as tests run it, rounds twice before jax 0.10"
SMALL = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "int4", "uint4"]


@pytest.mark.skipif(is_older(jax.__version__, "0.10"), reason=ROUNDS_TWICE)
@pytest.mark.parametrize("source", ["float32", "float16"])
@pytest.mark.parametrize("target", SMALL)
def test_floats_become_eight_bits_or_four(source, target):
    """What is beyond a float is NaN or infinity, and what is beyond an integer is its end."""
    dtype = getattr(jnp, target)
    beyond = [1.2, -1, np.nan, 0.5, 1e20, -np.inf, np.inf, 3e9, -3e9, 254.9]
    odd = [*beyond, 448, 464, 465, 57344, 61440, 240, 248, 1.0625, -1.5, -0.5, 0.5, 7.7, 15.9]
    numbers = np.concatenate([odd, np.random.default_rng(0).standard_normal(60) * 8])
    with np.errstate(over="ignore"):
        array = numbers.astype(source)
    assert_same(lambda x: x.astype(dtype).astype(jnp.float32), array)


@pytest.mark.parametrize("target", ["float8_e8m0fnu", "int2"])
def test_other_small_numbers_are_refused(target):
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
def test_what_has_no_kernel_is_refused(name, target):
    """Either a file is right, or there is none."""

    def fn(x):
        return COMPUTED[name](x.astype(getattr(jnp, target))).astype(jnp.float32)

    try:
        export = converter.to_onnx(fn, [(6,)])
    except converter.UnsupportedError as error:
        assert "nothing is computed in" in str(error)
    else:
        assert name in ("choose", "turn")
        assert converter.check(export, jax.jit(fn)).passed
