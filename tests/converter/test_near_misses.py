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


def unknown_mask_small_fill(q, k, v, mask):
    logits = jnp.where(mask > 0, scores(q, k), -1e9)
    return attend(jax.nn.softmax(logits, axis=-1), v)


def unknown_mask_mild_fill(q, k, v, mask):
    logits = jnp.where(mask > 0, scores(q, k), -50.0)
    return attend(jax.nn.softmax(logits, axis=-1), v)


def added_infinity(q, k, v, mask):
    logits = scores(q, k) + jnp.where(mask > 0, 0.0, -jnp.inf)
    return attend(jax.nn.softmax(logits, axis=-1), v)


def added_to_a_bias(q, k, v, mask, bias):
    logits = scores(q, k) + (bias + jnp.where(mask > 0, 0.0, -jnp.inf))
    return attend(jax.nn.softmax(logits, axis=-1), v)


def negative_scale(q, k, v):
    return attend(jax.nn.softmax(-0.5 * scores(q, k), axis=-1), v)


def soft_capped(q, k, v):
    return attend(jax.nn.softmax(jnp.tanh(scores(q, k) / 5) * 5, axis=-1), v)


@pytest.mark.parametrize(
    ("fn", "shapes", "reason"),
    [
        (weights_returned, QKV, "used elsewhere"),
        (scores_returned, QKV, "used elsewhere"),
        (unknown_mask_small_fill, (*QKV, (5, 7)), "masked throughout"),
        (unknown_mask_mild_fill, (*QKV, (5, 7)), "not negative enough"),
        (added_infinity, (*QKV, (5, 7)), "-inf throughout"),
        (added_to_a_bias, (*QKV, (5, 7), (5, 7)), "-inf throughout"),
        (negative_scale, QKV, "not positive"),
        (soft_capped, QKV, "tanh"),
    ],
)
def test_attention_stays_decomposed(fn, shapes, reason):
    export = converted(fn, *shapes)
    assert export.report.fused["Attention"] == 0
    assert export.report.histogram["Softmax"] == 1
    assert any(m.pattern == "Attention" and reason in m.reason for m in export.report.near_misses)


def test_infinite_fill_with_an_unknown_mask_gives_nan_as_in_jax():
    def fn(q, k, v, mask):
        logits = jnp.where(mask > 0, scores(q, k), -jnp.inf)
        return attend(jax.nn.softmax(logits, axis=-1), v)

    rng = np.random.default_rng(0)
    q, k, v = (jnp.asarray(rng.standard_normal(s), jnp.float32) for s in QKV)
    mask = jnp.asarray(rng.standard_normal((5, 7)), jnp.float32).at[2].set(-1.0)
    export = converter.to_onnx(fn, [q, k, v, mask])
    assert export.report.fused["Attention"] == 0
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


def test_half_precision_mask_by_hand_is_not_trusted():
    def fn(q, k, v, mask):
        logits = jnp.where(mask > 0, scores(q, k), jnp.finfo(jnp.float16).min)
        return attend(jax.nn.softmax(logits, axis=-1), v)

    export = converted(fn, *QKV, (5, 7), dtype=jnp.float16)
    assert export.report.fused["Attention"] == 0


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


def test_tables_that_are_parameters_may_get_other_numbers(tmp_path):
    """Their halves are equal by chance of the numbers that they have now."""
    tables = {"cos": jnp.cos(angles(5)), "sin": jnp.sin(angles(5))}
    x = np.random.default_rng(5).standard_normal((3, 5, 8)).astype(np.float32)

    def fn(tables, x):
        return turned(x, tables["cos"], tables["sin"])

    export = converter.to_onnx(fn, [x], params=tables)
    assert export.report.fused["RotaryEmbedding"] == 0
    assert any("it is a parameter" in m.reason for m in export.report.near_misses)
    others = {
        name: np.asarray(table) ** 2 + np.arange(8, dtype=np.float32)
        for name, table in tables.items()
    }
    export.save(tmp_path / "other.onnx", values=others)
    (got,) = converter.run(ir.load(tmp_path / "other.onnx"), [x]).values()
    np.testing.assert_allclose(got, fn(others, x), rtol=1e-5, atol=1e-5)


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
