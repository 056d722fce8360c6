"""What must not be fused, and what is said about it; and that it still comes out right."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest
from jax import lax

import converter


def converted(fn, *shapes, dtype=jnp.float32, opset=23):
    """The export, after checking that it computes what JAX does."""
    rng = np.random.default_rng(5)
    inputs = [jnp.asarray(rng.standard_normal(s), dtype) for s in shapes]
    export = converter.to_onnx(fn, inputs, opset=opset)
    tolerance = {"float32": 1e-5, "float16": 1e-2}[jnp.dtype(dtype).name]
    for errors in converter.check(export, fn, inputs).values():
        assert errors.max_rel <= tolerance, f"{errors}\n{export.graph}"
    return export


def scores(q, k):
    return jnp.einsum("hqd,hkd->hqk", q, k)


def attend(weights, v):
    return jnp.einsum("hqk,hkd->hqd", weights, v)


QKV = ((3, 5, 8), (3, 7, 8), (3, 7, 6))


def weights_returned(q, k, v):
    weights = jax.nn.softmax(scores(q, k), axis=-1)
    return attend(weights, v), weights


def scores_returned(q, k, v):
    logits = scores(q, k)
    return attend(jax.nn.softmax(logits, axis=-1), v), logits


def unknown_mask_mild_fill(q, k, v, mask):
    logits = jnp.where(mask > 0, scores(q, k), -50.0)
    return attend(jax.nn.softmax(logits, axis=-1), v)


def negative_scale(q, k, v):
    return attend(jax.nn.softmax(-0.5 * scores(q, k), axis=-1), v)


def heads_summed(q, k, v):
    return jnp.einsum("hqk,hkd->qd", jax.nn.softmax(scores(q, k), axis=-1), v)


def positions_kept(q, k, v):
    return jnp.einsum("hqk,hkd->hqkd", jax.nn.softmax(scores(q, k), axis=-1), v)


def weights_truncated(q, k, v):
    weights = jax.nn.softmax(9 * scores(q, k), axis=-1).astype(jnp.int32)
    return attend(weights.astype(jnp.float32), v)


def scores_truncated(q, k, v):
    logits = scores(q, k).astype(jnp.int32).astype(jnp.float32)
    return attend(jax.nn.softmax(logits, axis=-1), v)


def scores_quantised(q, k, v):
    logits = scores(q, k).astype(jnp.float8_e4m3fn).astype(jnp.float32)
    return attend(jax.nn.softmax(logits, axis=-1), v)


def scores_of_three_kinds(q, k, v, which):
    logits = scores(q, k)
    cases = [logits, jnp.full_like(logits, -1e30), jnp.full_like(logits, -1e30)]
    logits = lax.select_n((which > 0).astype(jnp.int32), *cases)
    return attend(jax.nn.softmax(logits, axis=-1), v)


def scale_not_a_number(q, k, v):
    return attend(jax.nn.softmax(jnp.nan * scores(q, k), axis=-1), v)


def weights_masked(q, k, v, mask):
    return attend(jnp.where(mask > 0, jax.nn.softmax(scores(q, k), axis=-1), 0), v)


def capped_behind_its_mask(q, k, v, bias):
    return attend(jax.nn.softmax(jnp.tanh((scores(q, k) + bias) / 5) * 5, axis=-1), v)


@pytest.mark.parametrize(
    ("fn", "shapes", "reason"),
    [
        (weights_returned, QKV, "used elsewhere"),
        (scores_returned, QKV, "used elsewhere"),
        (unknown_mask_mild_fill, (*QKV, (5, 7)), "not negative enough"),
        (negative_scale, QKV, "not positive"),
        (capped_behind_its_mask, (*QKV, (5, 7)), "before they are capped"),
        (weights_masked, (*QKV, (5, 7)), "between the softmax and the second product"),
        (heads_summed, QKV, "does not sum over the positions alone"),
        (positions_kept, QKV, "does not sum over the positions alone"),
        (scores_truncated, QKV, "not understood"),
        (scores_quantised, QKV, "not understood"),
        (scores_of_three_kinds, (*QKV, (3, 5, 7)), "not understood"),
        (scale_not_a_number, QKV, "not positive"),
    ],
)
def test_attention_stays_decomposed(fn, shapes, reason):
    export = converted(fn, *shapes)
    assert export.report.fused["Attention"] == 0
    assert export.report.histogram["Softmax"] == 1
    assert any(m.pattern == "Attention" and reason in m.reason for m in export.report.near_misses)


@pytest.mark.full
@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (lambda x: jnp.exp(x) / jnp.exp(x).sum(-1, keepdims=True), "may overflow"),
        (lambda x: jax.nn.softmax(x, axis=(0, 1)), "several axes"),
    ],
)
def test_what_is_no_softmax_of_onnx(fn, reason):
    export = converted(fn, (5, 7))
    assert "Softmax" not in export.report.histogram
    assert [m.pattern for m in export.report.near_misses] == ["Softmax"]
    assert reason in export.report.near_misses[0].reason


@pytest.mark.parametrize("empty", [0, 1, 2, 3])
def test_attention_of_nothing(empty):
    """The runtime's operator takes no empty rows, positions, widths or heads."""
    h, q, d, v = (0 if i == empty else n for i, n in enumerate((3, 5, 8, 6)))

    def fn(q, k, v):
        return attend(jax.nn.softmax(0.5 * scores(q, k), axis=-1), v)

    assert converted(fn, (h, q, d), (h, 7, d), (h, 7, v)).report.fused["Attention"] == 0


