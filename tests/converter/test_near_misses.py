"""Parameter values that a fused operator relies on, and near misses, which are reported once.

The values are checked again when other values are saved.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest
from jax import lax

import converter
from tests.programs.lookalikes import QKV, attend, scores
from tests.programs.spellings import neighbours, turned


def as_leaves(rotate):
    """Return a rotation whose tables are parameters."""
    return lambda p, x: rotate(x, p["cos"], p["sin"])


def from_leaves(rotate):
    """Return a rotation whose tables are computed from parameters.

    The computation does not show that the halves of a table are equal.
    """

    def table(p, name):
        return jnp.cos(p[name][:, ORDER[rotate]] + p["scale"])

    return lambda p, x: rotate(x, table(p, "cos"), table(p, "sin"))


ORDER = {turned: np.array([0, 1, 2, 3, 0, 1, 2, 3]), neighbours: np.array([0, 0, 1, 1, 2, 2, 3, 3])}


def rotary_params(rotate, seed):
    """Return seeded tables whose halves, or whose neighbouring columns, are equal."""
    rng = np.random.default_rng(seed)
    cos, sin = rng.standard_normal((2, 5, 4)).astype(np.float32)[..., ORDER[rotate]]
    return {"cos": cos, "sin": sin, "scale": np.full((5, 1), 2, np.float32)}


@pytest.mark.parametrize("rotate", [turned, neighbours])
@pytest.mark.parametrize("parametrize_tables", [as_leaves, from_leaves])
def test_rotary_tables_may_be_parameters(parametrize_tables, rotate, tmp_path):
    """Tables are fused if their values allow it; other values are checked when they are saved."""
    fn, x = (
        parametrize_tables(rotate),
        np.random.default_rng(5).standard_normal((3, 5, 8)).astype(np.float32),
    )
    params, other_params = (rotary_params(rotate, seed) for seed in (1, 2))
    broken = {**other_params, "cos": other_params["cos"] + np.arange(8, dtype=np.float32)}
    path = tmp_path / "model.onnx"

    def assert_saves(export, values):
        export.save(path, values)
        (actual,) = converter.run(ir.load(path), [x]).values()
        np.testing.assert_allclose(actual, fn({**params, **values}, x), rtol=1e-5, atol=1e-5)
        path.unlink()

    export = converter.to_onnx(fn, [x], params=params, verify=[x])
    assert export.report.fused == {"RotaryEmbedding": 1}
    assert export.report.near_misses == []
    for values in ({}, {"sin": params["sin"]}, other_params):
        assert_saves(export, values)
    if (
        parametrize_tables is as_leaves
    ):  # the other tables take columns in an order that makes them equal
        with pytest.raises(
            converter.SaveError, match="are equal in cos, which does not hold for the given values"
        ):
            export.save(path, broken)
        assert not path.exists()
    export = converter.to_onnx(fn, [x], params=jax.eval_shape(lambda: params))
    assert export.report.fused == {}
    (miss,) = export.report.near_misses
    assert miss.reason.endswith("that has no value yet")
    assert_saves(export, broken)


def test_parameters_of_tables_are_checked_when_saved(tmp_path):
    """A parameter from which a table is computed is checked again when it gets other values."""

    def fn(p, x):
        return turned(x, jnp.cos(p["cos"] + p["scale"]), p["sin"])

    params = rotary_params(turned, 1) | {"scale": np.full(8, 2, np.float32)}
    export = converter.to_onnx(fn, [(3, 5, 8)], params=params)
    assert export.report.fused == {"RotaryEmbedding": 1}
    export.save(tmp_path / "alike.onnx", {"scale": np.full(8, 3, np.float32)})
    with pytest.raises(
        converter.SaveError, match="in scale, which does not hold for the given values"
    ):
        export.save(tmp_path / "broken.onnx", {"scale": np.arange(8, dtype=np.float32)})


class Leaves(eqx.Module):
    """Attention and a norm whose masked value and epsilon are arrays of the model, as in penzai."""

    low: jax.Array
    epsilon: jax.Array

    def __call__(self, q, k, v):
        is_visible = jnp.arange(5)[:, None] >= jnp.arange(7)
        x = attend(jax.nn.softmax(jnp.where(is_visible, scores(q, k), self.low)), v)
        return x * lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + self.epsilon)


def test_scalars_that_are_parameters_are_checked_when_saved(tmp_path):
    inputs = [np.random.default_rng(5).standard_normal(s).astype(np.float32) for s in QKV]
    model = Leaves(jnp.float32(-2e38), jnp.float32(1e-3))
    export = converter.to_onnx(model, inputs, verify=inputs)
    assert export.report.fused == {"Attention": 1, "RMSNormalization": 1}
    path = tmp_path / "model.onnx"
    export.save(path, {"low": np.float32(-2e38)})
    with pytest.raises(converter.SaveError, match=r"all numbers are 0\.001 in epsilon"):
        export.save(path, {"epsilon": np.float32(1e-2)})
    unknown = converter.to_onnx(jax.eval_shape(lambda: model), inputs).report
    assert unknown.fused["RMSNormalization"] == unknown.fused["Attention"] == 0
    reasons = {m.pattern: m.reason for m in unknown.near_misses}
    assert "no number that is known" in reasons["RMSNormalization"] and reasons["Attention"]


def test_equal_near_misses_are_reported_once_with_their_count():
    params = rotary_params(turned, 1)
    params["cos"][:, -1] += 1

    def fn(p, x):
        return turned(turned(x, p["cos"], p["sin"]) ** 2, p["cos"], p["sin"])

    report = converter.to_onnx(fn, [(3, 5, 8)], params=params).report
    (miss,) = report.near_misses
    assert miss.reason == "the two halves of a table differ, which is no rotation"
    assert miss.count == 2
    assert str(report).count("not fused") == 1
    assert "no rotation (2 times, first in " in str(report) and "spellings.py" in miss.line


def test_indices_that_are_parameters_may_get_other_values(tmp_path):
    rows = lax.GatherDimensionNumbers((1,), (0,), (0,))
    x = np.arange(12, dtype=np.float32).reshape(4, 3)

    def fn(indices, x):
        return lax.gather(x, indices, rows, (1, 3), mode="promise_in_bounds") * 2

    export = converter.to_onnx(fn, [x], params=np.array([[0], [1], [2]], np.int32))
    other_indices = np.array([[3], [0], [3]], np.int32)
    export.save(tmp_path / "other.onnx", values={export.graph.params[0].name: other_indices})
    (actual,) = converter.run(ir.load(tmp_path / "other.onnx"), [x]).values()
    np.testing.assert_array_equal(actual, x[[3, 0, 3]] * 2)
