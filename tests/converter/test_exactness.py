"""Deviations of ONNX's operators from JAX: reported by default, absent from a strict conversion.

The numbers of default and strict files are compared with JAX.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from converter.ir import dims
from converter.legalize.deviations import deviations
from converter.opsets import DEFAULT_TARGET
from converter.targets import find_target
from converter.verify.sessions import run
from tests.arrays import FLUSHED, count_units
from tests.programs.deviations import EXACT_BY_DEFAULT, FUNCTIONS, X

TABLE = {op.name: deviation for op, deviation in deviations(find_target(DEFAULT_TARGET)).items()}


def max_units(export, fn):
    """Return the largest difference of the file from JAX, in units in the last place."""
    pairs = zip(run(export, [X]).values(), jax.tree.leaves(jax.jit(fn)(X)), strict=True)
    return max(
        count_units(actual, np.asarray(expected), FLUSHED).max() for actual, expected in pairs
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_deviations_are_reported_unless_strict(name):
    """The default file differs on these numbers; the report names the node and the source line.
    Strict files have no deviations, and `tests/programs/deviations.py` tests their numbers."""
    fn, op = FUNCTIONS[name], name.split(" ", maxsplit=1)[0]
    export = converter.to_onnx(fn, [X])
    (sentence,) = export.report.deviations
    assert sentence.startswith(TABLE[op].sentence)
    assert f"(1 {op}" in sentence or f"(2 {op}" in sentence
    assert "deviations.py" in sentence
    assert f"may differ: {sentence}" in str(export.report)
    assert max_units(export, fn) > 2
    assert converter.to_onnx(fn, [X], strict=True).report.deviations == []


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


@pytest.mark.parametrize("case", EXACT_BY_DEFAULT, ids=lambda case: case.name)
def test_sorting_and_integer_extremes_are_no_deviation(case):
    with jax.enable_x64(case.x64):
        assert case.export().report.deviations == []


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
