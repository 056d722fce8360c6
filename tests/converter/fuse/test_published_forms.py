"""What the report and the file say about attention and rotary embeddings of published networks."""

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


def rotations(seed):
    angles = np.random.default_rng(seed).uniform(-3, 3, (5, 4)).astype(np.float32)
    cos, sin = np.cos(angles), np.sin(angles)
    return {"matrices": np.stack([cos, -sin, sin, cos], -1).reshape(5, 4, 2, 2)}


def multiplied(params, x):
    pairs = x.reshape(4, 5, 4, 2)
    return jnp.einsum("ncij,bncj->bnci", params["matrices"], pairs).reshape(x.shape)


def test_matrices_that_are_parameters_are_relied_on(tmp_path):
    """Other matrices have to be rotations too."""
    export = converter.to_onnx(multiplied, [X], params=rotations(1), verify=[X])
    assert export.report.fused == {"RotaryEmbedding": 1}
    path = tmp_path / "model.onnx"
    export.save(path, rotations(2))
    (got,) = converter.run(ir.load(path), [X]).values()
    np.testing.assert_allclose(got, multiplied(rotations(2), X), atol=1e-5)
    for change in (np.array([[1, 1], [1, 2]]), np.array([[1, 1], [-1, 1]])):
        with pytest.raises(converter.SaveError, match=r"are (equal|opposite) in"):
            export.save(path, {"matrices": np.float32(rotations(2)["matrices"] * change)})


def test_matrices_without_values_are_a_near_miss():
    report = converter.to_onnx(multiplied, [X], params=jax.eval_shape(lambda: rotations(1))).report
    (miss,) = report.near_misses
    assert report.fused == {} and "not shown to be rotations" in miss.reason


def test_weights_of_deformable_attention_stay_a_linear_layer():
    """Fused, every query would need a copy of the layer's weights as its keys."""

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
