"""Windows that select one element: of integers, of booleans, over many axes, by any computation."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import lax
from jax.extend.core import primitives

import converter

RNG = np.random.default_rng(5)
SHAPE = (2, 3, 6, 7)
WINDOWS = {
    "padded": ((1, 2, 3, 2), (1, 1, 2, 2), ((0, 0), (1, 1), (0, 2), (1, 0))),
    "two axes": ((2, 1, 2, 1), (1, 1, 1, 1), ((0, 0),) * 4),
    "all axes": ((2, 2, 2, 2), (1, 2, 3, 1), ((1, 0), (0, 1), (2, 1), (0, 1))),
}


def drawn(dtype, shape, scale):
    return (RNG.standard_normal(shape) * scale).astype(dtype)


def source(dtype, window):
    shape = jax.eval_shape(
        lambda x: lax.reduce_window(x, np.int32(0), lax.max, *window),
        jax.ShapeDtypeStruct(SHAPE, np.int32),
    ).shape
    return drawn(dtype, shape, 50)


def params(window):
    return dict(zip(("window_dimensions", "window_strides", "padding"), window, strict=True))


def added(select, window):
    op = primitives.select_and_scatter_add_p
    return lambda s, x: op.bind(s, x, select_prim=select, **params(window))


@pytest.mark.full
@pytest.mark.parametrize(
    ("dtype", "names"),
    [("uint8", ("padded", "two axes")), ("bool", ("padded",)), ("float32", ("all axes",))],
)
def test_gradients_of_pools(dtype, names):
    """Many of them equal: the first counts."""
    x, windows = drawn(dtype, SHAPE, 1), [WINDOWS[name] for name in names]
    sources = [source(dtype, window) for window in windows]
    functions = [
        (added(select, window), i)
        for select in (lax.ge_p, lax.le_p)
        for i, window in enumerate(windows)
    ]

    def fn(x, *sources):
        return [f(sources[i], x) for f, i in functions]

    verdict = converter.check(converter.to_onnx(fn, [x, *sources]), fn, [x, *sources])
    assert verdict.passed, verdict.differences


@pytest.mark.full
def test_any_computation():
    """The largest, to which the smaller of what is there and the source is put."""
    window = WINDOWS["padded"]
    x, values = drawn("float32", SHAPE, 3), source("float32", window)
    scalar = jax.ShapeDtypeStruct((), np.float32)
    select, scatter = (
        jax.make_jaxpr(op)(scalar, scalar).jaxpr for op in (lambda a, b: a > b, lax.min)
    )

    def fn(x, s):
        return primitives.select_and_scatter_p.bind(
            x,
            s,
            np.float32(9),
            select_jaxpr=select,
            select_consts=(),
            scatter_jaxpr=scatter,
            scatter_consts=(),
            **params(window),
        )

    verdict = converter.check(converter.to_onnx(fn, [x, values]), fn, [x, values])
    assert verdict.passed, verdict.differences
