"""Attention keeps its fused node, and what JAX makes of rows that are hidden throughout."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import converter

HEADS, ROWS, COLUMNS = 3, 5, 7
ROUNDING = {"float32": 4e-6, "float16": 4e-3}  # of weighted means of numbers that are about one
LOWEST = float(jnp.finfo(jnp.float32).min)
RNG = np.random.default_rng(11)
BIAS = jnp.asarray(RNG.standard_normal((HEADS, ROWS, COLUMNS)), jnp.float32)
CAUSAL = jnp.tril(jnp.ones((ROWS, COLUMNS), bool), 1)


def operands(dtype=jnp.float32, size=1.0):
    rng = np.random.default_rng(3)
    shapes = ((HEADS, ROWS, 8), (HEADS, COLUMNS, 8), (HEADS, COLUMNS, 6))
    return [jnp.asarray(size * rng.standard_normal(s), dtype) for s in shapes]


def visible():
    """A row that is hidden throughout, others in part, one not at all."""
    mask = np.random.default_rng(5).random((ROWS, COLUMNS)) > 0.5
    mask[1], mask[2] = False, True
    mask[[0, 3, 4], 2] = True
    return jnp.asarray(mask)


def attend(q, k, v, change):
    scores = change(jnp.einsum("hqd,hkd->hqk", q, k) / math.sqrt(q.shape[-1]))
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, axis=-1), v)


def exported(fn, inputs, **kwargs):
    """The export, after comparing what it computes, with and without the optimiser."""
    export = converter.to_onnx(fn, inputs, **kwargs)
    wanted = np.asarray(fn(*inputs))
    for optimise in (True, False):
        session = converter.session(export, optimise=optimise)
        (got,) = converter.run(session, inputs).values()
        np.testing.assert_allclose(got, wanted, rtol=0, atol=ROUNDING[wanted.dtype.name])
    return export


def assert_fused(fn, inputs, **kwargs):
    export = exported(fn, inputs, **kwargs)
    assert export.report.fused["Attention"] == 1, export.report.near_misses
    return export


FILLS = {
    "lowest": LOWEST,
    "jax": -0.7 * float(jnp.finfo(jnp.float32).max),
    "1e30": -1e30,
    "1e9": -1e9,
    "1e4": -1e4,
    "infinite": -math.inf,
}


@pytest.mark.parametrize("layout", ["4d", "3d"])
@pytest.mark.parametrize("fill", FILLS.values(), ids=FILLS)
def test_hidden_scores_are_filled(fill, layout):
    def fn(q, k, v, mask):
        return attend(q, k, v, lambda s: jnp.where(mask, s, fill))

    assert_fused(fn, [*operands(), visible()], attention_layout=layout)


@pytest.mark.parametrize("fill", [LOWEST, -1e30, -1e9, -math.inf])
def test_scores_that_are_large(fill):
    def fn(q, k, v, mask):
        return attend(q, k, v, lambda s: jnp.where(mask, s, fill))

    assert_fused(fn, [*operands(size=9.0), visible()])


@pytest.mark.parametrize("number", [LOWEST, -1e30, -1e9, -1e4, -50.0, -math.inf])
@pytest.mark.parametrize("wide", [False, True], ids=["rows", "heads"])
def test_masks_are_added_from_an_input(number, wide):
    def fn(q, k, v, mask):
        return attend(q, k, v, lambda s: s + mask)

    mask = jnp.where(visible(), 0.0, number)
    mask = jnp.broadcast_to(mask, (HEADS, ROWS, COLUMNS)).at[1].set(0.5) if wide else mask
    assert_fused(fn, [*operands(), mask])


def test_two_masks_of_the_lowest_number():
    """Hidden by both is lower than hidden by one: -inf beside the lowest number in one row."""

    def fn(q, k, v, mask, padding):
        return attend(q, k, v, lambda s: s + (mask + padding))

    mask = jnp.where(visible(), 0.0, LOWEST)
    padding = jnp.where(jnp.arange(COLUMNS) < 4, 0.0, LOWEST)
    assert_fused(fn, [*operands(), mask, padding])


def test_logarithm_of_a_mask():
    def fn(q, k, v, mask):
        return attend(q, k, v, lambda s: s + jnp.log(mask))

    assert_fused(fn, [*operands(), visible().astype(jnp.float32)])


def test_infinities_that_a_conversion_makes():
    def fn(q, k, v, mask):
        narrow = mask.astype(jnp.float16).astype(jnp.float32)
        return attend(q, k, v, lambda s: s + narrow)

    assert_fused(fn, [*operands(), jnp.where(visible(), 0.0, -1e9)])


def test_a_mask_of_weights():
    weights = jnp.where(visible(), 0.25, LOWEST)
    export = assert_fused(lambda q, k, v: attend(q, k, v, lambda s: s + weights), operands())
    assert export.report.histogram == {"Attention": 1, "Reshape": 4}


@pytest.mark.parametrize("number", [LOWEST, -1e9, -math.inf])
def test_a_scaled_mask(number):
    def fn(q, k, v, mask):
        return attend(q, k, v, lambda s: (0.5 * s + mask) * 0.75)

    assert_fused(fn, [*operands(), jnp.where(visible(), 0.0, number)])


@pytest.mark.parametrize("fill", [LOWEST, -1e30, -math.inf])
@pytest.mark.parametrize("outside", [False, True], ids=["inside", "outside"])
@pytest.mark.parametrize("number", [LOWEST, -1e9, -math.inf])
def test_a_fill_beside_an_added_mask(fill, outside, number):
    def fn(q, k, v, mask, added):
        def change(s):
            if outside:
                return jnp.where(mask, s, fill) + added
            return jnp.where(mask, s + added, fill)

        return attend(q, k, v, change)

    added = jnp.where(jnp.roll(visible(), 1, 0), 0.25, number)
    assert_fused(fn, [*operands(), visible(), added])


def test_a_known_mask_that_leaves_all_rows_costs_nothing():
    for fill in (-1e4, -1e9, LOWEST, -math.inf):

        def fn(q, k, v, fill=fill):
            return attend(q, k, v, lambda s: jnp.where(CAUSAL, s, fill))

        export = assert_fused(fn, operands())
        assert export.report.histogram == {"Attention": 1, "Reshape": 4}


def test_a_known_mask_too_large_to_fold():
    size = 1100

    def fn(q, k, v):
        keep = jnp.arange(size)[:, None] >= jnp.arange(size)
        scores = jnp.where(keep, q @ k.T, -jnp.inf)
        return jax.nn.softmax(scores, axis=-1) @ v

    rng = np.random.default_rng(0)
    inputs = [jnp.asarray(rng.standard_normal((size, 4)), jnp.float32) for _ in range(3)]
    export = assert_fused(fn, inputs)
    assert "ReduceMax" not in export.report.histogram


def test_a_bias_that_was_learnt_and_a_mild_fill():
    def fn(q, k, v, mask):
        return attend(q, k, v, lambda s: jnp.where(mask, s + BIAS, -1e9))

    assert_fused(fn, [*operands(), visible()])


def test_nested_fills():
    def fn(q, k, v, mask, padding):
        return attend(
            q, k, v, lambda s: jnp.where(padding, jnp.where(mask, s, LOWEST), 2 * LOWEST / 3)
        )

    assert_fused(fn, [*operands(), visible(), jnp.arange(COLUMNS) < 4])


def test_named_sizes():
    def fn(q, k, v, mask):
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) + mask[:, None, None]
        return jax.nn.softmax(scores, axis=-1) @ v

    specs = [("b", 3, "t", 8), ("b", 3, "t", 8), ("b", 3, "t", 6), ("b", "t")]
    export = converter.to_onnx(fn, specs)
    assert export.report.fused["Attention"] == 1
    rng = np.random.default_rng(0)
    for sizes in ({"b": 2, "t": 5}, {"b": 3, "t": 7}):
        shapes = [[sizes.get(d, d) for d in spec] for spec in specs[:3]]
        q, k, v = (jnp.asarray(rng.standard_normal(s), jnp.float32) for s in shapes)
        mask = jnp.zeros(tuple(sizes.values())).at[0].set(LOWEST).at[1, 1:].set(-math.inf)
        (got,) = converter.run(converter.session(export), [q, k, v, mask]).values()
        np.testing.assert_allclose(got, np.asarray(fn(q, k, v, mask)), rtol=0, atol=4e-6)


# ------------------------------------------------------------------------------------- libraries


@pytest.mark.full
def test_equinox():
    mha = eqx.nn.MultiheadAttention(3, 12, key=jax.random.key(0))
    x = jnp.asarray(np.random.default_rng(2).standard_normal((COLUMNS, 12)), jnp.float32)
    assert_fused(lambda x, mask: mha(x[:ROWS], x, x, mask=mask), [x, visible()])


@pytest.mark.full
def test_flax():
    mha = nnx.MultiHeadAttention(3, 12, rngs=nnx.Rngs(0), decode=False)
    x = jnp.asarray(np.random.default_rng(2).standard_normal((COLUMNS, 12)), jnp.float32)
    mask = jnp.ones((COLUMNS, COLUMNS), bool).at[2].set(False).at[4, 3].set(False)
    assert_fused(lambda x, mask: mha(x, mask=mask), [x, mask])


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16])
@pytest.mark.parametrize("biased", [False, True], ids=["mask", "bias"])
def test_jax(dtype, biased):
    def fn(q, k, v, mask, bias):
        q, k, v = (jnp.swapaxes(x.astype(dtype), 0, 1) for x in (q, k, v))
        given = {"bias": bias.astype(dtype)} if biased else {}
        wide = [x.astype(jnp.float32) for x in (q, k, v)]  # JAX has no such kernel on CPUs
        return jax.nn.dot_product_attention(*wide, mask=mask[None], **given).astype(dtype)

    q, k, v = operands(dtype)
    assert_fused(fn, [q, k, v[..., :6].repeat(2, -1)[..., :8], visible(), BIAS])


# ------------------------------------------------------------------------------- half precision


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_the_mask_of_narrow_scores(dtype):
    """float16 has no number that absorbs all scores: the node computes in float32."""

    def fn(q, k, v, mask):
        return attend(q, k, v, lambda s: jnp.where(mask, s, jnp.finfo(s.dtype).min))

    inputs = [*operands(dtype, size=2.0), visible()]
    export = converter.to_onnx(fn, inputs)
    assert export.report.fused["Attention"] == 1
    if dtype == jnp.float16:
        (got,) = converter.run(converter.session(export), inputs).values()
        np.testing.assert_allclose(got, np.asarray(fn(*inputs)), atol=2e-2)
        average = np.asarray(inputs[2], np.float32).mean(1)
        np.testing.assert_allclose(got[:, 1], average, atol=2e-3)


@pytest.mark.parametrize("number", [float(jnp.finfo(jnp.float16).min), -math.inf])
def test_an_added_mask_of_float16(number):
    def fn(q, k, v, mask):
        return attend(q, k, v, lambda s: s + mask)

    mask = jnp.where(visible(), 0.0, number).astype(jnp.float16)
    inputs = [*operands(jnp.float16), mask]
    export = converter.to_onnx(fn, inputs)
    assert export.report.fused["Attention"] == 1
    (got,) = converter.run(converter.session(export), inputs).values()
    np.testing.assert_allclose(got, np.asarray(fn(*inputs)), atol=1e-2)


# ------------------------------------------------------------------------------------ left alone


def bounded(fn, reason, *more):
    export = exported(fn, [*operands(), *more])
    assert export.report.fused["Attention"] == 0
    (miss,) = export.report.near_misses
    assert reason in miss.reason


def test_a_weak_fill_beside_an_unknown_mask():
    def fn(q, k, v, mask, added):
        return attend(q, k, v, lambda s: jnp.where(mask, s + added, -1e9))

    bounded(fn, "how low the fill value", visible(), jnp.where(visible(), 0.0, -1e9))


def test_a_bias_on_top_of_a_weak_fill():
    def fn(q, k, v, mask):
        return attend(q, k, v, lambda s: jnp.where(mask, s, -1e4) + BIAS)

    bounded(fn, "how low the fill value", visible())


def test_a_bias_between_weak_fills():
    def fn(q, k, v, mask, padding):
        def change(s):
            return jnp.where(padding, jnp.where(mask, s, -1e4) + BIAS, -1e4)

        return attend(q, k, v, change)

    bounded(fn, "how low the fill value", visible(), jnp.arange(COLUMNS) < 4)


def test_different_weak_fills():
    def fn(q, k, v, mask, padding):
        return attend(q, k, v, lambda s: jnp.where(padding, jnp.where(mask, s, -1e9), -2e9))

    bounded(fn, "how low the fill value", visible(), jnp.arange(COLUMNS) < 4)
