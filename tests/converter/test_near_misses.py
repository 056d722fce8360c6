"""Numbers of parameters that a fused operator relies on, and reasons that are said once."""

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


def as_leaves(turn):
    """Tables that are parameters themselves."""
    return lambda p, x: turn(x, p["cos"], p["sin"])


def from_leaves(turn):
    """Tables that are made from parameters, in a way that shows nothing of their halves."""

    def table(p, name):
        return jnp.cos(p[name][:, ORDER[turn]] + p["scale"])

    return lambda p, x: turn(x, table(p, "cos"), table(p, "sin"))


ORDER = {turned: np.array([0, 1, 2, 3, 0, 1, 2, 3]), neighbours: np.array([0, 0, 1, 1, 2, 2, 3, 3])}


def rotary_params(turn, seed):
    rng = np.random.default_rng(seed)
    cos, sin = rng.standard_normal((2, 5, 4)).astype(np.float32)[..., ORDER[turn]]
    return {"cos": cos, "sin": sin, "scale": np.full((5, 1), 2, np.float32)}


@pytest.mark.parametrize("turn", [turned, neighbours])
@pytest.mark.parametrize("how", [as_leaves, from_leaves])
def test_tables_that_are_parameters(how, turn, tmp_path):
    """Their numbers are the proof, and others have to be so too when they are bound."""
    fn, x = how(turn), np.random.default_rng(5).standard_normal((3, 5, 8)).astype(np.float32)
    own, alike = (rotary_params(turn, seed) for seed in (1, 2))
    broken = {**alike, "cos": alike["cos"] + np.arange(8, dtype=np.float32)}
    path = tmp_path / "model.onnx"

    def assert_writes(export, given):
        export.save(path, given)
        (got,) = converter.run(ir.load(path), [x]).values()
        np.testing.assert_allclose(got, fn({**own, **given}, x), rtol=1e-5, atol=1e-5)
        path.unlink()

    export = converter.to_onnx(fn, [x], params=own, verify=[x])
    assert export.report.fused == {"RotaryEmbedding": 1}
    assert export.report.near_misses == []
    for given in ({}, {"sin": own["sin"]}, alike):
        assert_writes(export, given)
    if how is as_leaves:  # the others take columns in the order that makes them equal
        with pytest.raises(
            converter.SaveError, match="are equal in cos, which does not hold for the given values"
        ):
            export.save(path, broken)
        assert not path.exists()
    export = converter.to_onnx(fn, [x], params=jax.eval_shape(lambda: own))
    assert export.report.fused == {}
    (miss,) = export.report.near_misses
    assert miss.reason.endswith("that has no value yet")
    assert_writes(export, broken)


def test_a_scale_that_makes_halves_differ(tmp_path):
    """What a table is made from may be the parameter that is bound to other numbers."""

    def fn(p, x):
        return turned(x, jnp.cos(p["cos"] + p["scale"]), p["sin"])

    own = rotary_params(turned, 1) | {"scale": np.full(8, 2, np.float32)}
    export = converter.to_onnx(fn, [(3, 5, 8)], params=own)
    assert export.report.fused == {"RotaryEmbedding": 1}
    export.save(tmp_path / "alike.onnx", {"scale": np.full(8, 3, np.float32)})
    with pytest.raises(
        converter.SaveError, match="in scale, which does not hold for the given values"
    ):
        export.save(tmp_path / "broken.onnx", {"scale": np.arange(8, dtype=np.float32)})


class Leaves(eqx.Module):
    """What is masked and the epsilon are arrays of the model, as in penzai."""

    low: jax.Array
    epsilon: jax.Array

    def __call__(self, q, k, v):
        shown = jnp.arange(5)[:, None] >= jnp.arange(7)
        x = attend(jax.nn.softmax(jnp.where(shown, scores(q, k), self.low)), v)
        return x * lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + self.epsilon)


def test_numbers_that_are_leaves_are_relied_on(tmp_path):
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


def test_a_reason_is_said_once_with_its_number():
    own = rotary_params(turned, 1)
    own["cos"][:, -1] += 1

    def fn(p, x):
        return turned(turned(x, p["cos"], p["sin"]) ** 2, p["cos"], p["sin"])

    report = converter.to_onnx(fn, [(3, 5, 8)], params=own).report
    (miss,) = report.near_misses
    assert miss.reason == "the two halves of a table differ, which is no rotation"
    assert miss.count == 2
    assert str(report).count("not fused") == 1
    assert "no rotation (2 times, first in " in str(report) and "spellings.py" in miss.line


def test_indices_that_are_parameters_may_get_other_numbers(tmp_path):
    rows = lax.GatherDimensionNumbers((1,), (0,), (0,))
    x = np.arange(12, dtype=np.float32).reshape(4, 3)

    def fn(places, x):
        return lax.gather(x, places, rows, (1, 3), mode="promise_in_bounds") * 2

    export = converter.to_onnx(fn, [x], params=np.array([[0], [1], [2]], np.int32))
    other = np.array([[3], [0], [3]], np.int32)
    export.save(tmp_path / "other.onnx", values={export.graph.params[0].name: other})
    (got,) = converter.run(ir.load(tmp_path / "other.onnx"), [x]).values()
    np.testing.assert_array_equal(got, x[[3, 0, 3]] * 2)
