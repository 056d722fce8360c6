"""Every recogniser, in the spellings that people use, under JAX's transformations."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from tests.recognisers import WRAPS, Form, assert_recognised, wrapped

KEY = jax.random.key(0)


def floats(module, change):
    """The module with every array of floats changed."""

    def leaf(x):
        is_float = isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.floating)
        return change(x) if is_float else x

    return jax.tree.map(leaf, module)


def perturbed(module, seed=3):
    """Weights that make every branch matter: no zeros, no ones."""
    rng = np.random.default_rng(seed)
    return floats(module, lambda x: x + 0.3 * rng.standard_normal(x.shape).astype(x.dtype))


def channels_first(x):
    """Equimo's LayerNorm2d: one mean a place, over the channels; in float32 whatever comes in."""
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide, axis=0, keepdims=True)
    variance = jnp.mean(jnp.square(wide - mean), axis=0, keepdims=True)
    weight = jnp.arange(1, 9, dtype=jnp.float32)[:, None, None] / 8
    y = (wide - mean) * lax.rsqrt(variance + 1e-6) * weight + (weight - 0.5)
    return y.astype(x.dtype)


def tables(x, spread=lambda t: t):
    """Cosines and sines, of half the width of ``x`` or, spread, of all of it."""
    *_, length, width = x.shape
    angles = np.arange(length)[:, None] / 10 ** (np.arange(width // 2) / width)
    return [spread(jnp.asarray(fn(angles), x.dtype)) for fn in (np.cos, np.sin)]


def turned(x, cos, sin):
    """The llama spelling."""
    a, b = jnp.split(x, 2, axis=-1)
    return x * cos + jnp.concatenate([-b, a], -1) * sin


def neighbours(x, cos, sin):
    return x * cos + jnp.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape) * sin


def rotate_full(x):
    """With tables tiled to the full width."""
    return turned(x, *tables(x, lambda t: jnp.concatenate([t, t], -1)))


def rotate_pairwise(x):
    cos, sin = tables(x)
    a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def rotate_interleaved(x):
    cos, sin = tables(x)
    a, b = x[..., ::2], x[..., 1::2]
    return jnp.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)


def rotate_interleaved_full(x):
    return neighbours(x, *tables(x, lambda t: jnp.repeat(t, 2, axis=-1)))


def rotate_pair_axis(x):
    """Pairs as an axis of two (Equimo 2's interleaved layout), each number of a table twice."""
    cos, sin = tables(x, lambda t: jnp.repeat(t, 2, axis=-1))
    a, b = jnp.unstack(x.reshape(*x.shape[:-1], -1, 2), axis=-1)
    return x * cos + jnp.stack([-b, a], -1).reshape(x.shape) * sin


def rotate_rest(x):
    """DINOv3's way: the first tokens are left alone."""
    return jnp.concatenate([x[..., :2, :], rotate_full(x[..., 2:, :])], -2)


def dot_product(**how):
    return lambda *xs: jax.nn.dot_product_attention(*xs, **how)


def dot_product_masked(q, k, v, mask):
    return jax.nn.dot_product_attention(q, k, v, mask=mask > 0)


def mha_rotary(q, k, v):
    turn = jax.vmap(eqx.nn.RotaryPositionalEmbedding(4), 1, 1)
    return MHA(q, k, v, process_heads=lambda q, k, v: (turn(q), turn(k), v))