def test_truncated_weights_are_no_softmax():
    assert converted(weights_truncated, *QKV).report.fused["Attention"] == 0


def test_a_shared_chain_of_scores_is_left_at_once():
    """Forty steps, each of which reads the last one twice, are 2^40 paths."""

    def fn(x, v):
        for _ in range(40):
            x = x * 0.5 + x
        return jax.nn.softmax(x, axis=-1) @ v

    assert converted(fn, (5, 7), (7, 3)).report.fused["Attention"] == 0


def test_infinite_fill_with_an_unknown_mask_gives_nan_as_in_jax():
    def fn(q, k, v, mask):
        logits = jnp.where(mask > 0, scores(q, k), -jnp.inf)
        return attend(jax.nn.softmax(logits, axis=-1), v)

    rng = np.random.default_rng(0)
    q, k, v = (jnp.asarray(rng.standard_normal(s), jnp.float32) for s in QKV)
    mask = jnp.asarray(rng.standard_normal((5, 7)), jnp.float32).at[2].set(-1.0)
    export = converter.to_onnx(fn, [q, k, v, mask])
    assert export.report.fused["Attention"] == 1
    assert np.isnan(np.asarray(fn(q, k, v, mask))[:, 2]).all()
    for errors in converter.check(export, fn, [q, k, v, mask]).values():
        assert errors.max_rel <= 1e-5  # finite where JAX is, NaN where JAX is


def test_known_infinities_fuse_where_every_row_keeps_something():
    keep = jnp.tril(jnp.ones((5, 7), bool))

    def added(q, k, v):
        logits = scores(q, k) + jnp.where(keep, 0.0, -jnp.inf)
        return attend(jax.nn.softmax(logits, axis=-1), v)

    assert converted(added, *QKV).report.fused["Attention"] == 1


def test_fully_masked_rows_stay_the_uniform_average():
    def fn(q, k, v, mask):
        return jax.nn.dot_product_attention(q, k, v, mask=mask > 0)

    rng = np.random.default_rng(0)
    q, k, v = (jnp.asarray(rng.standard_normal((2, n, 3, 8)), jnp.float32) for n in (5, 7, 7))
    mask = jnp.asarray(rng.standard_normal((2, 1, 5, 7)), jnp.float32).at[:, :, 2].set(-1.0)
    export = converter.to_onnx(fn, [q, k, v, mask])
    assert export.report.fused["Attention"] == 1
    average = np.broadcast_to(np.asarray(v).mean(1), (2, 3, 8))
    np.testing.assert_allclose(np.asarray(fn(q, k, v, mask))[:, 2], average, atol=1e-6)
    for errors in converter.check(export, fn, [q, k, v, mask]).values():
        assert errors.max_rel <= 4e-6


# ---------------------------------------------------------------------------------------- rotary


def unequal_halves(x, table):
    a, b = jnp.split(x, 2, axis=-1)
    return x * jnp.cos(table) + jnp.concatenate([-b, a], -1) * jnp.sin(table)


def positions_per_sample(x, positions):
    angles = positions[:, :, None] * jnp.arange(1, 5) / 4
    angles = jnp.concatenate([angles, angles], -1)
    a, b = jnp.split(x, 2, axis=-1)
    return x * jnp.cos(angles) + jnp.concatenate([-b, a], -1) * jnp.sin(angles)


