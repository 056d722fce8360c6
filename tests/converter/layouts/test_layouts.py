"""Compare windows, norms and gathers between transpositions, reshapes, vmap and sums with JAX.

ONNX Runtime runs each file with its graph optimizations disabled and enabled.
"""

import jax
import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

import converter
from tests.converter.layouts.draw import OPSETS, WINDOWS, Program, draw

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


RESIZES_BEHIND_NORMS = {
    "channels of a norm": Program(
        (2, 4, 3, 6),
        (
            "jax.nn.standardize(x, -3)",
            "resize(x, [2, 1, 5, 6], 'linear')",
            "x.transpose([3, 1, 0, 2])",
        ),
        18,
    ),
    "cubic": Program(
        (2, 4, 3, 6),
        (
            "jax.nn.standardize(x, -3)",
            "resize(x, [2, 1, 5, 6], 'cubic')",
            "x.transpose([3, 1, 0, 2])",
        ),
        23,
    ),
    "vmap": Program(
        (4, 6, 2, 3),
        (
            "x.transpose([3, 0, 1, 2])",
            "jax.nn.relu(x)",
            "jax.vmap(lambda x: resize(x, [4, 4, 4], 'linear', antialias=False), 3, 1)(x)",
            "jax.nn.standardize(x, (1, 3)) * numbers(91, 4)",
            "x.transpose([2, 0, 1, 3])",
        ),
        20,
    ),
}
"""Programs in which ONNX Runtime's optimizer once created a Resize that it cannot run."""


@pytest.mark.parametrize("name", RESIZES_BEHIND_NORMS)
def test_resizes_behind_norms_match_jax(name):
    assert_matches_jax(RESIZES_BEHIND_NORMS[name])


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
