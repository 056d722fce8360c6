"""Attention and rotary embeddings as published networks write them: operators and reports.

Maxima of several rows, rotation matrices and deformable attention are compared with JAX.
"""

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest

import converter
from converter.fuse.attention import shifts

X = np.random.default_rng(2).standard_normal((4, 5, 8)).astype(np.float32)


@pytest.mark.parametrize(("axis", "is_reported"), [(-1, False), ((0, -1), True), (None, True)])
def test_a_maximum_of_several_rows_is_reported(axis, is_reported):
    def fn(x):
        return jax.nn.softmax(x - x.max(axis, keepdims=True), -1)

    report = converter.to_onnx(fn, [X], verify=[X]).report
    assert report.histogram == {"Softmax": 1}
    has_deviation = any(text.startswith(shifts.DEVIATION) for text in report.deviations)
    assert has_deviation == is_reported
    strict = converter.to_onnx(fn, [X], verify=[X], strict=True).report
    assert ("ReduceMax" in strict.histogram) == is_reported


@pytest.mark.parametrize("is_filled_first", [True, False])
def test_a_maximum_of_hidden_elements_is_reported(is_filled_first):
    """In JAX, a NaN that the mask hides makes the row NaN. A strict file does the same."""
    is_visible = np.arange(5) != 3

    def fn(queries, keys):
        scores = queries @ keys.T
        highest = scores.max(-1, keepdims=True)
        if is_filled_first:
            return jax.nn.softmax(jnp.where(is_visible, scores, -1e30) - highest, -1)
        return jax.nn.softmax(jnp.where(is_visible, scores - highest, -1e30), -1)

    export = converter.to_onnx(fn, [X[0], X[1]], verify=[X[0], X[1]])
    assert "ReduceMax" not in export.report.histogram
    assert any(text.startswith(shifts.DEVIATION) for text in export.report.deviations)
    hidden = [X[0], np.where(is_visible[:, None], X[1], np.nan).astype(np.float32)]
    assert np.isnan(fn(*hidden)).all() and not converter.check(export, fn, hidden).passed
    strict = converter.to_onnx(fn, [X[0], X[1]], strict=True)
    assert converter.check(strict, fn, hidden).passed


def rotation_params(seed):
    angles = np.random.default_rng(seed).uniform(-3, 3, (5, 4)).astype(np.float32)
    cos, sin = np.cos(angles), np.sin(angles)
    return {"matrices": np.stack([cos, -sin, sin, cos], -1).reshape(5, 4, 2, 2)}


def apply_matrices(params, x):
    pairs = x.reshape(4, 5, 4, 2)
    return jnp.einsum("ncij,bncj->bnci", params["matrices"], pairs).reshape(x.shape)


def test_saved_matrices_must_be_rotations(tmp_path):
    """A file can be saved with other matrices only if these are rotations too."""
    export = converter.to_onnx(apply_matrices, [X], params=rotation_params(1), verify=[X])
    assert export.report.fused == {"RotaryEmbedding": 1}
    path = tmp_path / "model.onnx"
    export.save(path, rotation_params(2))
    (actual,) = converter.run(ir.load(path), [X]).values()
    np.testing.assert_allclose(actual, apply_matrices(rotation_params(2), X), atol=1e-5)
    for change in (np.array([[1, 1], [1, 2]]), np.array([[1, 1], [-1, 1]])):
        with pytest.raises(converter.SaveError, match=r"are (equal|opposite) in"):
            export.save(path, {"matrices": np.float32(rotation_params(2)["matrices"] * change)})


def test_matrices_without_values_are_a_near_miss():
    report = converter.to_onnx(
        apply_matrices, [X], params=jax.eval_shape(lambda: rotation_params(1))
    ).report
    (miss,) = report.near_misses
    assert report.fused == {} and "not shown to be rotations" in miss.reason


def test_weights_of_deformable_attention_stay_a_linear_layer():
    """Deformable attention is not fused: each query would need its own copy of the weights."""

    def fn(params, queries, values):
        points = (queries @ params["weight"]).reshape(2, 7, 3, 6)
        return jnp.einsum("bqhp,bqhpc->bqhc", jax.nn.softmax(points), values)

    rng = np.random.default_rng(3)
    params = {"weight": rng.standard_normal((8, 18)).astype(np.float32)}
    queries = rng.standard_normal((2, 7, 8)).astype(np.float32)
    values = rng.standard_normal((2, 7, 3, 6, 5)).astype(np.float32)
    inputs = [queries, values]
    report = converter.to_onnx(fn, inputs, params=params, verify=[inputs], opset=23).report
    assert "Attention" not in report.histogram
    assert "Expand" not in report.histogram
    (miss,) = report.near_misses
    assert "the same for queries that have different values" in miss.reason