@pytest.mark.parametrize(
    ("fn", "shapes", "reason"),
    [
        (unequal_halves, ((3, 5, 8), (5, 8)), "halves"),
        (positions_per_sample, ((3, 5, 8), (3, 5)), "depend on 2 axes"),
    ],
)
def test_rotary_stays_decomposed(fn, shapes, reason):
    export = converted(fn, *shapes)
    assert export.report.fused["RotaryEmbedding"] == 0
    assert any(
        m.pattern == "RotaryEmbedding" and reason in m.reason for m in export.report.near_misses
    )


def test_halves_that_differ_in_value_are_not_rotary():
    table = jnp.arange(40.0).reshape(5, 8)

    def fn(x):
        return unequal_halves(x, table)

    assert converted(fn, (3, 5, 8)).report.fused["RotaryEmbedding"] == 0


def turned(x, cos, sin):
    a, b = jnp.split(x, 2, axis=-1)
    return x * cos + jnp.concatenate([-b, a], -1) * sin


def angles(rows):
    return jnp.tile(jnp.arange(4.0 * rows).reshape(rows, 4) / 7, 2)


def neighbours(x, cos, sin):
    a, b = x[..., ::2], x[..., 1::2]
    return x * cos + jnp.stack([-b, a], -1).reshape(x.shape) * sin


def as_leaves(turn):
    """Tables that are parameters themselves."""

    def fn(p, x):
        return turn(x, p["cos"], p["sin"])

    return fn


def from_leaves(turn):
    """Tables that are made from parameters, in a way that shows nothing of their halves."""

    def fn(p, x):
        cos, sin = (jnp.cos(p[k][:, ORDER[turn]] + p["scale"]) for k in ("cos", "sin"))
        return turn(x, cos, sin)

    return fn


ORDER = {turned: np.array([0, 1, 2, 3, 0, 1, 2, 3]), neighbours: np.array([0, 0, 1, 1, 2, 2, 3, 3])}


def rotary_params(turn, seed, equal=True):
    rng = np.random.default_rng(seed)
    cos, sin = rng.standard_normal((2, 5, 4)).astype(np.float32)[..., ORDER[turn]]
    scale = np.ones((5, 1) if equal else (5, 8), np.float32) * 2
    scale[..., -1] += 0 if equal else 1
    return {"cos": cos * (scale if not equal else 1), "sin": sin, "scale": scale}


@pytest.mark.parametrize("turn", [turned, neighbours])
@pytest.mark.parametrize("how", [as_leaves, from_leaves])
def test_tables_that_are_parameters(how, turn, tmp_path):
    """Their numbers are the proof, and others have to be so too when they are bound."""
    fn, x = how(turn), np.random.default_rng(5).standard_normal((3, 5, 8)).astype(np.float32)
    own, path = rotary_params(turn, 1), tmp_path / "model.onnx"
    export = converter.to_onnx(fn, [x], params=own, verify=[x])
    assert export.report.fused == {"RotaryEmbedding": 1}
    assert export.report.near_misses == []
    alike = rotary_params(turn, 2)
    for given in ({}, {"sin": own["sin"]}, alike):
        export.save(path, given)
        assert_writes(path, fn, {**own, **given}, x)
    broken = {**alike, "cos": alike["cos"] + np.arange(8, dtype=np.float32)}
    path.unlink()
    if how is as_leaves:  # the others take columns in the order that makes them equal
        with pytest.raises(converter.SaveError, match="are equal in cos, and in the given values"):
            export.save(path, broken)
        assert not path.exists()
    abstract = jax.eval_shape(lambda: own)
    export = converter.to_onnx(fn, [x], params=abstract)
    assert export.report.fused == {}
    (miss,) = export.report.near_misses
    assert miss.reason.endswith("that has no value yet")
    export.save(path, broken)
    assert_writes(path, fn, broken, x)


def assert_writes(path, fn, params, x):
    (got,) = converter.run(ir.load(path), [x]).values()
    np.testing.assert_allclose(got, fn(params, x), rtol=1e-5, atol=1e-5)


def test_a_scale_that_makes_halves_differ(tmp_path):
    """What a table is made from may be the parameter that is bound to other numbers."""

    def fn(p, x):
        return turned(x, jnp.cos(p["cos"] + p["scale"]), p["sin"])

    own = rotary_params(turned, 1) | {"scale": np.full(8, 2, np.float32)}
    export = converter.to_onnx(fn, [(3, 5, 8)], params=own)
    assert export.report.fused == {"RotaryEmbedding": 1}
    export.save(tmp_path / "alike.onnx", {"scale": np.full(8, 3, np.float32)})
    with pytest.raises(converter.SaveError, match="in scale, and in the given values"):
        export.save(tmp_path / "broken.onnx", {"scale": np.arange(8, dtype=np.float32)})


