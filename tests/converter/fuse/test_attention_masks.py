"""Attention keeps its fused node, and what JAX makes of rows that are hidden throughout."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import converter

HEADS, ROWS, COLUMNS = 3, 5, 7
ROUNDING = {"float32": 4e-6, "float16": 4e-3}  # of weighted means of numbers that are about one
LOWEST = float(jnp.finfo(jnp.float32).min)
RNG = np.random.default_rng(11)
BIAS = jnp.asarray(RNG.standard_normal((HEADS, ROWS, COLUMNS)), jnp.float32)
CAUSAL = jnp.tril(jnp.ones((ROWS, COLUMNS), bool), 1)
PADDING = jnp.arange(COLUMNS) < 4


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


def hidden(number, shown=0.0):
    return jnp.where(visible(), shown, number)


def attend(change):
    """Attention whose scores are changed, with what changes them as further inputs."""

    def fn(q, k, v, *given):
        scores = change(jnp.einsum("hqd,hkd->hqk", q, k) / math.sqrt(q.shape[-1]), *given)
        return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, axis=-1), v)

    return fn


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


def added(s, mask):
    return s + mask


# Of fills and added masks: lowest, JAX's own, one that absorbs, two that do not, infinity.
FILLS = (LOWEST, 0.7 * LOWEST, -1e30, -1e9, -1e4, -math.inf)


@pytest.mark.parametrize("fill", FILLS)
def test_hidden_scores_are_filled(fill):
    size = 1.0 if fill == -1e4 else 9.0  # scores of hundreds reach what is hidden by so little
    layout = "3d" if fill in (-1e9, LOWEST) else "4d"
    change = attend(lambda s, mask: jnp.where(mask, s, fill))
    assert_fused(change, [*operands(size=size), visible()], attention_layout=layout)


@pytest.mark.parametrize("number", [LOWEST, -1e30, -1e9, -1e4, -50.0, -math.inf])
@pytest.mark.parametrize("wide", [False, True], ids=["rows", "heads"])
def test_masks_are_added_from_an_input(number, wide):
    mask = hidden(number)
    mask = jnp.broadcast_to(mask, (HEADS, ROWS, COLUMNS)).at[1].set(0.5) if wide else mask
    assert_fused(attend(added), [*operands(), mask])


BESIDE = {
    "inside": lambda fill: lambda s, mask, more: jnp.where(mask, s + more, fill),
    "outside": lambda fill: lambda s, mask, more: jnp.where(mask, s, fill) + more,
}


@pytest.mark.parametrize("fill", [LOWEST, -1e30, -math.inf])
@pytest.mark.parametrize("place", BESIDE)
@pytest.mark.parametrize("number", [-1e9, -math.inf])
def test_a_fill_beside_an_added_mask(fill, place, number):
    more = jnp.roll(hidden(number, 0.25), 1, 0)
    assert_fused(attend(BESIDE[place](fill)), [*operands(), visible(), more])


CHANGES = {
    "scaled": (lambda s, m: (0.5 * s + m) * 0.75, (hidden(-math.inf, BIAS[0]),)),
    # Hidden by both is lower than hidden by one: -inf beside the lowest number in one row.
    "two of the lowest number": (
        lambda s, mask, padding: s + (mask + padding),
        (hidden(LOWEST), jnp.where(PADDING, 0.0, LOWEST)),
    ),
    "logarithm": (lambda s, m: s + jnp.log(m), (visible().astype(jnp.float32),)),
    "made infinite by a conversion": (
        lambda s, mask: s + mask.astype(jnp.float16).astype(jnp.float32),
        (hidden(-1e9),),
    ),
    "learnt, and a mild fill": (lambda s, m: jnp.where(m, s + BIAS, -1e9), (visible(),)),
    "nested": (
        lambda s, mask, padding: jnp.where(padding, jnp.where(mask, s, LOWEST), 2 * LOWEST / 3),
        (visible(), PADDING),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_other_masks(name):
    change, given = CHANGES[name]
    assert_fused(attend(change), [*operands(), *given])


def test_masks_that_are_known_cost_nothing():
    weights = hidden(LOWEST, 0.25)
    fills = [lambda s, fill=fill: jnp.where(CAUSAL, s, fill) for fill in FILLS]
    for change in (lambda s: s + weights, *fills):
        export = assert_fused(attend(change), operands())
        assert export.report.histogram == {"Attention": 1, "Reshape": 4}


def test_a_known_mask_too_large_to_fold():
    size = 1100

    def fn(q, k, v):
        keep = jnp.arange(size)[:, None] >= jnp.arange(size)
        return jax.nn.softmax(jnp.where(keep, q @ k.T, -jnp.inf), axis=-1) @ v

    rng = np.random.default_rng(0)
    inputs = [jnp.asarray(rng.standard_normal((size, 4)), jnp.float32) for _ in range(3)]
    assert "ReduceMax" not in assert_fused(fn, inputs).report.histogram


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


@pytest.mark.parametrize(
    ("dtype", "opset"), [(jnp.float16, 23), (jnp.bfloat16, 23), (jnp.bfloat16, 25)]
)
def test_the_mask_of_narrow_scores(dtype, opset):
    """float16 has no number that absorbs all scores, and runtimes have no kernels of bfloat16: the
    node computes in float32."""
    fn = attend(lambda s, mask: jnp.where(mask, s, jnp.finfo(s.dtype).min))
    inputs = [*operands(dtype, size=2.0), visible()]
    export = converter.to_onnx(fn, inputs, opset=opset)
    assert export.report.fused["Attention"] == 1
    if dtype == jnp.bfloat16:
        assert converter.check(export, fn, inputs).passed
    else:
        (got,) = converter.run(converter.session(export), inputs).values()
        np.testing.assert_allclose(got, np.asarray(fn(*inputs)), atol=2e-2)
        average = np.asarray(inputs[2], np.float32).mean(1)
        np.testing.assert_allclose(got[:, 1], average, atol=2e-3)


# ------------------------------------------------------------------------------------ left alone

BOUNDED = {
    "weak, beside an unknown mask": (
        lambda s, mask, more: jnp.where(mask, s + more, -1e9),
        (visible(), hidden(-1e9)),
    ),
    "weak, below a bias": (lambda s, m: jnp.where(m, s, -1e4) + BIAS, (visible(),)),
    "weak, around a bias": (
        lambda s, mask, padding: jnp.where(padding, jnp.where(mask, s, -1e4) + BIAS, -1e4),
        (visible(), PADDING),
    ),
    "weak and different": (
        lambda s, mask, padding: jnp.where(padding, jnp.where(mask, s, -1e9), -2e9),
        (visible(), PADDING),
    ),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_fills_that_are_left_alone(name):
    change, given = BOUNDED[name]
    export = exported(attend(change), [*operands(), *given])
    assert export.report.fused["Attention"] == 0
    (miss,) = export.report.near_misses
    assert "how low the fill value" in miss.reason
