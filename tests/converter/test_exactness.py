"""Deviations of ONNX's operators from JAX: reported by default, absent from a strict conversion.

The numbers of default and strict files are compared with JAX.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.scipy.ndimage import map_coordinates

import converter
from converter.ir import dims
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


def attend(x, is_visible):
    """Return attention to those rows of ``x`` that are visible."""
    queries = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    scores = jnp.where(is_visible, queries @ x.T, -jnp.inf)
    return jax.nn.softmax(scores, axis=-1) @ jnp.nan_to_num(x)


def pool(op, initial, *size, **options):
    return lambda x: lax.reduce_window(x, initial, op, (1, *size), (1, 1), "VALID", **options)


def loop(gates, cell):
    """Return a function that runs a recurrent cell over the rows of ``x``, [rows, 6].

    The state has three numbers; a cell with four gates has two states.
    """
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
    "attention": lambda x: attend(x[:, :4], jnp.isfinite(x[:, :4]).all(1)),
    "grid_sample": lambda x: map_coordinates(IMAGE, [x, x * 0.5], order=1),
}

UNITS = {"gelu": 61, "lstm": 8, "gru": 8}
"""By function: units in the last place that a strict file may differ from JAX, if more than two.

An error of half a unit in x moves ``erfc(x)`` by x² / 2 units, at most 11² / 2. A cell adds up four
rounding errors twice.
"""


def max_units(export, fn, x=X, **session_options):
    """Return the largest difference of the file from JAX, in units in the last place.

    The options are those of the session that runs the file.
    """
    results = run(session(export, **session_options) if session_options else export, [x]).values()
    pairs = zip(results, jax.tree.leaves(jax.jit(fn)(x)), strict=True)
    return max(units(actual, np.asarray(expected)).max() for actual, expected in pairs)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_deviations_are_reported_and_strict_files_are_exact(name):
    """The default file differs on these numbers; the report names the node and the source line.

    The strict file agrees up to the rounding of its exponentials.
    """
    fn, op = FUNCTIONS[name], name.split(" ", maxsplit=1)[0]
    export = converter.to_onnx(fn, [X])
    (sentence,) = export.report.deviations
    assert sentence.startswith(TABLE[op].sentence)
    assert f"(1 {op}" in sentence or f"(2 {op}" in sentence
    assert "test_exactness.py" in sentence
    assert f"may differ: {sentence}" in str(export.report)
    assert max_units(export, fn) > 2
    strict = converter.to_onnx(fn, [X], strict=True)
    assert strict.report.deviations == []
    for level in ("all", "disabled"):
        assert max_units(strict, fn, level=level) <= UNITS.get(name, 2)


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
def test_resizing_parameters_deviates_if_they_may_be_infinite(finite, fn, method):
    """Parameters are assumed to be finite; numbers computed from parameters or sizes are not."""
    p, x = np.arange(-1, 6, dtype=np.float32), np.zeros(6, np.float32)

    def resize_result(p, x):
        return jax.image.resize(fn(p, x), (2 * x.shape[0],), method) + x[0]

    for strict in (False, True):
        export = converter.to_onnx(resize_result, [("C",)], params=p, strict=strict)
        assert bool(export.report.deviations) != (finite or strict)
        resizes = [s for s in export.report.deviations if s.startswith(TABLE["resize"].sentence)]
        assert resizes == export.report.deviations
        (actual,) = run(export, [x]).values()
        is_same = np.isnan(actual) == np.isnan(jax.jit(resize_result)(p, x))
        assert is_same.all() == (finite or strict)


UNFIXED = {
    "max_pool_scatter": jax.grad(lambda x: jnp.sum(FUNCTIONS["max_pool"](x))),
    "approx_top_k": lambda x: lax.approx_max_k(x, 4),
}
"""By name: a function from which a strict file differs too."""


@pytest.mark.parametrize("name", UNFIXED)
def test_deviations_of_strict_files_are_reported(name):
    for strict in (False, True):
        export = converter.to_onnx(UNFIXED[name], [X], strict=strict)
        sentences = export.report.deviations
        assert [s for s in sentences if s.startswith(TABLE[name].sentence)], sentences
        assert max_units(export, UNFIXED[name]) > 2


def test_infinities_under_leaky_relu_are_exact_if_strict():
    """PRelu of older versions of ONNX Runtime gives NaN for infinities (`tests/onnxruntimes`)."""

    def fn(slopes, x):
        return jnp.where(x >= 0, x, slopes * x)

    slopes = np.linspace(-1, 1, 6, dtype=np.float32)
    sentence, *other_sentences = converter.to_onnx(fn, [X], params=slopes).report.deviations
    assert sentence.startswith(TABLE["leaky_relu"].sentence) and not other_sentences
    strict = converter.to_onnx(fn, [X], params=slopes, strict=True)
    assert strict.report.deviations == []
    assert "PRelu" not in strict.report.histogram
    assert converter.check(strict, lambda x: fn(slopes, x), [X]).passed
    newer = converter.to_onnx(fn, [X], params=slopes, target="onnxruntime>=1.27")
    assert newer.report.deviations == []


def test_windows_longer_than_their_axis_are_reported():
    """For windows of 3 over an axis of 2, JAX has no element and ONNX Runtime has one."""

    def means(x):
        total = lax.reduce_window(x, 0.0, lax.add, (3, 1), (2, 1), "VALID")
        return total, total / 3

    default = converter.to_onnx(means, [("2*B", 4)])
    assert sum("longer than its axis" in sentence for sentence in default.report.deviations) == 1
    strict = converter.to_onnx(means, [("2*B", 4)], strict=True)
    assert strict.report.deviations == []
    assert converter.check(strict, means).passed
    assert converter.to_onnx(means, [("4*B", 4)]).report.deviations == []


@pytest.mark.full
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_strict_files_are_exact_in_other_dtypes(name, dtype):
    with jax.enable_x64(True):
        fn, x = FUNCTIONS[name], X.astype(dtype)
        limit = UNITS.get(name, 8 if name == "logistic" else 2)
        assert max_units(converter.to_onnx(fn, [x], strict=True), fn, x) <= limit


@pytest.mark.parametrize("dtype", [np.int32, np.float16, np.float32, np.float64])
def test_sorting_and_integer_extremes_are_exact_by_default(dtype):
    """Sorting, with NaN last and zeros equal, and extremes of integers are exact by default."""
    x = (np.nan_to_num(X).clip(-9, 9) if dtype == np.int32 else X).astype(dtype)

    def fn(x):
        extremes = (jnp.max(x), jnp.argmax(x)) if dtype == np.int32 else ()
        return jnp.sort(x, 1), jnp.argsort(x, 0), *extremes

    with jax.enable_x64(True):
        export = converter.to_onnx(fn, [x])
        assert export.report.deviations == []
        assert max_units(export, fn, x) == 0


@pytest.mark.parametrize("axes", [(0, 1, 2), (0, 1)])
def test_a_clamp_of_a_broadcast_value_has_the_shape_of_its_bounds(axes):
    """The explicit broadcast of the value is removed before the clamp is rewritten for NaN."""
    bound = np.linspace(-1, 1, 6, dtype=np.float32).reshape(1, 2, 3)

    def fn(x):
        value = jnp.broadcast_to(x.sum(axes, keepdims=True), bound.shape)
        return lax.clamp(value, value, bound)[0, -1], lax.clamp(bound, value, x[:1, :2])

    export = converter.to_onnx(fn, [("B", 5, 3)], verify=True)
    broadcasting = [node for node in export.graph.walk() if node.op.broadcasts]
    for node in broadcasting:
        stated = dims.broadcast([v.shape for v in node.inputs])
        assert stated is not None and dims.is_same_shape(stated, node.out.shape)
    assert broadcasting