NORM = perturbed(eqx.nn.LayerNorm(8))
OTHER_NORM = perturbed(eqx.nn.LayerNorm(8), seed=1)
ROPE = eqx.nn.RotaryPositionalEmbedding(8)
MHA = perturbed(eqx.nn.MultiheadAttention(3, 12, key=KEY))
OF_MHA = ((5, 12), (7, 12), (7, 12))
TNH = ((5, 4, 8), (7, 4, 8), (7, 4, 8))
GROUPED = ((5, 6, 8), (7, 2, 8), (7, 2, 8))
NORMS, RMS, GELU = {"LayerNormalization": 1}, {"RMSNormalization": 1}, {"Gelu": 1}
LOG, ROTARY, ONE = {"LogSoftmax": 1}, {"RotaryEmbedding": 1}, {"Attention": 1}
FAMILIES = {
    "norm": [
        Form("eqx", NORM, ((8,),), NORMS),
        Form("eqx_two_axes", perturbed(eqx.nn.LayerNorm((4, 6), eps=1e-3)), ((4, 6),), NORMS),
        Form("channels_first", channels_first, ((8, 3, 5),), NORMS),
        Form("two_scales", lambda x: NORM(x) * OTHER_NORM(x), ((8,),), {"LayerNormalization": 2}),
    ],
    "rms": [Form("eqx", perturbed(eqx.nn.RMSNorm(8, use_bias=False)), ((8,),), RMS)],
    "gelu": [
        Form("jax_exact", lambda x: jax.nn.gelu(x, approximate=False), ((3, 5),), GELU),
        Form("jax_tanh", lambda x: jax.nn.gelu(x, approximate=True), ((3, 5),), GELU),
        Form("gated", lambda x, y: jax.nn.gelu(x) * y, ((3, 5), (3, 5)), GELU),
    ],
    "log_softmax": [
        Form("jax", jax.nn.log_softmax, ((3, 5),), LOG),
        Form("jax_middle", lambda x: jax.nn.log_softmax(x, axis=-2), ((2, 5, 3),), LOG),
    ],
    "rotary": [
        Form("eqx", ROPE, ((5, 8),), ROTARY),
        Form("eqx_heads", jax.vmap(ROPE, in_axes=1, out_axes=1), ((5, 3, 8),), ROTARY),
        Form("full", rotate_full, ((3, 5, 8),), ROTARY),
        Form("pairwise", rotate_pairwise, ((3, 5, 8),), ROTARY),
        Form("interleaved", rotate_interleaved, ((3, 5, 8),), ROTARY),
        Form("interleaved_full", rotate_interleaved_full, ((3, 5, 8),), ROTARY),
        Form("pair_axis", rotate_pair_axis, ((3, 5, 8),), ROTARY),
        Form("prefix", rotate_rest, ((3, 7, 8),), ROTARY),
    ],
    "attention": [
        Form("jax", dot_product(), TNH, ONE, half_on_cpu=False),
        Form("jax_causal", dot_product(is_causal=True), TNH, ONE, half_on_cpu=False),
        Form("jax_grouped", dot_product(), GROUPED, ONE, half_on_cpu=False),
        Form("jax_bias", dot_product(), (*TNH, (4, 5, 7)), ONE, half_on_cpu=False),
        Form("jax_mask", dot_product_masked, (*TNH, (4, 5, 7)), ONE, half_on_cpu=False),
        Form("jax_local", dot_product(local_window_size=2), TNH, ONE, half_on_cpu=False),
        Form("eqx", MHA, OF_MHA, ONE),
        Form("eqx_rotary", mha_rotary, OF_MHA, {"Attention": 1, "RotaryEmbedding": 2}),
    ],
}
ATTENTIONS = FAMILIES["attention"]
ALL = [(f"{family}-{f.name}", f) for family, forms in FAMILIES.items() for f in forms]

every_form = pytest.mark.parametrize("form", [f for _, f in ALL], ids=[n for n, _ in ALL])
every_wrap = pytest.mark.parametrize("how", WRAPS)


@pytest.mark.sampled(20)
@every_wrap
@every_form
def test_recognised(form, how):
    assert_recognised(form, how)


@pytest.mark.sampled(150, full=12)
@every_wrap
@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16], ids=["f16", "bf16"])
@every_form
def test_recognised_in_low_precision(form, dtype, how):
    low = replace(form, fn=floats(form.fn, lambda x: x.astype(dtype)))
    assert_recognised(low, how, dtype)


@pytest.mark.sampled(80, full=10)
@pytest.mark.parametrize("opset", [17, 18, 20, 24, 26])
@every_form
def test_opsets(form, opset):
    since = {"Attention": 23, "RotaryEmbedding": 23, "RMSNormalization": 23, "Gelu": 20}
    ops = {op: n for op, n in form.ops.items() if since.get(op, 17) <= opset}
    assert_recognised(replace(form, ops=ops), "vmap1", opset=opset)


@pytest.mark.sampled(80, full=9)
@every_wrap
@pytest.mark.parametrize("form", ATTENTIONS, ids=[f.name for f in ATTENTIONS])
def test_three_dimensional_layout(form, how):
    assert_recognised(form, how, layout="3d")


@pytest.mark.sampled(100, full=8)
@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("how", ["vmap0", "vmap1", "vmap-1", "nested"])
@every_form
def test_axes_of_one(form, how, opset):
    """An axis of one is one of many, but that a reshape may stand for a transposition."""
    fn, shapes = wrapped(form, how)
    axis = 0 if how == "nested" else int(how.removeprefix("vmap"))
    reports = []
    for size in (3, 1):
        sized = [list(shape) for shape in shapes]
        for shape in sized:
            shape[axis] = size
        reports.append(converter.to_onnx(fn, sized, opset=opset).report)
    many, one = reports
    assert one.fused == many.fused
    for name, count in one.histogram.items():
        assert name == "Reshape" or count <= many.histogram.get(name, 0), name
