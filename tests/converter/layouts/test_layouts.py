"""Compare windows, norms and gathers between transpositions, reshapes, vmap and sums with JAX.

ONNX Runtime runs each file with its graph optimizations disabled and enabled.
"""

import jax
import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

import converter
from tests.converter.layouts.draw import OPSETS, WINDOWS, draw

LEVELS = (
    ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
)
TOLERANCE = 1e-4
"""Relative to the largest element. Larger differences are judged by `converter.check`, which
compares every element with perturbed evaluations."""

SEEDS = 2


def outputs_by_level(model, x):
    """Yield the output of ONNX Runtime at each optimization level."""
    content = ir.to_proto(model).SerializeToString()
    for level in LEVELS:
        options = ort.SessionOptions()
        options.graph_optimization_level = level
        options.intra_op_num_threads = 1
        session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        feeds = {value.name: x for value in session.get_inputs()}
        yield session.run(None, feeds)[0]


def assert_matches_jax(program, seed=0):
    """Assert that the file of a program computes what JAX does, for inputs of this seed."""
    x = np.random.default_rng(seed).standard_normal(program.shape).astype(np.float32)
    export = converter.to_onnx(program, [program.shape], opset=program.opset)
    expected = np.asarray(jax.jit(program)(x))
    scale = np.max(np.abs(expected), where=np.isfinite(expected), initial=1.0)
    try:
        is_near = [
            actual.shape == expected.shape
            and np.allclose(actual, expected, rtol=0, atol=TOLERANCE * scale, equal_nan=True)
            for actual in outputs_by_level(export.model, x)
        ]
    except (ort.capi.onnxruntime_pybind11_state.Fail, RuntimeError) as error:
        raise AssertionError(f"{program}\n{error}") from error
    verdict = None if all(is_near) else converter.check(export, program, [x])
    assert verdict is None or verdict.passed, f"{program}\n{verdict.differences[:1]}"


KINDS = list(dict.fromkeys(WINDOWS))


@pytest.mark.parametrize("window", KINDS, ids=lambda window: window.__name__)
def test_windows_between_layouts_match_jax(window):
    for seed in range(SEEDS):
        assert_matches_jax(draw(f"{window.__name__}/{seed}", window), seed)


@pytest.mark.full
@pytest.mark.parametrize("window", KINDS, ids=lambda window: window.__name__)
def test_many_windows_between_layouts_match_jax(window):
    for seed in range(SEEDS, 100):
        if seed % 25 == 0:
            jax.clear_caches()
        assert_matches_jax(draw(f"{window.__name__}/{seed}", window), seed)


def test_every_opset_is_drawn():
    drawn = {
        draw(f"{window.__name__}/{seed}", window).opset for window in KINDS for seed in range(3)
    }
    assert drawn == {*OPSETS}