def test_a_reason_is_said_once_with_its_number():
    own = rotary_params(turned, 1, equal=False)

    def fn(p, x):
        return turned(turned(x, p["cos"], p["sin"]) ** 2, p["cos"], p["sin"])

    report = converter.to_onnx(fn, [(3, 5, 8)], params=own).report
    (miss,) = report.near_misses
    assert miss.reason == "the two halves of a table differ, which is no rotation"
    assert miss.count == 2
    assert str(report).count("not fused") == 1
    assert "no rotation (2 times, first in " in str(report) and "test_near_misses.py" in miss.line


def test_a_half_that_is_a_parameter_is_enough():
    def fn(half, x):
        table = jnp.concatenate([half, half], -1)
        return turned(x, jnp.cos(table), jnp.sin(table))

    export = converter.to_onnx(fn, [(3, 5, 8)], params=angles(5)[:, :4])
    assert export.report.fused["RotaryEmbedding"] == 1


@pytest.mark.parametrize(
    ("head", "rest"),
    [
        (np.s_[:, :8:2], np.s_[:, 4:]),
        (np.s_[:, :4], np.s_[:, 1:8:2]),
        (np.s_[:, :2], np.s_[:, 2:8:1]),
    ],
)
def test_a_prefix_is_what_precedes_the_rest(head, rest):
    def fn(x):
        rows = x[rest]
        table = angles(rows.shape[1])
        return jnp.concatenate([x[head], turned(rows, jnp.cos(table), jnp.sin(table))], 1)

    export = converted(fn, (3, 8, 8))
    assert export.report.fused["RotaryEmbedding"] == 1
    assert (export.report.nodes <= 3) == (head == np.s_[:, :2])


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


def test_the_other_direction_is_not_mistaken():
    def fn(x):
        angles = jnp.arange(20.0).reshape(5, 4) / 7
        a, b = x[..., :4], x[..., 4:]
        cos, sin = jnp.cos(angles), jnp.sin(angles)
        return jnp.concatenate([a * cos + b * sin, b * cos - a * sin], -1)

    assert converted(fn, (3, 5, 8)).report.fused["RotaryEmbedding"] == 0


# --------------------------------------------------------------------------------- norms and gelu


@pytest.mark.parametrize(
    ("fn", "op"),
    [
        (lambda x: x * 0.5 * (1 + lax.erf(x / 1.4)), "Gelu"),
        (lambda x: x * 0.6 * (1 + lax.erf(x / math.sqrt(2))), "Gelu"),
        (lambda x: 0.5 * x * (1 + jnp.tanh(0.8 * (x + 0.044 * x**3))), "Gelu"),
        (lambda x: 0.5 * (x + 1) * (1 + lax.erf(x / math.sqrt(2))), "Gelu"),
        (lambda x: (x - x.mean(0)) * lax.rsqrt(x.var(1, keepdims=True) + 1e-5), None),
        (lambda x: (x - x.mean(1, keepdims=True)) * lax.rsqrt(x.var() + 1e-5), None),
        (lambda x: (x - x.max(1, keepdims=True)) * lax.rsqrt(x.var(1, keepdims=True)), None),
        (
            lambda x: (
                (x - x.mean(1, keepdims=True))
                * lax.rsqrt(jnp.sum(jnp.square(x - x.mean(1, keepdims=True)), 1, keepdims=True) / 4)
            ),
            None,
        ),
    ],
)
def test_lookalikes_are_left_alone(fn, op):
    fused = converted(fn, (5, 8)).report.fused
    assert fused["Gelu"] == fused["LayerNormalization"] == 0


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, y: 0.5 * x * (1 + jnp.tanh(math.sqrt(2 / math.pi) * (x + y))),
        lambda x, y: 0.5 * x * (1 + jnp.tanh(math.sqrt(2 / math.pi) * (x * y + y * x))),
    ],
)
def test_other_arguments_of_tanh_are_left_alone(fn):
    assert converted(fn, (5, 8), (5, 8)).report.fused["Gelu"] == 0


def test_a_sum_over_copies_is_no_denominator():
    def fn(x):
        top = jnp.exp(x - x.max(1, keepdims=True))
        copies = jnp.broadcast_to(top[:, None], (5, 4, 8))
        return top / copies.sum((1, 2))[:, None]

    assert converted(fn, (5, 8)).report.histogram.get("Softmax", 0) == 0


