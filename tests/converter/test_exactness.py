"""Where ONNX's operators differ from JAX: noted by default, exact in a strict conversion."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.scipy.ndimage import map_coordinates

import converter
from converter.legalize.deviations import deviations
from converter.opsets import DEFAULT_TARGET
from converter.targets import find_target
from converter.verify.sessions import run, session
from tests.converter.test_edges import units

TABLE = {op.name: deviation for op, deviation in deviations(find_target(DEFAULT_TARGET)).items()}

NAN, INF = np.nan, np.inf
X = np.array(
    [
        [3, NAN, 2, -1, 0.5, 7],
        [-INF, -INF, -INF, -INF, -INF, -INF],
        [0.0, -0.0, 0.0, -0.0, -1, 5],
        [INF, 1, -INF, NAN, NAN, 2],
    ],
    np.float32,
)
IMAGE = np.linspace(-1, 1, 30, dtype=np.float32).reshape(5, 6)
ROWS = np.array([2, 0, 1], np.int32)
ADDED = np.array([[1, 2, NAN, 4, 5, 6]] * 3, np.float32)


def attended(x, shown):
    """Attention of rows to those that are shown."""
    queries = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    scores = jnp.where(shown, queries @ x.T, -jnp.inf)
    return jax.nn.softmax(scores, axis=-1) @ jnp.nan_to_num(x)


def pool(op, start, *size, **more):
    return lambda x: lax.reduce_window(x, start, op, (1, *size), (1, 1), "VALID", **more)


def loop(gates, cell):
    """A recurrent cell over the rows of ``x``, [rows, 6], whose state has three numbers."""
    w, r = (np.linspace(-0.5, 1, n * 3 * gates, dtype=np.float32).reshape(n, -1) for n in (6, 3))

    def step(states, row):
        new = cell(states, jnp.split(row @ w, gates), jnp.split(states[0] @ r, gates))
        return new, new[0]

    return lambda x: lax.scan(step, (jnp.zeros(3), jnp.zeros(3))[: 2 if gates == 4 else 1], x)


def lstm(states, x, h):
    i, o, f, g = (a + b for a, b in zip(x, h, strict=True))
    c = jax.nn.sigmoid(f) * states[1] + jax.nn.sigmoid(i) * jax.nn.relu(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def gru(states, x, h):
    z, r = (jax.nn.sigmoid(x[i] + h[i]) for i in (0, 1))
    return ((1 - z) * jnp.tanh(x[2] + r * h[2]) + z * states[0],)


FUNCTIONS = {
    "lstm": loop(4, lstm),
    "gru": loop(3, gru),
    "rnn": loop(1, lambda states, x, h: (jax.nn.relu(x[0] + h[0]),)),
    "reduce_max": lambda x: jnp.max(x, 1),
    "reduce_min": lambda x: (jnp.min(x, 0), jnp.min(x)),
    "argmax": lambda x: (jnp.argmax(x, 1), jnp.argmax(x)),
    "argmin": lambda x: jnp.argmin(x, 0),
    "max_pool": pool(lax.max, -jnp.inf, 3),
    "max_pool of minima": pool(lax.min, jnp.inf, 2),
    "max_pool dilated": pool(lax.max, -jnp.inf, 3, window_dilation=(1, 2)),
    "scatter-max": lambda x: x.at[ROWS].max(ADDED.astype(x.dtype)),
    "scatter-min": lambda x: x.at[ROWS].min(ADDED.astype(x.dtype)),
    "top_k": lambda x: lax.top_k(x, 4),
    "gelu": lambda x: jax.nn.gelu(-abs(x[2:]) - 4, approximate=False),
    "logistic": lambda x: jax.nn.sigmoid(x * 10),
    "resize": lambda x: jax.image.resize(x[:, :2], (4, 5), "linear"),
    "attention": lambda x: attended(x[:, :4], jnp.isfinite(x[:, :4]).all(1)),
    "grid_sample": lambda x: map_coordinates(IMAGE, [x, x * 0.5], order=1),
}

UNITS = {"gelu": 61, "lstm": 8, "gru": 8}
"""Units in the last place where more than two are left: half of one in x moves ``erfc(x)`` by as
many as x squared, which is 11 ** 2 / 2 at most; cells add up what four roundings leave, twice."""


def apart(export, fn, x=X, **how):
    """How many units in the last place the file's numbers are from JAX's, at most."""
    got = run(session(export, **how) if how else export, [x]).values()
    pairs = zip(got, jax.tree.leaves(jax.jit(fn)(x)), strict=True)
    return max(units(actual, np.asarray(wanted)).max() for actual, wanted in pairs)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_differs_by_default_is_said_and_strict_is_exact(name):
    """The file does differ on these numbers, and the report says by which node, from which line.

    A strict one is right to the bit, but for what rounding is left of an exponential.
    """
    fn, op = FUNCTIONS[name], name.split(" ", maxsplit=1)[0]
    export = converter.to_onnx(fn, [X])
    (sentence,) = export.report.deviations
    assert sentence.startswith(TABLE[op].sentence)
    assert f"(1 {op}" in sentence or f"(2 {op}" in sentence
    assert "test_exactness.py" in sentence
    assert f"may differ: {sentence}" in str(export.report)
    assert apart(export, fn) > 2
    strict = converter.to_onnx(fn, [X], strict=True)
    assert strict.report.deviations == []
    for level in ("all", "disabled"):
        assert apart(strict, fn, level=level) <= UNITS.get(name, 2)


@pytest.mark.each("finite", "fn", "method")
@pytest.mark.parametrize(
    ("finite", "fn"),
    [
        (True, lambda p, x: p[::-1]),
        (True, lambda p, x: jnp.clip(jnp.arange(x.shape[0], dtype=x.dtype), 0, 9)),
        (False, lambda p, x: jnp.log(p)),
        (False, lambda p, x: jnp.log(jnp.arange(x.shape[0], dtype=x.dtype) - 1)),
    ],
    ids=["parameter", "bounded", "of a parameter", "of a size"],
)
@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_what_is_interpolated_of_parameters(finite, fn, method):
    """They are trusted to be finite; what is computed from them is not, nor what is of sizes."""
    p, x = np.arange(-1, 6, dtype=np.float32), np.zeros(6, np.float32)

    def called(p, x):
        return jax.image.resize(fn(p, x), (2 * x.shape[0],), method) + x[0]

    for strict in (False, True):
        export = converter.to_onnx(called, [("C",)], params=p, strict=strict)
        assert bool(export.report.deviations) != (finite or strict)
        said = [s for s in export.report.deviations if s.startswith(TABLE["resize"].sentence)]
        assert said == export.report.deviations
        (got,) = run(export, [x]).values()
        same = np.isnan(got) == np.isnan(jax.jit(called)(p, x))
        assert same.all() == (finite or strict)


SAID = {
    "max_pool_scatter": jax.grad(lambda x: jnp.sum(FUNCTIONS["max_pool"](x))),
    "approx_top_k": lambda x: lax.approx_max_k(x, 4),
}
"""What a strict conversion cannot mend either."""


@pytest.mark.parametrize("name", SAID)
def test_what_stays_different_is_said(name):
    for strict in (False, True):
        export = converter.to_onnx(SAID[name], [X], strict=strict)
        sentences = export.report.deviations
        assert [s for s in sentences if s.startswith(TABLE[name].sentence)], sentences
        assert apart(export, SAID[name]) > 2


def test_slopes_of_infinities():
    """Older versions of ONNX Runtime have NaN there (`tests/onnxruntimes`)."""

    def fn(slopes, x):
        return jnp.where(x >= 0, x, slopes * x)

    slopes = np.linspace(-1, 1, 6, dtype=np.float32)
    said, *others = converter.to_onnx(fn, [X], params=slopes).report.deviations
    assert said.startswith(TABLE["leaky_relu"].sentence) and not others
    strict = converter.to_onnx(fn, [X], params=slopes, strict=True)
    assert strict.report.deviations == []
    assert "PRelu" not in strict.report.histogram
    assert converter.check(strict, lambda x: fn(slopes, x), [X]).passed
    newer = converter.to_onnx(fn, [X], params=slopes, target="onnxruntime>=1.27")
    assert newer.report.deviations == []


def test_windows_that_may_be_too_long():
    """ONNX Runtime has one element of the windows of 3 over an axis of 2, where there is none."""

    def means(x):
        total = lax.reduce_window(x, 0.0, lax.add, (3, 1), (2, 1), "VALID")
        return total, total / 3

    default = converter.to_onnx(means, [("2*B", 4)])
    assert sum("longer than its axis" in said for said in default.report.deviations) == 1
    strict = converter.to_onnx(means, [("2*B", 4)], strict=True)
    assert strict.report.deviations == []
    assert converter.check(strict, means).passed
    assert converter.to_onnx(means, [("4*B", 4)]).report.deviations == []


@pytest.mark.parametrize(("weight", "scale"), [(1e30, 0), (1e-30, 1e-30), (1e30, 1e30), (1.0, 0.0)])
def test_strict_scales_stay_behind_products(weight, scale):
    """Scaled weights may be infinite or nothing where their products are neither."""
    x = np.array([[1e30, 1], [1e-30, 1e-30], [INF, 1], [NAN, 0]], np.float32)
    params = {"w": np.full((2, 3), weight, np.float32), "s": np.full(3, scale, np.float32)}

    def fn(p, x):
        return (x @ p["w"]) * p["s"]

    (got,) = run(converter.to_onnx(fn, [x], params=params, strict=True), [x]).values()
    np.testing.assert_array_equal(got, np.asarray(jax.jit(fn)(params, x)))


@pytest.mark.full
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_strict_in_other_dtypes(name, dtype):
    with jax.enable_x64(True):
        fn, x = FUNCTIONS[name], X.astype(dtype)
        limit = UNITS.get(name, 8 if name == "logistic" else 2)
        assert apart(converter.to_onnx(fn, [x], strict=True), fn, x) <= limit


@pytest.mark.parametrize("dtype", [np.int32, np.float16, np.float32, np.float64])
def test_exact_by_default(dtype):
    """Sorting, where NaN is last and zeros are equal, and extremes of integers."""
    x = (np.nan_to_num(X).clip(-9, 9) if dtype == np.int32 else X).astype(dtype)

    def fn(x):
        extremes = (jnp.max(x), jnp.argmax(x)) if dtype == np.int32 else ()
        return jnp.sort(x, 1), jnp.argsort(x, 0), *extremes

    with jax.enable_x64(True):
        export = converter.to_onnx(fn, [x])
        assert export.report.deviations == []
        assert apart(export, fn, x) == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_sign_of_nan(dtype):
    """Opset 26 reads the bits: a NaN with its sign bit set is least of all in ``top_k``."""
    row = np.array([1, -np.nan, np.inf, 0.0, -0.0, np.nan, -np.inf, 2, -3, 1, -0.0, 0.0])
    x = np.stack([row, np.copysign(row, -row)]).astype(dtype)

    def fn(x):
        return lax.top_k(x, 9)

    with jax.enable_x64(dtype == "float64"):
        verdict = converter.check(converter.to_onnx(fn, [x], opset=26, strict=True), fn, [x])
    assert verdict.passed, verdict.differences
