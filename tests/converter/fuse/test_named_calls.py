"""Named calls of JAX (resize, map_coordinates): recognised under `jax.vmap`, and only if genuine.

Functions of users with the same names must be compared with JAX's own and left alone.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.ndimage import map_coordinates

import converter
from converter.frontend.trace import trace
from converter.fuse import resize
from converter.fuse.named_calls import CALLS, find_call
from converter.ir import ops

METHODS = ("nearest", "linear", "cubic", "lanczos3")


def traced_calls(fn, *specs):
    """Return the named calls in the traced graph of a function."""
    graph = trace(fn, specs, kept_calls=frozenset(CALLS))
    return [node for node in graph.walk() if node.op is ops.named_call]


def resized(x, method="linear", antialias=True, size=(3, 9, 4)):
    return jax.image.resize(x, size, method, antialias)


@pytest.mark.each("out_axis", "dtype")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("out_axis", [0, 2])
@pytest.mark.parametrize("in_axis", [0, 1, 2, 3])
@pytest.mark.parametrize("method", METHODS)
def test_batched_resize_is_recognised_at_any_axis(method, in_axis, out_axis, dtype):
    """The recogniser finds the batch axis although batch and channels have the same size."""
    shape = [3, 5, 7]
    shape.insert(in_axis, 3)
    for antialias in (True, False):
        fn = jax.vmap(partial(resized, method=method, antialias=antialias), in_axis, out_axis)
        (call,) = traced_calls(fn, jax.ShapeDtypeStruct(tuple(shape), dtype))
        match = find_call(call, resize._candidates)
        assert match is not None and match.candidate[0] == method
        # One axis is enlarged and one reduced, so that antialiasing matters except for "nearest".
        assert method == "nearest" or match.candidate[1] == antialias
        sizes = [d for i, d in enumerate(match.shape) if i != in_axis]
        assert (match.shape[in_axis], sizes) == (3, [3, 9, 4])


@pytest.mark.parametrize(
    "levels",
    [
        (0, 3),
        (2, 3),
        (1, 0, 2),
        *(pytest.param(x, marks=pytest.mark.full) for x in ((0, 1), (2, 1))),
    ],
)
def test_nested_vmaps_of_a_resize_match_jax(levels):
    fn = partial(resized, size=(9, 4))
    shape = [5, 7]
    for number, axis in enumerate(reversed(levels)):
        shape.insert(min(axis, len(shape)), 2 + number)
        fn = jax.vmap(fn, in_axes=min(axis, len(shape) - 1), out_axes=-1)
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    export = converter.to_onnx(fn, [x])
    assert export.report.histogram["Resize"] == 1
    (actual,) = converter.run(export, [x]).values()
    np.testing.assert_allclose(actual, fn(x), rtol=0, atol=1e-6)


@jax.jit
def _resize(x):
    """Repeat columns: a function with the name of JAX's resize that is none."""
    return jnp.repeat(x, 2, 1) * 2


@jax.jit
def _map_coordinates(x, rows, columns):
    """Gather elements: a function with the name of JAX's sampling that is none."""
    return x[rows.astype(int), columns.astype(int)] * 0.5


def test_functions_of_users_with_the_same_names_are_not_fused():
    def fn(x, y):
        inner = jax.jit(lambda x: jax.image.resize(x, (6, 9), "linear") + 1)
        inner.__wrapped__.__name__ = "_resize"
        return inner(_resize(x)), _map_coordinates(x, y, y)

    x = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    y = np.float32([0.5, 1.0, 2.9])
    export = converter.to_onnx(fn, [x, y])
    for actual, expected in zip(converter.run(export, [x, y]).values(), fn(x, y), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)
    assert "GridSample" not in export.report.histogram


@pytest.mark.parametrize("derive", [jax.grad, lambda fn: lambda x: jax.jvp(fn, (x,), (x * 2,))])
def test_derivatives_with_calls_of_the_same_names_match_jax(derive):
    fn = derive(lambda x: (resized(x, size=(3, 9, 16)) ** 2).sum())
    x = np.random.default_rng(0).normal(size=(3, 5, 7)).astype(np.float32)
    verdict = converter.check(converter.to_onnx(fn, [x]), fn, [x])
    assert verdict.passed, verdict.differences[:1]


def test_calls_excluded_from_fusion_are_inlined():
    for fuse in (False, ["gelu"]):
        export = converter.to_onnx(resized, [(3, 5, 7)], fuse=fuse)
        assert "Resize" not in export.report.histogram
    assert converter.to_onnx(resized, [(3, 5, 7)], fuse=["resize"]).report.fused["Resize"] == 1


@pytest.mark.each("image_axis", "point_axis")
@pytest.mark.parametrize("mode", ["constant", "nearest"])
@pytest.mark.parametrize("point_axis", [None, 0, 1])
@pytest.mark.parametrize("image_axis", [0, 1, 2])
def test_batched_sampling_is_recognised_at_any_axis(image_axis, point_axis, mode):
    """A vmapped sampling becomes GridSample, with batched points or the same for all images."""

    def fn(x, rows, columns):
        return map_coordinates(x, [rows, columns], order=1, mode=mode)

    rng = np.random.default_rng(1)
    x = np.moveaxis(rng.normal(size=(4, 5, 7)), 0, image_axis).astype(np.float32)
    points = rng.uniform(-1, 8, size=(2, 4, 4) if point_axis is not None else (2, 6)).astype(
        np.float32
    )
    fn = jax.vmap(fn, in_axes=(image_axis, point_axis, point_axis), out_axes=1)
    export = converter.to_onnx(fn, [x, *points])
    assert export.report.histogram["GridSample"] == 1
    (actual,) = converter.run(export, [x, *points]).values()
    np.testing.assert_allclose(actual, fn(x, *points), rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    "options",
    [{"mode": "wrap"}, {"mode": "constant", "cval": 1.0}, {"mode": "nearest", "order": 0}],
)
def test_samplings_without_an_operator_are_gathers(options):
    def fn(x, rows, columns):
        return map_coordinates(x, [rows, columns], **{"order": 1, **options})

    x = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    points = np.float32([[0.2, 4.7, -1.3], [6.4, -0.6, 2.0]])
    export = converter.to_onnx(fn, [x, *points])
    assert "GridSample" not in export.report.histogram
    (actual,) = converter.run(export, [x, *points]).values()
    np.testing.assert_allclose(actual, fn(x, *points), rtol=0, atol=2e-6)


def test_call_without_used_results_is_removed():
    """A call with unused results is removed, as in the gradient of a resize to equal size."""

    def fn(x):
        return jax.grad(lambda t: jnp.sum(jnp.sin(jax.image.resize(t, (4, 3), "nearest"))))(x)

    names = [eqn.params.get("name") for eqn in jax.make_jaxpr(fn)(np.ones((4, 3))).eqns]
    assert "_resize" in names
    export = converter.to_onnx(fn, [((4, 3), "float32")])
    assert converter.check(export, fn).passed
