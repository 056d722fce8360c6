"""Windows, norms and gathers between transpositions, reshapes, vmap and sums run as in JAX.

A file is run as it is and as ONNX Runtime's optimiser changes it, and compared with JAX.
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
NEAR = 1e-4
"""Of the largest number; what is further off is judged by how far roundings move every element."""

SEEDS = 2


def results(model, x):
    """What ONNX Runtime gives at each level."""
    content = ir.to_proto(model).SerializeToString()
    for level in LEVELS:
        options = ort.SessionOptions()
        options.graph_optimization_level = level
        options.intra_op_num_threads = 1
        session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        feeds = {value.name: x for value in session.get_inputs()}
        yield session.run(None, feeds)[0]


def check(program, seed=0):
    x = np.random.default_rng(seed).standard_normal(program.shape).astype(np.float32)
    export = converter.to_onnx(program, [program.shape], opset=program.opset)
    wanted = np.asarray(jax.jit(program)(x))
    size = np.max(np.abs(wanted), where=np.isfinite(wanted), initial=1.0)
    try:
        near = [
            got.shape == wanted.shape
            and np.allclose(got, wanted, rtol=0, atol=NEAR * size, equal_nan=True)
            for got in results(export.model, x)
        ]
    except (ort.capi.onnxruntime_pybind11_state.Fail, RuntimeError) as error:
        raise AssertionError(f"{program}\n{error}") from error
    verdict = None if all(near) else converter.check(export, program, [x])
    assert verdict is None or verdict.passed, f"{program}\n{verdict.differences[:1]}"


FOUND = {
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
"""Programs of which ONNX Runtime's optimiser made a resize that it does not run."""


@pytest.mark.parametrize("name", FOUND)
def test_found(name):
    check(FOUND[name])


KINDS = list(dict.fromkeys(WINDOWS))


@pytest.mark.parametrize("window", KINDS, ids=lambda window: window.__name__)
def test_between_layouts(window):
    for seed in range(SEEDS):
        check(draw(f"{window.__name__}/{seed}", window), seed)


@pytest.mark.full
@pytest.mark.parametrize("window", KINDS, ids=lambda window: window.__name__)
def test_many_between_layouts(window):
    for seed in range(SEEDS, 100):
        if seed % 25 == 0:
            jax.clear_caches()
        check(draw(f"{window.__name__}/{seed}", window), seed)


def test_every_opset_is_drawn():
    drawn = {
        draw(f"{window.__name__}/{seed}", window).opset for window in KINDS for seed in range(3)
    }
    assert drawn == {*OPSETS}
