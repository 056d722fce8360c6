"""Attention keeps its fused node, and what JAX makes of rows that are hidden throughout."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import converter

HEADS, ROWS, COLUMNS = 3, 5, 7
ROUNDING = 4e-6  # of weighted means of numbers that are about one
LOWEST = float(jnp.finfo(jnp.float32).min)
RNG = np.random.default_rng(11)
BIAS = jnp.asarray(RNG.standard_normal((HEADS, ROWS, COLUMNS)), jnp.float32)
CAUSAL = jnp.tril(jnp.ones((ROWS, COLUMNS), bool), 1)
PADDING = jnp.arange(COLUMNS) < 4


def operands(dtype=jnp.float32, size=1.0):
    rng = np.random.default_rng(3)
    shapes = ((HEADS, ROWS, 8), (HEADS, COLUMNS, 8), (HEADS, COLUMNS, 6))
    return [jnp.asarray(size * rng.standard_normal(s), dtype) for s in shapes]


# A row that is hidden throughout, others in part, one not at all.
VISIBLE = np.random.default_rng(5).random((ROWS, COLUMNS)) > 0.5
VISIBLE[1], VISIBLE[2], VISIBLE[[0, 3, 4], 2] = False, True, True


def hidden(number, shown=0.0):
    return jnp.where(VISIBLE, shown, number)


def attend(change):
    """Attention whose scores are changed, with what changes them as further inputs."""

    def fn(q, k, v, *given):
        scores = change(jnp.einsum("hqd,hkd->hqk", q, k) / math.sqrt(q.shape[-1]), *given)
        return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, axis=-1), v)

    return fn


def exported(fn, inputs, fused=1, **how):
    """The export, after comparing what it computes, with and without the optimiser."""
    export = converter.to_onnx(fn, inputs, **how)
    assert export.report.fused["Attention"] == fused, export.report.near_misses
    for level in ("all", "disabled"):
        session = converter.session(export, level=level)
        (got,) = converter.run(session, inputs).values()
        np.testing.assert_allclose(got, np.asarray(fn(*inputs)), rtol=0, atol=ROUNDING)
    return export


# Of fills and added masks: lowest, JAX's own, one that absorbs, two that do not, infinity.
FILLS = (LOWEST, 0.7 * LOWEST, -1e30, -1e9, -1e4, -math.inf)


@pytest.mark.parametrize("fill", FILLS)
def test_hidden_scores_are_filled(fill):
    size = 1.0 if fill == -1e4 else 9.0  # scores of hundreds reach what is hidden by so little
    layout = "3d" if fill in (-1e9, LOWEST) else "4d"
    change = attend(lambda s, mask: jnp.where(mask, s, fill))
    exported(change, [*operands(size=size), VISIBLE], attention_layout=layout)


@pytest.mark.parametrize("number", [LOWEST, -1e30, -1e9, -1e4, -50.0, -math.inf])
@pytest.mark.parametrize("wide", [False, True], ids=["rows", "heads"])
def test_masks_are_added_from_an_input(number, wide):
    mask = hidden(number)
    mask = jnp.broadcast_to(mask, (HEADS, ROWS, COLUMNS)).at[1].set(0.5) if wide else mask
    exported(attend(jnp.add), [*operands(), mask])


@pytest.mark.parametrize("fill", [LOWEST, -1e30, -math.inf])
@pytest.mark.parametrize("number", [-1e9, -math.inf])
def test_a_fill_beside_an_added_mask(fill, number):
    more = jnp.roll(hidden(number, 0.25), 1, 0)
    for beside in (
        lambda s, mask, more: jnp.where(mask, s + more, fill),
        lambda s, mask, more: jnp.where(mask, s, fill) + more,
    ):
        exported(attend(beside), [*operands(), VISIBLE, more])


CHANGES = {
    "scaled": (lambda s, m: (0.5 * s + m) * 0.75, hidden(-math.inf, BIAS[0])),
    # Hidden by both is lower than hidden by one: -inf beside the lowest number in one row.
    "lowest twice": (lambda s, m, p: s + (m + p), hidden(LOWEST), jnp.where(PADDING, 0.0, LOWEST)),
    "logarithm": (lambda s, m: s + jnp.log(m), VISIBLE.astype(np.float32)),
    "converted": (lambda s, m: s + m.astype(jnp.float16).astype(jnp.float32), hidden(-1e9)),
    "learnt, and a mild fill": (lambda s, m: jnp.where(m, s + BIAS, -1e9), VISIBLE),
    "nested": (
        lambda s, m, p: jnp.where(p, jnp.where(m, s, LOWEST), 2 * LOWEST / 3),
        *(VISIBLE, PADDING),
    ),
}


def test_masks_that_are_known_cost_nothing():
    weights = hidden(LOWEST, 0.25)
    fills = [lambda s, fill=fill: jnp.where(CAUSAL, s, fill) for fill in FILLS]
    for change in (lambda s: s + weights, *fills):
        export = exported(attend(change), operands())
        assert export.report.histogram == {"Attention": 1, "Reshape": 4}


def test_a_known_mask_too_large_to_fold():
    size = 1100

    def fn(q, k, v):
        keep = jnp.arange(size)[:, None] >= jnp.arange(size)
        return jax.nn.softmax(jnp.where(keep, q @ k.T, -jnp.inf), axis=-1) @ v

    rng = np.random.default_rng(0)
    inputs = [jnp.asarray(rng.standard_normal((size, 4)), jnp.float32) for _ in range(3)]
    assert "ReduceMax" not in exported(fn, inputs).report.histogram


# ------------------------------------------------------------------------------- half precision


@pytest.mark.parametrize(
    ("dtype", "opset"), [(jnp.float16, 23), (jnp.bfloat16, 23), (jnp.bfloat16, 25)]
)
def test_the_mask_of_narrow_scores(dtype, opset):
    """float16 has no number that absorbs all scores, and runtimes have no kernels of bfloat16: the
    node computes in float32."""
    fn = attend(lambda s, mask: jnp.where(mask, s, jnp.finfo(s.dtype).min))
    inputs = [*operands(dtype, size=2.0), VISIBLE]
    export = converter.to_onnx(fn, inputs, opset=opset)
    assert export.report.fused["Attention"] == 1
    assert converter.check(export, fn, inputs).passed
    if dtype == jnp.float16:
        (got,) = converter.run(export, inputs).values()
        np.testing.assert_allclose(got, np.asarray(fn(*inputs)), atol=2e-2)
        np.testing.assert_allclose(got[:, 1], np.float32(inputs[2]).mean(1), atol=2e-3)


# ------------------------------------------------------------------------------------ left alone

BOUNDED = {
    "beside an unknown mask": (
        lambda s, m, more: jnp.where(m, s + more, -1e9),
        *(VISIBLE, hidden(-1e9)),
    ),
    "below a bias": (lambda s, m: jnp.where(m, s, -1e4) + BIAS, VISIBLE),
    "around a bias": (
        lambda s, m, p: jnp.where(p, jnp.where(m, s, -1e4) + BIAS, -1e4),
        *(VISIBLE, PADDING),
    ),
    "different": (lambda s, m, p: jnp.where(p, jnp.where(m, s, -1e9), -2e9), VISIBLE, PADDING),
}
"""Weak fills."""


@pytest.mark.parametrize("name", CHANGES | BOUNDED)
def test_other_masks(name):
    change, *given = (CHANGES | BOUNDED)[name]
    export = exported(attend(change), [*operands(), *given], fused=name in CHANGES)
    reasons = [miss.reason for miss in export.report.near_misses]
    assert ["how low the fill value" in reason for reason in reasons] == [True] * (name in BOUNDED)
