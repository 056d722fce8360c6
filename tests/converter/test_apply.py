"""``x.at[i].apply(f)``: as many times as windows cover an element."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import converter

X = (4, 5)
TWICE = np.array([2, 0, 2])

APPLIED = {
    "a row": (lambda x: x.at[1].apply(jnp.square), [X]),
    "an element": (lambda x: x.at[1, 3].apply(lambda v: v * 3 + 1), [X]),
    "a slice": (lambda x: x.at[1:3, ::2].apply(jnp.exp), [X]),
    "repeated": (lambda x: x.at[TWICE].apply(lambda v: v * v - 2), [X]),
    "indices": (lambda x, i: x.at[i].apply(lambda v: -2 * v), [X, ((3,), np.int32)]),
    "dropped": (lambda x: x.at[jnp.array([1, 9])].apply(jnp.negative, mode="drop"), [X]),
    "promised": (lambda x: x.at[jnp.array([3, 1])].apply(jnp.sin, unique_indices=True), [X]),
    "captured": (lambda x, y: x.at[0].apply(lambda v: v + 0.5), [X, X]),
    "integers": (lambda x: x.at[2].apply(lambda v: v // 2), [(X, np.int32)]),
    "named": (lambda x: x.at[1].apply(jnp.abs), [("B", 5)]),
}


@pytest.mark.parametrize("name", APPLIED)
def test_apply(name):
    fn, specs = APPLIED[name]
    rng = np.random.default_rng(5)
    inputs = [_draw(rng, spec) for spec in specs]
    verdict = converter.check(converter.to_onnx(fn, specs), fn, inputs)
    assert verdict.passed, verdict.differences


def _draw(rng, spec):
    shape, dtype = spec if isinstance(spec[0], tuple) else (spec, np.float32)
    if dtype == np.int32:
        return jnp.asarray(rng.integers(-9 if len(shape) > 1 else 0, 4, shape, np.int32))
    return jnp.asarray(rng.standard_normal([4 if d == "B" else d for d in shape]), dtype)


def test_unique_elements_need_no_loop():
    export = converter.to_onnx(lambda x: x.at[1].apply(jnp.square), [X])
    assert "Loop" not in export.report.histogram