def test_a_norm_of_nothing():
    def fn(x):
        return (x - x.mean(1, keepdims=True)) * lax.rsqrt(x.var(1, keepdims=True) + 1e-5)

    assert converted(fn, (5, 0)).report.fused["LayerNormalization"] == 0


def test_the_sample_variance_of_halves_is_told_by_the_dtype_of_its_divisor():
    """1/383 is 1/384 up to bfloat16's rounding; the mean is taken in float32."""

    def fn(x, count):
        centred = x - x.mean(1, keepdims=True)
        wide = jnp.square(centred.astype(jnp.float32)).sum(1, keepdims=True) / count
        return centred * lax.rsqrt(wide.astype(x.dtype) + jnp.asarray(1e-3, x.dtype))

    spec = jax.ShapeDtypeStruct((5, 384), jnp.bfloat16)
    for count, fused in ((384.0, 1), (383.0, 0)):
        report = converter.to_onnx(lambda x, n=count: fn(x, n), [spec]).report
        assert report.fused["LayerNormalization"] == fused


def test_scales_that_overflow_float16_together_stay_apart():
    def fn(x, w, g):
        y = (x - x.mean(1, keepdims=True)) * lax.rsqrt(x.var(1, keepdims=True) + 1e-3)
        return y * w * g

    x = 8 * jnp.eye(3, 64, dtype=jnp.float16)  # 7.9 in one place of each row, -0.13 elsewhere
    w, g = (jnp.full((64,), 300, jnp.float16) for _ in range(2))
    export = converter.to_onnx(fn, [x, w, g])
    (got,) = converter.run(converter.session(export), [x, w, g]).values()
    assert np.isfinite(got).sum() == 3 * 63
    np.testing.assert_allclose(got, np.asarray(fn(x, w, g)), rtol=1e-2)


def test_per_position_scale_stays_outside_the_norm():
    def fn(x, scale):
        y = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
        return y * scale

    export = converted(fn, (5, 8), (5, 1))
    assert export.report.fused["LayerNormalization"] == 1
    assert export.report.histogram["Mul"] == 1


# -------------------------------------------------------------------- where others go wrong


def test_gradient_of_dot_product_attention():
    def loss(q, k, v):
        return jnp.sum(jnp.square(jax.nn.dot_product_attention(q, k, v)))

    export = converted(jax.grad(loss, argnums=(0, 1, 2)), *[(2, 5, 3, 8)] * 3)
    assert export.report.near_misses == [] or export.report.fused["Attention"] == 0


@pytest.mark.full
def test_vmapped_gradient_of_dot_product_attention():
    def loss(q, k, v):
        return jnp.sum(jnp.square(jax.nn.dot_product_attention(q, k, v, is_causal=True)))

    converted(jax.vmap(jax.grad(loss)), *[(4, 2, 5, 3, 8)] * 3)


def test_a_scale_by_the_deviation_without_centring_is_no_rms_norm():
    """timm's SimpleNorm, in Equimo's spelling: the sample variance, times x itself."""

    def fn(x):
        deviation = x - x.mean(1, keepdims=True)
        variance = jnp.sum(jnp.square(deviation), axis=1, keepdims=True) / (x.shape[1] - 1)
        return x * lax.rsqrt(variance + 1e-6) * jnp.arange(1.0, 9.0)[:, None]

    export = converted(fn, (3, 8, 5))
    assert export.report.fused == {}
    (miss,) = export.report.near_misses
    assert miss.pattern == "RMSNormalization"
    assert "squared only" in miss.reason


@pytest.mark.parametrize("mine", [1, 2])
@pytest.mark.parametrize("other", [1, 2])
def test_a_scale_counts_as_often_as_it_multiplies(mine, other):
    """``x * s * s - mean * s`` is no norm; with as many on both sides it is."""

    def times(value, scale, count):
        return value if count == 0 else times(value * scale, scale, count - 1)

    def inside(x, scale):
        mean = x.mean(-1, keepdims=True)
        inverse = lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
        return x * times(inverse, scale, mine) - mean * times(inverse, scale, other)

    def outside(x, scale):
        mean = x.mean(-1, keepdims=True)
        inverse = lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
        return times(x * inverse, scale, mine) - times(mean * inverse, scale, other)

    for each in (inside, outside):
        fused = converted(each, (3, 8), (8,)).report.fused
        assert ("LayerNormalization" in fused) == (mine == other), fused
